"""olmo: llama with norms that have no weights, tables of the rotation in fp32, and queries, keys and values that may be clipped."""
import torch
import torch.nn.functional as F
from torch import nn

from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaModel
from transformers.models.olmo2.modeling_olmo2 import Olmo2Attention, Olmo2RotaryEmbedding


class OlmoConfig(LlamaConfig):
    model_type = "olmo"
    bos_token_id: int | None = None
    vocab_size: int = 50304
    pad_token_id: int | None = 1
    clip_qkv: float | None = None


class OlmoLayerNorm(nn.Module):
    def __init__(self, hidden_size, eps=None):
        super().__init__()
        self.normalized_shape = (hidden_size,)

    def forward(self, x):
        dtype = x.dtype
        return F.layer_norm(x.to(dtype=torch.float32), self.normalized_shape, None, None, eps=1e-5).to(dtype)


class OlmoAttention(LlamaAttention):
    rotate = staticmethod(Olmo2Attention.rotate)

    def project(self, x):
        shape, bound = (*x.shape[:-1], -1, self.head_dim), self.config.clip_qkv
        q = self.q_proj(x)
        k = self.k_proj(x)
        v = self.v_proj(x)
        if bound is not None:
            q.clamp_(min=-bound, max=bound)
            k.clamp_(min=-bound, max=bound)
            v.clamp_(min=-bound, max=bound)
        return q.view(shape).transpose(1, 2), k.view(shape).transpose(1, 2), v.view(shape).transpose(1, 2)


class OlmoDecoderLayer(LlamaDecoderLayer):
    attention, norm = OlmoAttention, OlmoLayerNorm


class OlmoModel(LlamaModel):
    layer, rotary = OlmoDecoderLayer, Olmo2RotaryEmbedding


class OlmoForCausalLM(LlamaForCausalLM):
    config_class, decoder, _no_split_modules = OlmoConfig, OlmoModel, ["OlmoDecoderLayer"]


causal_lm = OlmoForCausalLM
