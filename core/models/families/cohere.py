"""cohere: attention and feed-forward side by side behind one norm, neighbours rotated in fp32, logits scaled."""
import torch
from torch import nn

from transformers.modeling_interleaved_rope import rotate_pairs
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaModel
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding


class CohereConfig(LlamaConfig):
    model_type, attribute_map, default_theta = "cohere", {"rms_norm_eps": "layer_norm_eps"}, 500000.0
    vocab_size: int = 256000
    hidden_size: int = 8192
    intermediate_size: int = 22528
    logit_scale: float | None = 0.0625
    num_hidden_layers: int = 40
    num_attention_heads: int = 64
    max_position_embeddings: int = 8192
    layer_norm_eps: float | None = 1e-5
    pad_token_id: int | None = 0
    tie_word_embeddings: bool = True
    use_qk_norm: bool | None = False


class CohereLayerNorm(nn.Module):
    def __init__(self, hidden_size=None, eps=1e-5, bias=False):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps

    def forward(self, x):
        dtype = x.dtype
        x = x.to(torch.float32)
        mean = x.mean(-1, keepdim=True)
        variance = (x - mean).pow(2).mean(-1, keepdim=True)
        x = (x - mean) * torch.rsqrt(variance + self.variance_epsilon)
        x = self.weight.to(torch.float32) * x
        return x.to(dtype)


class CohereRotaryEmbedding(LlamaRotaryEmbedding):
    @staticmethod
    def angles(freqs):
        return torch.repeat_interleave(freqs, 2, dim=-1)


class CohereAttention(LlamaAttention):
    @staticmethod
    def rotate(q, k, cos, sin):
        dtype = q.dtype
        q = q.float()
        k = k.float()
        cos = cos.unsqueeze(1)
        sin = sin.unsqueeze(1)
        q_turned = (q * cos) + (rotate_pairs(q) * sin)
        k_turned = (k * cos) + (rotate_pairs(k) * sin)
        return q_turned.to(dtype=dtype), k_turned.to(dtype=dtype)

    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.use_qk_norm = getattr(config, "use_qk_norm", False)
        if self.use_qk_norm:
            self.q_norm = CohereLayerNorm((config.num_attention_heads, self.head_dim), eps=config.layer_norm_eps)
            self.k_norm = CohereLayerNorm((config.num_key_value_heads, self.head_dim), eps=config.layer_norm_eps)

    def project(self, x):
        shape = (*x.shape[:-1], -1, self.head_dim)
        q = self.q_proj(x).view(shape)
        k = self.k_proj(x).view(shape)
        v = self.v_proj(x).view(shape)
        if self.use_qk_norm:
            q = self.q_norm(q)
            k = self.k_norm(k)
        return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)


class CohereDecoderLayer(LlamaDecoderLayer):
    attention, norm = CohereAttention, CohereLayerNorm

    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        del self.post_attention_layernorm

    def forward(self, hidden_states, **kwargs):
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        attended, _ = self.self_attn(hidden_states=hidden_states, **kwargs)
        fed = self.mlp(hidden_states)
        hidden_states = residual + attended + fed
        return hidden_states


class CohereModel(LlamaModel):
    layer, rotary = CohereDecoderLayer, CohereRotaryEmbedding


class CohereForCausalLM(LlamaForCausalLM):
    config_class, decoder, _no_split_modules = CohereConfig, CohereModel, ["CohereDecoderLayer"]

    def logits(self, x):
        logits = self.lm_head(x)
        logits = logits * self.config.logit_scale
        return logits


causal_lm = CohereForCausalLM
