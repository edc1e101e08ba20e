"""The decoder layer that opt and biogpt have from BART and what BART's kind embeds with, each as classes of its own."""
import torch
import torch.nn.functional as F
from torch import nn

from transformers.activations import ACT2FN
from transformers.integrations.eager_attention import eager_attention_forward
from transformers.modeling_decoder import attend
from transformers.modeling_layers import GradientCheckpointingLayer


class LearnedPositionalEmbedding(nn.Embedding):
    offset = 2

    def __init__(self, num_embeddings, embedding_dim):
        super().__init__(num_embeddings + self.offset, embedding_dim)

    def forward(self, position_ids):
        return super().forward(position_ids + self.offset)


class ScaledWordEmbedding(nn.Embedding):
    def __init__(self, num_embeddings, embedding_dim, padding_idx, embed_scale=1.0):
        super().__init__(num_embeddings, embedding_dim, padding_idx)
        self.embed_scale = embed_scale

    def forward(self, input_ids):
        return super().forward(input_ids) * self.embed_scale


class SinusoidalPositionalEmbedding(nn.Module):
    offset = 2

    def __init__(self, num_positions, embedding_dim):
        super().__init__()
        self.make_weights(num_positions + self.offset, embedding_dim)

    def make_weights(self, rows, width):
        table = torch.zeros(rows, width, dtype=torch.get_default_dtype())  # sinusoids, made on the host
        if hasattr(self, "weights"):
            table = table.to(dtype=self.weights.dtype, device=self.weights.device)
        self.register_buffer("weights", table, persistent=False)

    @torch.no_grad()
    def forward(self, position_ids, seen=0):
        batch, seq = position_ids.shape
        position_ids = position_ids + self.offset
        if 2 + seq + seen > self.weights.shape[0]:
            self.make_weights(2 + seq + seen, self.weights.shape[1])
        return self.weights.index_select(0, position_ids.view(-1)).view(batch, seq, self.weights.shape[-1]).detach()


class BartAttention(nn.Module):
    eager = staticmethod(eager_attention_forward)

    def __init__(self, config, layer_idx, dropout, bias=True):
        super().__init__()
        width = config.hidden_size
        self.config, self.layer_idx, self.dropout, self.is_causal = config, layer_idx, dropout, True
        self.num_key_value_groups = 1
        self.head_dim = width // config.num_attention_heads
        self.scaling = self.head_dim**-0.5
        self.k_proj = nn.Linear(width, width, bias=bias)
        self.v_proj = nn.Linear(width, width, bias=bias)
        self.q_proj = nn.Linear(width, width, bias=bias)
        self.out_proj = nn.Linear(width, width, bias=bias)

    def query(self, x):
        """The query, and what is left for the kernel to scale."""
        return self.q_proj(x) * self.scaling, 1.0

    def forward(self, hidden_states, past_key_values=None, attention_mask=None, **kwargs):
        rows = hidden_states.shape[:-1]
        shape = (*rows, -1, self.head_dim)
        q, scaling = self.query(hidden_states)
        q = q.view(shape).transpose(1, 2)
        k = self.k_proj(hidden_states)
        v = self.v_proj(hidden_states)
        k, v = k.view(shape).transpose(1, 2), v.view(shape).transpose(1, 2)
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, self.layer_idx)
        output, weights = attend(self, q, k, v, attention_mask, self.eager, dropout=self.dropout if self.training else 0.0, scaling=scaling,
                                 **kwargs)
        output = output.reshape(*rows, -1).contiguous()
        output = self.out_proj(output)
        return output, weights


class BartDecoderLayer(GradientCheckpointingLayer):
    norm_first, flattens, activation_dropout = True, True, 0.0

    def __init__(self, attention, width, inner, activation, dropout, bias=True, affine=True):
        super().__init__()
        self.dropout = dropout
        self.self_attn = attention
        self.activation_fn = ACT2FN[activation]
        self.self_attn_layer_norm = nn.LayerNorm(width, elementwise_affine=affine)
        self.fc1 = nn.Linear(width, inner, bias=bias)
        self.fc2 = nn.Linear(inner, width, bias=bias)
        self.final_layer_norm = nn.LayerNorm(width, elementwise_affine=affine)

    def forward(self, hidden_states, **kwargs):
        residual = hidden_states
        if self.norm_first:
            hidden_states = self.self_attn_layer_norm(hidden_states)
        hidden_states, weights = self.self_attn(hidden_states, **kwargs)
        hidden_states = F.dropout(hidden_states, p=self.dropout, training=self.training)
        hidden_states = residual + hidden_states
        if not self.norm_first:
            hidden_states = self.self_attn_layer_norm(hidden_states)
        shape = hidden_states.shape
        if self.flattens:
            hidden_states = hidden_states.reshape(-1, shape[-1])
        residual = hidden_states
        if self.norm_first:
            hidden_states = self.final_layer_norm(hidden_states)
        hidden_states = self.fc1(hidden_states)
        hidden_states = self.activation_fn(hidden_states)
        hidden_states = F.dropout(hidden_states, p=self.activation_dropout, training=self.training)
        hidden_states = self.fc2(hidden_states)
        hidden_states = F.dropout(hidden_states, p=self.dropout, training=self.training)
        hidden_states = residual + hidden_states
        if self.flattens:
            hidden_states = hidden_states.view(shape)
        return hidden_states if self.norm_first else self.final_layer_norm(hidden_states)
