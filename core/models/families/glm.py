"""glm: llama with gate and up in one projection, biases on query, key and value, and neighbours of half a head rotated."""
import torch

from transformers.modeling_interleaved_rope import doubled, rotate_pairs
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaModel, LlamaRMSNorm
from transformers.models.phi3.modeling_phi3 import Phi3Config, Phi3MLP


class GlmConfig(LlamaConfig):
    model_type, partial_rotary_factor = "glm", 0.5
    base_model_tp_plan = {k: v for k, v in LlamaConfig.base_model_tp_plan.items() if "self_attn" in k} | {
        k: v for k, v in Phi3Config.base_model_tp_plan.items() if "mlp" in k}
    bos_token_id: int | None = None
    vocab_size: int = 151552
    intermediate_size: int = 13696
    num_hidden_layers: int = 40
    num_key_value_heads: int | None = 2
    head_dim: int | None = 128
    max_position_embeddings: int = 131072
    rms_norm_eps: float = 0.00000015625
    pad_token_id: int | None = 151329
    attention_bias: bool = True


class GlmAttention(LlamaAttention):
    @staticmethod
    def rotate(q, k, cos, sin):
        cos, sin = doubled(cos, sin)
        turned = cos.shape[-1]
        q_part, q_rest = q[..., :turned], q[..., turned:]
        k_part, k_rest = k[..., :turned], k[..., turned:]
        q = (q_part * cos) + (rotate_pairs(q_part) * sin)
        k = (k_part * cos) + (rotate_pairs(k_part) * sin)
        q = torch.cat([q, q_rest], dim=-1)
        k = torch.cat([k, k_rest], dim=-1)
        return q, k

    def biases(self, config):
        return config.attention_bias, False


class GlmRMSNorm(LlamaRMSNorm):
    pass


class GlmDecoderLayer(LlamaDecoderLayer):
    attention, feed_forward, norm = GlmAttention, Phi3MLP, GlmRMSNorm


class GlmModel(LlamaModel):
    layer = GlmDecoderLayer


class GlmForCausalLM(LlamaForCausalLM):
    config_class, decoder, _no_split_modules = GlmConfig, GlmModel, ["GlmDecoderLayer"]


causal_lm = GlmForCausalLM
