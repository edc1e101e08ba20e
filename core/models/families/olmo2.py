"""olmo2: llama with norms of whole queries and keys, and norms after attention and feed-forward instead of before."""
import torch

from transformers.modeling_norm import RMSNormCastLast
from transformers.modeling_normed_heads import NormedWhole
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaModel
from transformers.models.llama.modeling_llama import LlamaRMSNorm, LlamaRotaryEmbedding, apply_rotary_pos_emb


class Olmo2Config(LlamaConfig):
    model_type = "olmo2"
    base_model_tp_plan = LlamaConfig.base_model_tp_plan | {f"layers.*.self_attn.{n}_proj": "colwise_gather_output" for n in "qkv"} | {
        "layers.*.self_attn.o_proj": "rowwise_split_input"}
    bos_token_id: int | None = None
    vocab_size: int = 50304
    pad_token_id: int | None = 1
    rms_norm_eps: float = 1e-5


class Olmo2RMSNorm(RMSNormCastLast):
    pass


class Olmo2RotaryEmbedding(LlamaRotaryEmbedding):
    def tables(self, cos, sin, dtype):
        return cos, sin


class Olmo2Attention(NormedWhole, LlamaAttention):
    norm = Olmo2RMSNorm

    @staticmethod
    def rotate(q, k, cos, sin):
        q_dtype, k_dtype = q.dtype, k.dtype
        q, k = apply_rotary_pos_emb(q, k, cos, sin)
        return q.to(q_dtype), k.to(k_dtype)


class Olmo2DecoderLayer(LlamaDecoderLayer):
    attention, norm = Olmo2Attention, Olmo2RMSNorm

    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.post_feedforward_layernorm = self.norm(config.hidden_size, eps=config.rms_norm_eps)
        del self.input_layernorm

    def forward(self, hidden_states, **kwargs):
        residual = hidden_states
        hidden_states, _ = self.self_attn(hidden_states=hidden_states, **kwargs)
        hidden_states = self.post_attention_layernorm(hidden_states)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.mlp(hidden_states)
        hidden_states = self.post_feedforward_layernorm(hidden_states)
        hidden_states = residual + hidden_states
        return hidden_states


class Olmo2Model(LlamaModel):
    config_class, layer, rotary = Olmo2Config, Olmo2DecoderLayer, Olmo2RotaryEmbedding


class Olmo2ForCausalLM(LlamaForCausalLM):
    config_class, decoder = Olmo2Config, Olmo2Model


causal_lm = Olmo2ForCausalLM
