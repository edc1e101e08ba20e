"""llama4_text: experts that all see every token, scaled by its score, beside a shared one; heads turn as complex numbers in three layers of four."""
import torch

from transformers.integrations.eager_attention import eager_attention_without_cast
from transformers.masking_utils import by_kind, create_causal_mask, create_chunked_causal_mask
from transformers.modeling_decoder import attend
from transformers.modeling_interleaved_rope import turn_as_complex
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_moe_dense import Llama4TextMLP, Llama4TextMoe
from transformers.modeling_norm import L2Norm, RMSNormSplit
from transformers.models.deepseek_v2.modeling_deepseek_v2 import DeepseekV2RotaryEmbedding
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaForCausalLM, LlamaModel


class Llama4TextConfig(LlamaConfig):
    model_type, default_theta, attribute_map = "llama4_text", 500000.0, {"num_experts": "num_local_experts"}
    base_model_tp_plan = {f"layers.*.self_attn.{n}_proj": "colwise" for n in "qkv"} | {"layers.*.self_attn.o_proj": "rowwise"} | {
        f"layers.*.feed_forward.{at}{n}_proj": style for at in ("shared_expert.", "")
        for n, style in (("gate", "colwise"), ("up", "colwise"), ("down", "rowwise"))} | {
        "layers.*.feed_forward.experts.gate_up_proj": "packed_rowwise", "layers.*.feed_forward.experts.down_proj": "colwise",
        "layers.*.feed_forward.experts": "moe_tp_experts"}
    vocab_size: int = 202048
    hidden_size: int = 5120
    intermediate_size: int = 8192
    intermediate_size_mlp: int = 16384
    num_hidden_layers: int = 48
    num_attention_heads: int = 40
    num_key_value_heads: int | None = 8
    head_dim: int | None = 128
    max_position_embeddings: int = 131072
    rms_norm_eps: float = 1e-5
    num_experts_per_tok: int = 1
    num_local_experts: int = 16
    moe_layers: list | None = None
    interleave_moe_layer_step: int = 1
    use_qk_norm: bool = True
    output_router_logits: bool = False
    no_rope_layers: list | None = None
    no_rope_layer_interval: int = 4
    attention_chunk_size: int | None = 8192
    layer_types: list | None = None
    attn_temperature_tuning: bool = True
    floor_scale: int = 8192
    attn_scale: float = 0.1

    def __post_init__(self, **kwargs):
        if not self.no_rope_layers:
            self.no_rope_layers = [int((i + 1) % self.no_rope_layer_interval != 0) for i in range(self.num_hidden_layers)]
        if self.moe_layers is None:
            self.moe_layers = list(range(self.interleave_moe_layer_step - 1, self.num_hidden_layers, self.interleave_moe_layer_step))
        if self.layer_types is None:
            self.layer_types = ["chunked_attention" if turns else "full_attention" for turns in self.no_rope_layers]
        super().__post_init__(**kwargs)


class Llama4TextAttention(LlamaAttention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.use_rope = config.no_rope_layers[layer_idx]
        self.tuned = config.attn_temperature_tuning and not self.use_rope
        if config.use_qk_norm and self.use_rope:
            self.qk_norm = L2Norm(config.rms_norm_eps)

    def forward(self, hidden_states, position_embeddings=None, attention_mask=None, past_key_values=None, **kwargs):
        rows = hidden_states.shape[:-1]
        shape = (*rows, -1, self.head_dim)
        q = self.q_proj(hidden_states).view(shape)
        k = self.k_proj(hidden_states).view(shape)
        v = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        if self.use_rope:
            q, k = turn_as_complex(q, k, position_embeddings.to(q.device)[:, :, None, :])
        if hasattr(self, "qk_norm"):
            q = self.qk_norm(q)
            k = self.qk_norm(k)
        if self.tuned:
            seen = past_key_values.get_seq_length(self.layer_idx) if past_key_values is not None else 0
            places = torch.arange(hidden_states.shape[1], device=hidden_states.device) + seen
            scales = torch.log1p(torch.floor((places.float() + 1.0) / self.config.floor_scale)) * self.config.attn_scale + 1.0
            scales = scales.view((1, rows[-1], 1, 1)).expand((*rows, 1, 1))
            q = (q * scales).to(q.dtype)
        q = q.transpose(1, 2)
        k = k.transpose(1, 2)
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, self.layer_idx)
        output, weights = attend(self, q, k, v, attention_mask, eager_attention_without_cast, dropout=self.attention_dropout if self.training else 0.0,
                                 scaling=self.scaling, **kwargs)
        output = output.reshape(*rows, -1).contiguous()
        output = self.o_proj(output)
        return output, weights


class Llama4TextDecoderLayer(GradientCheckpointingLayer):
    norm = RMSNormSplit

    def __init__(self, config, layer_idx):
        super().__init__()
        self.self_attn = Llama4TextAttention(config, layer_idx)
        self.is_moe_layer = layer_idx in config.moe_layers
        self.feed_forward = Llama4TextMoe(config) if self.is_moe_layer else Llama4TextMLP(config, config.intermediate_size_mlp)
        self.input_layernorm = self.norm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = self.norm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(self, hidden_states, attention_mask=None, **kwargs):
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        attended, _ = self.self_attn(hidden_states=hidden_states, attention_mask=attention_mask, **kwargs)
        hidden_states = residual + attended
        residual = hidden_states
        hidden_states = self.post_attention_layernorm(hidden_states)
        hidden_states = self.feed_forward(hidden_states)
        if self.is_moe_layer:
            hidden_states, _ = hidden_states
        hidden_states = residual + hidden_states.view(residual.shape)
        return hidden_states


class Llama4TextModel(LlamaModel):
    layer, rotary = Llama4TextDecoderLayer, DeepseekV2RotaryEmbedding

    def masks(self, **of):
        masks = {"full_attention": create_causal_mask(**of), "chunked_attention": create_chunked_causal_mask(**of)}
        return by_kind(masks, self.config.layer_types)


class Llama4ForCausalLM(LlamaForCausalLM):
    config_class, decoder, _no_split_modules, _supports_flash_attn = Llama4TextConfig, Llama4TextModel, ["Llama4TextDecoderLayer"], False


causal_lm = Llama4ForCausalLM
