"""stablelm: llama with layer norms, a quarter of each head rotated, and attention beside the feed-forward where it is asked for."""
import torch
from torch import nn

from transformers.models.llama.modeling_llama import LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaModel, projected_first
from transformers.models.phi.modeling_phi import PartlyRotated


class StableLmConfig(LlamaConfig):
    model_type, attribute_map, partial_rotary_factor = "stablelm", {"rms_norm_eps": "layer_norm_eps"}, 0.25
    base_model_tp_plan = None
    vocab_size: int = 50304
    intermediate_size: int = 6912
    hidden_size: int = 2560
    num_key_value_heads: int | None = 32
    max_position_embeddings: int = 4096
    layer_norm_eps: float = 1e-5
    use_qkv_bias: bool = False
    qk_layernorm: bool = False
    use_parallel_residual: bool = False
    hidden_dropout: float = 0.0


class StableLmLayerNormPerHead(nn.Module):
    def __init__(self, dim, num_heads, eps=1e-5, bias=False):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(dim, eps=eps, bias=bias) for _ in range(num_heads)])

    def forward(self, x):
        heads = torch.split(x, 1, dim=1)
        return torch.cat([norm(x) for norm, x in zip(self.norms, heads)], dim=1)


class StableLmAttention(PartlyRotated):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        if config.qk_layernorm:
            self.q_layernorm = StableLmLayerNormPerHead(self.head_dim, config.num_attention_heads, eps=config.layer_norm_eps)
            self.k_layernorm = StableLmLayerNormPerHead(self.head_dim, config.num_key_value_heads, eps=config.layer_norm_eps)

    def biases(self, config):
        return config.use_qkv_bias, False

    def project(self, x):
        q, k, v = projected_first(self, x)
        if self.config.qk_layernorm:
            q = self.q_layernorm(q)
            k = self.k_layernorm(k)
        return q, k, v


class StableLmDecoderLayer(LlamaDecoderLayer):
    attention, norm = StableLmAttention, nn.LayerNorm

    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.use_parallel_residual = config.use_parallel_residual
        if self.use_parallel_residual:
            self.post_attention_layernorm = None
        self.dropout = nn.Dropout(config.hidden_dropout)

    def forward(self, hidden_states, **kwargs):
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        attended, _ = self.self_attn(hidden_states=hidden_states, **kwargs)
        if self.use_parallel_residual:
            fed = self.mlp(hidden_states)
            fed = self.dropout(fed)
            hidden_states = residual + attended + fed
        else:
            residual = residual + attended
            fed = self.mlp(self.post_attention_layernorm(residual))
            fed = self.dropout(fed)
            hidden_states = residual + fed
        return hidden_states


class StableLmModel(LlamaModel):
    layer = StableLmDecoderLayer


class StableLmForCausalLM(LlamaForCausalLM):
    config_class, decoder, _tp_plan, _no_split_modules = StableLmConfig, StableLmModel, None, ["StableLmDecoderLayer"]


causal_lm = StableLmForCausalLM
