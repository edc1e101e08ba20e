"""The layers of modernbert and what its heads begin with; transformers has them in its file and, as copies, in modernbert_decoder's."""
import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.modeling_decoder import attend
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_rope_utils import RotaryEmbeddingOfKinds, rotate_half


class ModernBertEmbeddings(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.tok_embeddings = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        self.norm = norm_of(config)
        self.drop = nn.Dropout(config.embedding_dropout)

    def forward(self, input_ids):
        hidden_states = self.drop(self.norm(self.tok_embeddings(input_ids)))
        return hidden_states


def norm_of(config):
    return nn.LayerNorm(config.hidden_size, eps=config.norm_eps, bias=config.norm_bias)


class ModernBertMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.Wi = nn.Linear(config.hidden_size, config.intermediate_size * 2, bias=config.mlp_bias)
        self.act = ACT2FN[config.hidden_activation]
        self.drop = nn.Dropout(config.mlp_dropout)
        self.Wo = nn.Linear(config.intermediate_size, config.hidden_size, bias=config.mlp_bias)

    def forward(self, hidden_states):
        given, gate = self.Wi(hidden_states).chunk(2, dim=-1)
        return self.Wo(self.drop(self.act(given) * gate))


def eager_attention_forward(module, query, key, value, attention_mask, scaling, dropout=0.0, **kwargs):
    weights = torch.matmul(query, key.transpose(2, 3)) * scaling
    if attention_mask is not None:
        weights = weights + attention_mask
    weights = nn.functional.softmax(weights, dim=-1, dtype=torch.float32).to(query.dtype)
    weights = nn.functional.dropout(weights, p=dropout, training=module.training)
    output = torch.matmul(weights, value)
    output = output.transpose(1, 2).contiguous()
    return output, weights


def turned_in_fp32(q, k, cos, sin):
    dtype = q.dtype
    cos = cos.unsqueeze(1)
    sin = sin.unsqueeze(1)
    q_turned = (q.float() * cos) + (rotate_half(q.float()) * sin)
    k_turned = (k.float() * cos) + (rotate_half(k.float()) * sin)
    return q_turned.to(dtype), k_turned.to(dtype)


class ModernBertAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config, self.is_causal, self.head_dim = config, False, config.hidden_size // config.num_attention_heads
        self.Wqkv = nn.Linear(config.hidden_size, 3 * config.hidden_size, bias=config.attention_bias)
        self.sliding_window = config.sliding_window + 1 if config.layer_types[layer_idx] == "sliding_attention" else None
        self.Wo = nn.Linear(config.hidden_size, config.hidden_size, bias=config.attention_bias)
        self.out_drop = nn.Dropout(config.attention_dropout) if config.attention_dropout > 0.0 else nn.Identity()

    def forward(self, hidden_states, position_embeddings=None, attention_mask=None, **kwargs):
        rows = hidden_states.shape[:-1]
        qkv = self.Wqkv(hidden_states)
        qkv = qkv.view(*rows, 3, -1, self.head_dim)
        q, k, v = qkv.unbind(dim=-3)
        q = q.transpose(1, 2)
        k = k.transpose(1, 2)
        v = v.transpose(1, 2)
        cos, sin = position_embeddings
        q, k = turned_in_fp32(q, k, cos, sin)
        output, weights = attend(self, q, k, v, attention_mask, eager_attention_forward, dropout=self.config.attention_dropout if self.training else 0.0,
                                 scaling=self.head_dim**-0.5, sliding_window=self.sliding_window, **kwargs)
        output = output.reshape(*rows, -1).contiguous()
        output = self.out_drop(self.Wo(output))
        return output, weights


class ModernBertEncoderLayer(GradientCheckpointingLayer):
    attention = ModernBertAttention

    def __init__(self, config, layer_idx):
        super().__init__()
        self.attn_norm = norm_of(config) if layer_idx else nn.Identity()
        self.attn = self.attention(config, layer_idx)
        self.mlp_norm = norm_of(config)
        self.mlp = ModernBertMLP(config)

    def forward(self, hidden_states, attention_mask=None, position_embeddings=None, **kwargs):
        attended, _ = self.attn(self.attn_norm(hidden_states), position_embeddings=position_embeddings, attention_mask=attention_mask, **kwargs)
        hidden_states = hidden_states + attended
        hidden_states = hidden_states + self.mlp(self.mlp_norm(hidden_states))
        return hidden_states


class ModernBertBody:
    """What the models are made of. First among the bases of a model's class."""

    layer = ModernBertEncoderLayer

    def __init__(self, config):
        super().__init__(config)
        self.embeddings = ModernBertEmbeddings(config)
        self.layers = nn.ModuleList([self.layer(config, i) for i in range(config.num_hidden_layers)])
        self.final_norm = norm_of(config)
        self.rotary_emb = RotaryEmbeddingOfKinds(config)
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self):
        return self.embeddings.tok_embeddings


class ModernBertPredictionHead(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size, config.classifier_bias)
        self.act = ACT2FN[config.classifier_activation]
        self.norm = norm_of(config)

    def forward(self, hidden_states):
        return self.norm(self.act(self.dense(hidden_states)))
