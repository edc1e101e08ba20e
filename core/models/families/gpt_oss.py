"""gpt_oss: experts with biases, interleaved and clamped; a sink beside the scores; a window in every other layer."""
import torch
from torch import nn

from transformers.integrations.eager_attention import eager_attention_with_sinks
from transformers.integrations.mxfp4 import Mxfp4GptOssExperts, mlp_forward
from transformers.masking_utils import by_kind, create_causal_mask, create_sliding_window_causal_mask
from transformers.modeling_moe import Experts, MoeCausalLM, TopKRouter
from transformers.modeling_norm import RMSNormCastLast
from transformers.modeling_rope_utils import HalfRotaryEmbedding, turn_halves
from transformers.releases import refuse
from transformers.models.llama.modeling_llama import LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaModel
from transformers.models.qwen2.modeling_qwen2 import Qwen2Attention


class GptOssConfig(LlamaConfig):
    model_type = "gpt_oss"
    attribute_map = {"num_experts": "num_local_experts"}
    base_model_tp_plan = None
    default_theta = 150000.0
    bos_token_id: int | None = None
    vocab_size: int = 201088
    hidden_size: int = 2880
    intermediate_size: int = 2880
    num_hidden_layers: int = 36
    num_attention_heads: int = 64
    num_key_value_heads: int = 8
    head_dim: int = 64
    max_position_embeddings: int = 131072
    rms_norm_eps: float = 1e-5
    attention_bias: bool = True
    num_local_experts: int = 128
    num_experts_per_tok: int = 4
    sliding_window: int | None = 128
    layer_types: list | None = None
    swiglu_alpha: float = 1.702
    swiglu_limit: float = 7.0
    output_router_logits: bool = False
    router_aux_loss_coef: float = 0.001

    def __post_init__(self, **kwargs):
        if self.layer_types is None:
            self.layer_types = ["full_attention" if i % 2 else "sliding_attention" for i in range(self.num_hidden_layers)]
        if self.rope_parameters is None:
            self.rope_parameters = {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096}
        super().__post_init__(**kwargs)


class GptOssRMSNorm(RMSNormCastLast):
    pass


class GptOssExperts(Experts):
    has_bias = is_transposed = True

    def __init__(self, config):
        nn.Module.__init__(self)
        self.config, self.num_experts = config, config.num_experts
        hidden, inner = config.hidden_size, config.intermediate_size
        self.gate_up_proj = nn.Parameter(torch.empty(self.num_experts, hidden, 2 * inner))
        self.gate_up_proj_bias = nn.Parameter(torch.empty(self.num_experts, 2 * inner))
        self.down_proj = nn.Parameter(torch.empty(self.num_experts, inner, hidden))
        self.down_proj_bias = nn.Parameter(torch.empty(self.num_experts, hidden))

    def _apply_gate(self, gate_up):
        limit = self.config.swiglu_limit
        gate, up = gate_up[..., ::2], gate_up[..., 1::2]
        gate = gate.clamp(min=None, max=limit)
        up = up.clamp(min=-limit, max=limit)
        glu = gate * torch.sigmoid(gate * self.config.swiglu_alpha)
        gated = (up + 1) * glu
        return gated


class GptOssTopKRouter(TopKRouter):
    def __init__(self, config):
        super().__init__(config)
        self.bias = nn.Parameter(torch.zeros(self.num_experts))

    def forward(self, hidden_states):
        router_logits = nn.functional.linear(hidden_states, self.weight, self.bias)
        top_value, indices = torch.topk(router_logits, self.top_k, dim=-1)
        scores = nn.functional.softmax(top_value, dim=1, dtype=top_value.dtype)
        self.record(router_logits)
        return router_logits, scores, indices


class GptOssMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.router = GptOssTopKRouter(config)
        self.experts = GptOssExperts(config)

    def forward(self, hidden_states):
        batch_size, sequence_length, hidden_dim = hidden_states.shape
        hidden_states = hidden_states.reshape(-1, hidden_dim)
        _, scores, indices = self.router(hidden_states)
        hidden_states = self.experts(hidden_states, indices, scores)
        hidden_states = hidden_states.reshape(batch_size, sequence_length, hidden_dim)
        return hidden_states, scores


class Mxfp4GptOssMLP(GptOssMLP):
    forward = mlp_forward

    def __init__(self, config):
        nn.Module.__init__(self)
        self.router = GptOssTopKRouter(config)
        self.experts = Mxfp4GptOssExperts(config)


def mlp_of(config):
    return (Mxfp4GptOssMLP if getattr(config, "_experts_packed", None) == "mxfp4" else GptOssMLP)(config)


class GptOssAttention(Qwen2Attention):
    eager = staticmethod(eager_attention_with_sinks)

    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.sinks = nn.Parameter(torch.empty(config.num_attention_heads))

    def biases(self, config):
        return config.attention_bias, config.attention_bias

    def forward(self, hidden_states, **kwargs):
        if self.config._attn_implementation == "flash_attention_2":
            refuse("/training/attention", "gpt_oss takes a flash kernel of the hub that knows sinks in its place; that is not modelled: attention eager")
        return super().forward(hidden_states, s_aux=self.sinks, **kwargs)

    @staticmethod
    def rotate(q, k, cos, sin):
        cos = cos.unsqueeze(1)
        sin = sin.unsqueeze(1)
        q_turned = turn_halves(q, cos, sin)
        k_turned = turn_halves(k, cos, sin)
        return q_turned, k_turned


class GptOssDecoderLayer(LlamaDecoderLayer):
    attention, feed_forward, norm = GptOssAttention, staticmethod(mlp_of), GptOssRMSNorm

    def forward(self, hidden_states, **kwargs):
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        hidden_states, _ = self.self_attn(hidden_states=hidden_states, **kwargs)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.post_attention_layernorm(hidden_states)
        hidden_states, _ = self.mlp(hidden_states)
        hidden_states = residual + hidden_states
        return hidden_states


class GptOssModel(LlamaModel):
    layer, rotary = GptOssDecoderLayer, HalfRotaryEmbedding

    def masks(self, position_ids=None, **of):
        """Both kinds; neither looks for several sequences in a row."""
        masks = {"full_attention": create_causal_mask(**of), "sliding_attention": create_sliding_window_causal_mask(**of)}
        return by_kind(masks, self.config.layer_types)


class GptOssForCausalLM(MoeCausalLM, LlamaForCausalLM):
    config_class, decoder, _no_split_modules = GptOssConfig, GptOssModel, ["GptOssDecoderLayer"]
    _supports_sdpa, _keep_in_fp32_modules = False, ["post_attention_layernorm", "input_layernorm", "norm"]


causal_lm = GptOssForCausalLM
