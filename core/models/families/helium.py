"""helium: llama with neighbours rotated, and norms whose weights are upcast."""
import torch

from transformers.modeling_interleaved_rope import doubled, rotate_pairs
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaModel, LlamaRMSNorm


class HeliumConfig(LlamaConfig):
    model_type, default_theta = "helium", 100000.0
    vocab_size: int = 48000
    hidden_size: int = 2560
    intermediate_size: int = 7040
    num_hidden_layers: int = 24
    num_attention_heads: int = 20
    num_key_value_heads: int | None = 20
    head_dim: int | None = 128
    max_position_embeddings: int = 4096
    rms_norm_eps: float = 1e-8
    pad_token_id: int | None = 3


class HeliumRMSNorm(LlamaRMSNorm):
    def forward(self, x):
        dtype = x.dtype
        x = x.to(torch.float32)
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.variance_epsilon)
        return (self.weight.to(torch.float32) * x).to(dtype)


class HeliumAttention(LlamaAttention):
    @staticmethod
    def rotate(q, k, cos, sin):
        cos, sin = doubled(cos, sin)
        q_turned = (q * cos) + (rotate_pairs(q) * sin)
        k_turned = (k * cos) + (rotate_pairs(k) * sin)
        return q_turned, k_turned

    def biases(self, config):
        return config.attention_bias, False

    def width_of_heads(self, config, q):
        return config.hidden_size


class HeliumDecoderLayer(LlamaDecoderLayer):
    attention, norm = HeliumAttention, HeliumRMSNorm


class HeliumModel(LlamaModel):
    layer = HeliumDecoderLayer


class HeliumForCausalLM(LlamaForCausalLM):
    config_class, decoder, _no_split_modules = HeliumConfig, HeliumModel, ["HeliumDecoderLayer"]


causal_lm = HeliumForCausalLM
