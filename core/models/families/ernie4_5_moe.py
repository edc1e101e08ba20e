"""ernie4_5_moe: ernie4_5 with experts chosen in fp32 by scores with a frozen correction, beside shared ones."""
import torch
from torch import nn

from transformers.modeling_moe import Experts, MoeCausalLM, SparseMoeBlock, TopKRouter, experts_tp_plan
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaMLP, LlamaModel
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding


class Ernie4_5_MoeConfig(LlamaConfig):
    model_type = "ernie4_5_moe"
    default_theta = 500000.0
    attribute_map = {"num_experts": "moe_num_experts", "num_experts_per_tok": "moe_k"}
    base_model_tp_plan = LlamaConfig.base_model_tp_plan | experts_tp_plan() | {
        f"layers.*.mlp.shared_experts.{n}_proj": "rowwise" if n == "down" else "colwise" for n in ("gate", "up", "down")}
    vocab_size: int = 103424
    pad_token_id: int | None = 0
    hidden_size: int = 2560
    intermediate_size: int = 12288
    num_hidden_layers: int = 28
    num_attention_heads: int = 20
    num_key_value_heads: int | None = 4
    max_position_embeddings: int = 131072
    rms_norm_eps: float = 1e-5
    tie_word_embeddings: bool = True
    use_bias: bool | None = False
    moe_intermediate_size: int = 1536
    moe_k: int | None = 6
    moe_num_experts: int | None = 64
    moe_num_shared_experts: int | None = 2
    moe_layer_start_index: int | None = 1
    moe_layer_end_index: int | None = -1
    moe_layer_interval: int | None = 1
    moe_norm_min: float | None = 1e-12
    output_router_logits: bool | None = False
    router_aux_loss_coef: float | None = 0.001

    def __post_init__(self, **kwargs):
        self.moe_layer_end_index = self.num_hidden_layers - 1 if self.moe_layer_end_index == -1 else self.moe_layer_end_index
        self.mlp_bias, self.attention_dropout = self.use_bias, 0.0
        super().__post_init__(**kwargs)


class Ernie4_5_MoeRotaryEmbedding(LlamaRotaryEmbedding):
    def tables(self, cos, sin, dtype):
        return cos, sin


def rotate_half(x):
    even = x[..., 0::2]
    odd = x[..., 1::2]
    return torch.stack((-odd, even), dim=-1).flatten(-2)


class Ernie4_5_MoeAttention(LlamaAttention):
    def biases(self, config):
        return config.use_bias, config.use_bias

    @staticmethod
    def rotate(q, k, cos, sin):
        dtype = q.dtype
        cos = cos.unsqueeze(1)
        sin = sin.unsqueeze(1)
        cos = cos[..., : cos.shape[-1] // 2].repeat_interleave(2, dim=-1)
        sin = sin[..., : sin.shape[-1] // 2].repeat_interleave(2, dim=-1)
        q_turned = (q.float() * cos) + (rotate_half(q).float() * sin)
        k_turned = (k.float() * cos) + (rotate_half(k).float() * sin)
        return q_turned.to(dtype), k_turned.to(dtype)


class Ernie4_5_MoeStatics(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.e_score_correction_bias = nn.Parameter(torch.zeros(1, config.moe_num_experts, dtype=torch.float32), requires_grad=False)

    def forward(self, hidden_states):
        return hidden_states + self.e_score_correction_bias.squeeze()


class Ernie4_5_MoeTopKRouter(TopKRouter):
    def __init__(self, config):
        super().__init__(config)
        self.weight = nn.Parameter(torch.zeros(config.moe_num_experts, config.hidden_size, dtype=torch.float32))
        self.moe_statics, self.norm_min = Ernie4_5_MoeStatics(config), config.moe_norm_min

    def forward(self, hidden_states):
        with torch.autocast(device_type="cuda", enabled=False):
            router_logits = nn.functional.linear(hidden_states.float(), self.weight.float())
            weights = nn.functional.softmax(router_logits, dim=1, dtype=torch.float)
            _, indices = torch.topk(self.moe_statics(weights), self.top_k, dim=-1)
            weights = torch.gather(weights, dim=-1, index=indices)
            weights = weights / torch.clamp(weights.sum(dim=-1, keepdim=True), min=self.norm_min)
        weights = weights.to(hidden_states.dtype)
        self.record(router_logits)
        return router_logits, weights, indices


class Ernie4_5_MoeSparseMoeBlock(SparseMoeBlock):
    router = Ernie4_5_MoeTopKRouter

    def __init__(self, config):
        super().__init__(config)
        shared = config.moe_num_shared_experts
        self.shared_experts = LlamaMLP(config, config.moe_intermediate_size * shared) if shared > 0 else None

    def forward(self, hidden_states):
        batch_size, sequence_length, hidden_dim = hidden_states.shape
        hidden_states = hidden_states.view(-1, hidden_dim)
        if self.shared_experts is not None:
            shared = self.shared_experts(hidden_states)
        _, weights, indices = self.gate(hidden_states)
        out = self.experts(hidden_states, indices, weights)
        if self.shared_experts is not None:
            out = out + shared
        out = out.reshape(batch_size, sequence_length, hidden_dim)
        return out.to(hidden_states.dtype)


class Ernie4_5_MoeDecoderLayer(LlamaDecoderLayer):
    attention, sparse = Ernie4_5_MoeAttention, Ernie4_5_MoeSparseMoeBlock

    def make_mlp(self, config, layer_idx):
        within = config.moe_layer_start_index <= layer_idx <= config.moe_layer_end_index
        return self.sparse(config) if within and (layer_idx + 1) % config.moe_layer_interval == 0 else self.feed_forward(config)


class Ernie4_5_MoeModel(LlamaModel):
    layer, rotary = Ernie4_5_MoeDecoderLayer, Ernie4_5_MoeRotaryEmbedding


class Ernie4_5_MoeForCausalLM(MoeCausalLM, LlamaForCausalLM):
    config_class, decoder, _no_split_modules = Ernie4_5_MoeConfig, Ernie4_5_MoeModel, ["Ernie4_5_MoeDecoderLayer"]
    _keep_in_fp32_modules_strict = ["gate.weight", "moe_statics"]

    def __init__(self, config):
        self.head_bias = config.use_bias
        super().__init__(config)


causal_lm = Ernie4_5_MoeForCausalLM
