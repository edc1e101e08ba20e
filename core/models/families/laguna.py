"""laguna: experts beside a shared one, chosen by biased sigmoids; as many heads as a layer's own number says, gated; windows and rotations by kind of layer."""
import torch
import torch.nn.functional as F
from torch import nn

from transformers.masking_utils import by_kind, create_causal_mask, create_sliding_window_causal_mask
from transformers.modeling_decoder import DecoderOfKinds
from transformers.modeling_moe import Experts, MoeCausalLM, TopKRouter, experts_tp_plan
from transformers.modeling_rope_utils import RotaryEmbeddingOfKinds, apply_rotary_pos_emb_partly
from transformers.modeling_tp import tp_plan
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaMLP, LlamaModel, LlamaRMSNorm
from transformers.models.qwen3.modeling_qwen3 import Qwen3Config
from transformers.releases import refuse

OF_EACH = "layer_types", "mlp_layer_types", "num_attention_heads_per_layer"


class LagunaConfig(LlamaConfig):
    model_type = "laguna"
    base_model_tp_plan = Qwen3Config.base_model_tp_plan | experts_tp_plan() | tp_plan(
        colwise="self_attn.g_proj mlp.shared_experts.gate_proj mlp.shared_experts.up_proj", rowwise="mlp.shared_experts.down_proj")
    bos_token_id: int | None = None
    vocab_size: int = 100352
    hidden_size: int = 2048
    intermediate_size: int = 8192
    num_hidden_layers: int = 40
    num_attention_heads: int = 48
    num_key_value_heads: int = 8
    head_dim: int = 128
    max_position_embeddings: int = 131072
    sliding_window: int = 512
    moe_intermediate_size: int = 512
    shared_expert_intermediate_size: int = 512
    num_experts_per_tok: int = 8
    num_experts: int = 256
    output_router_logits: bool = False
    router_aux_loss_coef: float = 0.001
    layer_types: list | None = None
    gating: bool | str = True
    num_attention_heads_per_layer: list | None = None
    mlp_layer_types: list | None = None
    moe_routed_scaling_factor: float = 1.0
    moe_apply_router_weight_on_input: bool = False
    moe_router_logit_softcapping: float = 0.0

    def __post_init__(self, **kwargs):
        layers = self.num_hidden_layers
        self.layer_types = self.layer_types or ["full_attention"] * layers
        self.mlp_layer_types = self.mlp_layer_types or ["dense"] + ["sparse"] * (layers - 1)
        self.num_attention_heads_per_layer = self.num_attention_heads_per_layer or [self.num_attention_heads] * layers
        if self.moe_apply_router_weight_on_input:
            refuse("/config/moe_apply_router_weight_on_input", "true: LagunaConfig takes it for not implemented")
        for name in OF_EACH:
            if len(getattr(self, name)) != layers:
                refuse(f"/config/{name}", "LagunaConfig wants one of each layer")
        if any(n % self.num_key_value_heads for n in self.num_attention_heads_per_layer):
            refuse("/config/num_attention_heads_per_layer", "heads that num_key_value_heads does not divide: attention raises")
        super().__post_init__(**kwargs)

    def _rope(self, others):
        if self.rope_parameters is None:
            self.rope_parameters = {"full_attention": {"rope_type": "default", "rope_theta": 500000.0, "partial_rotary_factor": 0.5},
                                    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}}


class LagunaTopKRouter(TopKRouter):
    def __init__(self, config):
        super().__init__(config)
        self.e_score_correction_bias = nn.Parameter(torch.zeros(config.num_experts), requires_grad=False)
        self.cap = config.moe_router_logit_softcapping

    def forward(self, hidden_states):
        hidden_states = hidden_states.reshape(-1, self.hidden_dim)
        router_logits = F.linear(hidden_states, self.weight).float()
        if self.cap > 0.0:
            router_logits = torch.tanh(router_logits / self.cap) * self.cap
        scores = torch.sigmoid(router_logits)
        choice = scores + self.e_score_correction_bias.to(scores.dtype)
        _, selected = torch.topk(choice, self.top_k, dim=-1)
        weights = scores.gather(-1, selected)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        weights = weights.to(hidden_states.dtype)
        self.record(router_logits)
        return router_logits, weights, selected


class LagunaSparseMoeBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.experts = Experts(config)
        self.gate = LagunaTopKRouter(config)
        self.shared_experts = LlamaMLP(config, config.shared_expert_intermediate_size)
        self.routed_scaling_factor = config.moe_routed_scaling_factor

    def forward(self, hidden_states):
        batch_size, sequence_length, hidden_dim = hidden_states.shape
        hidden_states = hidden_states.view(-1, hidden_dim)
        shared_output = self.shared_experts(hidden_states)
        _, weights, selected = self.gate(hidden_states)
        hidden_states = self.experts(hidden_states, selected, weights)
        hidden_states = hidden_states * self.routed_scaling_factor
        hidden_states = hidden_states + shared_output
        hidden_states = hidden_states.reshape(batch_size, sequence_length, hidden_dim)
        return hidden_states


class LagunaAttention(LlamaAttention):
    rotate = staticmethod(apply_rotary_pos_emb_partly)

    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        heads, bias = config.num_attention_heads_per_layer[layer_idx], config.attention_bias
        self.num_key_value_groups = heads // config.num_key_value_heads
        self.q_proj = nn.Linear(config.hidden_size, heads * self.head_dim, bias=bias)
        self.o_proj = nn.Linear(heads * self.head_dim, config.hidden_size, bias=bias)
        self.keywords = {"sliding_window": config.sliding_window if config.layer_types[layer_idx] == "sliding_attention" else None}
        self.q_norm = LlamaRMSNorm(self.head_dim, eps=config.rms_norm_eps)
        self.k_norm = LlamaRMSNorm(self.head_dim, eps=config.rms_norm_eps)
        self.gate_per_head = config.gating is True or config.gating == "per-head"
        self.g_proj = nn.Linear(config.hidden_size, heads if self.gate_per_head else heads * self.head_dim, bias=False)

    def project(self, x):
        shape = (*x.shape[:-1], -1, self.head_dim)
        q = self.q_proj(x).view(shape)
        k = self.k_proj(x).view(shape)
        v = self.v_proj(x).view(shape)
        q = self.q_norm(q).transpose(1, 2)
        k = self.k_norm(k).transpose(1, 2)
        return q, k, v.transpose(1, 2), [x]

    def gated(self, output, held):
        x, rows = held[0], held[0].shape[:-1]
        gate = F.softplus(self.g_proj(x).float()).to(output.dtype)
        held.append(gate)  # a name of the frame that runs the projection out
        if self.gate_per_head:
            return (output.view(*rows, -1, self.head_dim) * gate.unsqueeze(-1)).view(*rows, -1)
        return output * gate


class LagunaDecoderLayer(LlamaDecoderLayer):
    attention = LagunaAttention

    def make_mlp(self, config, layer_idx):
        return LagunaSparseMoeBlock(config) if config.mlp_layer_types[layer_idx] == "sparse" else LlamaMLP(config)


class LagunaModel(DecoderOfKinds, LlamaModel):
    layer, rotary = LagunaDecoderLayer, RotaryEmbeddingOfKinds

    def masks(self, **of):
        """Of the kinds that there are alone."""
        make = {"full_attention": create_causal_mask, "sliding_attention": create_sliding_window_causal_mask}
        kinds = self.config.layer_types
        return by_kind({kind: make[kind](**of) for kind in self.kinds_in_turn(kinds)}, kinds)


class LagunaForCausalLM(MoeCausalLM, LlamaForCausalLM):
    config_class, decoder, _no_split_modules = LagunaConfig, LagunaModel, ["LagunaDecoderLayer"]


causal_lm = LagunaForCausalLM
