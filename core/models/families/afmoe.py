"""afmoe: norms around attention and feed-forward, a gate on what attention gives, experts beside shared ones; windows in three of four layers, which alone rotate."""
import torch
from torch import nn

from transformers.configuration_utils import windows_but_every
from transformers.modeling_decoder import DecoderOfKinds
from transformers.modeling_moe import Experts, MoeCausalLM, TopKRouter, experts_tp_plan
from transformers.modeling_norm import RMSNormCastLast
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaMLP, LlamaModel
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb


class AfmoeConfig(LlamaConfig):
    model_type, base_model_tp_plan = "afmoe", experts_tp_plan()
    bos_token_id: int | None = None
    vocab_size: int = 200192
    hidden_size: int = 2048
    intermediate_size: int = 6144
    moe_intermediate_size: int = 1408
    num_dense_layers: int = 1
    num_attention_heads: int = 16
    head_dim: int | None = 128
    max_position_embeddings: int = 16384
    rms_norm_eps: float = 1e-5
    num_experts: int = 64
    num_experts_per_tok: int = 6
    num_shared_experts: int = 2
    route_scale: float = 1.0
    output_router_logits: bool = False
    global_attn_every_n_layers: int = 4
    sliding_window: int | None = 1024
    layer_types: list | None = None
    mup_enabled: bool = False

    def __post_init__(self, **kwargs):
        if self.layer_types is None:
            every = self.global_attn_every_n_layers
            self.layer_types = windows_but_every(every, self.num_hidden_layers)
        super().__post_init__(**kwargs)


class AfmoeRMSNorm(RMSNormCastLast):
    pass


class AfmoeTokenChoiceRouter(nn.Module):
    recorded, record = None, TopKRouter.record

    def __init__(self, config):
        super().__init__()
        self.top_k, self.route_scale = config.num_experts_per_tok, config.route_scale
        self.gate = nn.Linear(config.hidden_size, config.num_experts, bias=False)

    def forward(self, hidden_states, expert_bias):
        hidden_states = hidden_states.view(-1, hidden_states.shape[-1])
        router_logits = self.gate(hidden_states).to(torch.float32)
        scores = torch.sigmoid(router_logits)
        _, selected = torch.topk(scores + expert_bias, k=self.top_k, dim=1)
        top_scores = scores.gather(dim=1, index=selected)
        denominator = top_scores.sum(dim=-1, keepdim=True) + 1e-20
        top_scores = top_scores / denominator
        top_scores = top_scores * self.route_scale
        self.record(router_logits)
        return router_logits, top_scores, selected


class AfmoeSparseMoeBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.router = AfmoeTokenChoiceRouter(config)
        self.shared_experts = LlamaMLP(config, config.moe_intermediate_size * config.num_shared_experts)
        self.experts = Experts(config)
        self.expert_bias = nn.Parameter(torch.zeros(config.num_experts), requires_grad=False)

    def forward(self, hidden_states):
        shape = hidden_states.shape
        rows = hidden_states.view(-1, shape[-1])
        _, top_scores, selected = self.router(hidden_states, self.expert_bias)
        shared = self.shared_experts(rows).view(*shape)
        routed = self.experts(rows, selected, top_scores).view(*shape)
        return shared + routed


class AfmoeAttention(LlamaAttention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.is_local = config.layer_types[layer_idx] == "sliding_attention"
        self.keywords = {"sliding_window": config.sliding_window if self.is_local else None}
        self.q_norm = AfmoeRMSNorm(self.head_dim, eps=config.rms_norm_eps)
        self.k_norm = AfmoeRMSNorm(self.head_dim, eps=config.rms_norm_eps)
        self.gate_proj = nn.Linear(config.hidden_size, config.num_attention_heads * self.head_dim, bias=False)

    def project(self, x):
        shape = (*x.shape[:-1], -1, self.head_dim)
        q = self.q_proj(x).view(shape)
        k = self.k_proj(x).view(shape)
        v = self.v_proj(x).view(shape)
        gate = self.gate_proj(x)
        q = self.q_norm(q).transpose(1, 2)
        k = self.k_norm(k).transpose(1, 2)
        return q, k, v.transpose(1, 2), gate

    def rotate(self, q, k, cos, sin):
        return apply_rotary_pos_emb(q, k, cos, sin) if self.is_local else (q, k)

    def gated(self, output, gate):
        return output * torch.sigmoid(gate)


class AfmoeDecoderLayer(LlamaDecoderLayer):
    attention, norm = AfmoeAttention, AfmoeRMSNorm

    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        for name in "pre_mlp_layernorm", "post_mlp_layernorm":
            setattr(self, name, self.norm(config.hidden_size, eps=config.rms_norm_eps))
        mlp = self.mlp  # made last
        del self.mlp
        self.mlp = mlp

    def make_mlp(self, config, layer_idx):
        return AfmoeSparseMoeBlock(config) if layer_idx >= config.num_dense_layers else self.feed_forward(config)

    def forward(self, hidden_states, **kwargs):
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        hidden_states, _ = self.self_attn(hidden_states=hidden_states, **kwargs)
        hidden_states = self.post_attention_layernorm(hidden_states)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.pre_mlp_layernorm(hidden_states)
        hidden_states = self.mlp(hidden_states)
        hidden_states = self.post_mlp_layernorm(hidden_states)
        hidden_states = residual + hidden_states
        return hidden_states


class AfmoeModel(LlamaModel):
    layer = AfmoeDecoderLayer

    def masks(self, position_ids=None, **of):  # neither looks for several sequences in a row
        return DecoderOfKinds.masks(self, **of)

    def start(self, inputs_embeds):
        return inputs_embeds * self.config.hidden_size**0.5 if self.config.mup_enabled else inputs_embeds


class AfmoeForCausalLM(LlamaForCausalLM):
    config_class, decoder, _no_split_modules = AfmoeConfig, AfmoeModel, ["AfmoeDecoderLayer"]
    _keep_in_fp32_modules = ["input_layernorm", "post_attention_layernorm", "pre_mlp_layernorm", "post_mlp_layernorm", "q_norm", "k_norm", "norm", "expert_bias"]


causal_lm = AfmoeForCausalLM
