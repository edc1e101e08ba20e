"""persimmon: gpt_neox's feed-forward, heads whose query, key and value stand side by side and are normed, half of each rotated."""
import torch
from torch import nn

from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXMLP
from transformers.models.llama.modeling_llama import LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaModel
from transformers.models.phi.modeling_phi import PartlyRotated


class PersimmonConfig(LlamaConfig):
    model_type, attribute_map, default_theta, partial_rotary_factor = "persimmon", {"rms_norm_eps": "layer_norm_eps"}, 25000.0, 0.5
    base_model_tp_plan = None
    vocab_size: int = 262144
    intermediate_size: int = 16384
    num_hidden_layers: int = 36
    num_attention_heads: int = 64
    hidden_act: str = "relu2"
    max_position_embeddings: int = 16384
    layer_norm_eps: float = 1e-5
    qk_layernorm: bool = True
    hidden_dropout: float = 0.0


def eager_attention_forward(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **kwargs):
    weights = torch.matmul(query, key.transpose(2, 3)) * scaling
    if attention_mask is not None:
        weights = weights + attention_mask
    weights = nn.functional.softmax(weights, dim=-1, dtype=torch.float32).to(query.dtype)
    weights = nn.functional.dropout(weights, p=dropout, training=module.training)
    output = torch.matmul(weights, value)
    output = output.transpose(1, 2).contiguous()
    return output, weights


class PersimmonAttention(PartlyRotated):
    out, eager = "dense", staticmethod(eager_attention_forward)

    def __init__(self, config, layer_idx):
        nn.Module.__init__(self)
        self.config, self.layer_idx, self.head_dim = config, layer_idx, config.head_dim
        self.scaling, self.attention_dropout, self.is_causal, self.keywords = self.head_dim**-0.5, config.attention_dropout, True, {}
        self.query_key_value = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        for name in ("q_layernorm", "k_layernorm") if config.qk_layernorm else ():
            setattr(self, name, nn.LayerNorm(self.head_dim, eps=config.layer_norm_eps))

    def project(self, x):
        qkv = self.query_key_value(x)
        heads = qkv.view(*x.shape[:-1], -1, 3, self.head_dim)
        q, k, v = heads[..., 0, :], heads[..., 1, :], heads[..., 2, :]
        if self.config.qk_layernorm:
            q = self.q_layernorm(q)
            k = self.k_layernorm(k)
        return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), qkv


class PersimmonDecoderLayer(LlamaDecoderLayer):
    attention, feed_forward, norm = PersimmonAttention, GPTNeoXMLP, nn.LayerNorm

    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.dropout = nn.Dropout(config.hidden_dropout)

    def forward(self, hidden_states, **kwargs):
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        hidden_states, _ = self.self_attn(hidden_states=hidden_states, **kwargs)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.post_attention_layernorm(hidden_states)
        hidden_states = self.mlp(hidden_states)
        hidden_states = self.dropout(hidden_states)
        hidden_states = hidden_states + residual
        return hidden_states


class PersimmonModel(LlamaModel):
    layer = PersimmonDecoderLayer

    def finish(self, config):
        self.final_layernorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.rotary_emb = self.rotary(config)

    def last_norm(self):
        return self.final_layernorm


class PersimmonForCausalLM(LlamaForCausalLM):
    config_class, decoder, _tp_plan, _no_split_modules = PersimmonConfig, PersimmonModel, None, ["PersimmonDecoderLayer"]


causal_lm = PersimmonForCausalLM
