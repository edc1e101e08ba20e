"""nemotron: llama with layer norms around weights plus one, a part of each head rotated, and arcee's feed-forward."""
import torch
import torch.nn.functional as F
from torch import nn

from transformers.models.arcee.modeling_arcee import ArceeConfig, ArceeMLP
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaDecoderLayer, LlamaForCausalLM, LlamaModel, rotate_half


class NemotronConfig(ArceeConfig):
    model_type, attribute_map, partial_rotary_factor = "nemotron", {"rms_norm_eps": "norm_eps"}, 0.5
    vocab_size: int = 256000
    hidden_size: int = 6144
    intermediate_size: int = 24576
    num_attention_heads: int = 48
    norm_eps: float = 1e-5


class NemotronLayerNorm1P(nn.LayerNorm):
    def forward(self, x):
        weight, bias = self.weight + 1.0, self.bias
        if torch.is_autocast_enabled():
            dtype = torch.get_autocast_dtype("cuda")
            x, weight, bias = x.to(dtype), weight.to(dtype), bias.to(dtype)
        with torch.autocast(device_type="cuda", enabled=False):
            return F.layer_norm(x, self.normalized_shape, weight, bias, self.eps)


class NemotronAttention(LlamaAttention):
    @staticmethod
    def rotate(q, k, cos, sin):
        cos = cos.unsqueeze(1)
        sin = sin.unsqueeze(1)
        turned = cos.shape[-1]
        q, q_rest = q[..., :turned], q[..., turned:]
        k, k_rest = k[..., :turned], k[..., turned:]
        q_turned = (q * cos) + (rotate_half(q) * sin)
        k_turned = (k * cos) + (rotate_half(k) * sin)
        return torch.cat((q_turned, q_rest), dim=-1), torch.cat((k_turned, k_rest), dim=-1)


class NemotronDecoderLayer(LlamaDecoderLayer):
    attention, feed_forward, norm = NemotronAttention, ArceeMLP, NemotronLayerNorm1P


class NemotronModel(LlamaModel):
    layer = NemotronDecoderLayer


class NemotronForCausalLM(LlamaForCausalLM):
    config_class, decoder, _no_split_modules = NemotronConfig, NemotronModel, ["NemotronDecoderLayer"]


causal_lm = NemotronForCausalLM
