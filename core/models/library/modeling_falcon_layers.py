"""Falcon's layers: query, key and value in one projection without F.linear, heads that may share keys, attention beside the feed-forward."""
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from transformers.activations import get_activation
from transformers.modeling_decoder import kernel_dtype
from transformers.modeling_flash_attention_utils import _flash_attention_forward
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_rope_utils import apply_rotary_pos_emb


class FalconLinear(nn.Linear):
    def forward(self, x):
        y = x @ self.weight.T
        if self.bias is None:
            return y
        return y + self.bias


class FalconAttention(nn.Module):
    def __init__(self, config, layer_idx=None):
        super().__init__()
        self.config, self.layer_idx, self.is_causal = config, layer_idx, True
        self.num_heads, self.head_dim = config.num_attention_heads, config.head_dim
        self.grouped, self.multi_query = config.new_decoder_architecture, config.multi_query
        self.num_kv_heads = config.num_kv_heads if self.grouped or not self.multi_query else 1
        width = (2 * self.num_kv_heads + self.num_heads) * self.head_dim
        self.query_key_value = FalconLinear(config.hidden_size, width, bias=config.bias)
        self.dense = FalconLinear(config.hidden_size, config.hidden_size, bias=config.bias)
        self.attention_dropout = nn.Dropout(config.attention_dropout)

    def split(self, fused):
        batch, length, _ = fused.shape
        if self.grouped:
            qkv = fused.view(batch, length, -1, self.num_heads // self.num_kv_heads + 2, self.head_dim)
            q = qkv[:, :, :, :-2]
            k = qkv[:, :, :, [-2]]
            v = qkv[:, :, :, [-1]]
            k = torch.broadcast_to(k, q.shape)
            v = torch.broadcast_to(v, q.shape)
            q, k, v = [x.flatten(2, 3) for x in (q, k, v)]
            return q, k, v
        if self.multi_query:
            fused = fused.view(batch, length, self.num_heads + 2, self.head_dim)
            return fused[..., :-2, :], fused[..., [-2], :], fused[..., [-1], :]
        fused = fused.view(batch, length, self.num_heads, 3, self.head_dim)
        return fused[..., 0, :], fused[..., 1, :], fused[..., 2, :]

    def turned(self, q, k, v, position_embeddings, position_ids):
        return apply_rotary_pos_emb(q, k, *position_embeddings)

    def laid_out(self, x, attention_mask):
        """For the kernel of sdpa."""
        return x

    def heads(self, fused, position_embeddings, alibi, layer_past, position_ids):
        kv_heads = self.num_heads if self.grouped else self.num_kv_heads
        q, k, v = self.split(fused)
        batch, length, _, _ = q.shape
        q = q.transpose(1, 2).reshape(batch, self.num_heads, length, self.head_dim)
        k = k.transpose(1, 2).reshape(batch, kv_heads, length, self.head_dim)
        v = v.transpose(1, 2).reshape(batch, kv_heads, length, self.head_dim)
        held = ()
        if alibi is None:
            q, k, *held = self.turned(q, k, v, position_embeddings, position_ids)
        if layer_past is not None:
            k, v = layer_past.update(k, v, self.layer_idx)
        return q, k, v, held

    def forward(self, hidden_states, alibi, attention_mask, position_ids=None, layer_past=None, position_embeddings=None, **kwargs):
        fused = self.query_key_value(hidden_states)
        q, k, v, _held = self.heads(fused, position_embeddings, alibi, layer_past, position_ids)
        batch, _, length, _ = q.shape
        kernel, weights = self.config._attn_implementation, None
        if kernel == "flash_attention_2":
            q = q.transpose(1, 2)
            k = k.transpose(1, 2)
            v = v.transpose(1, 2)
            if alibi is not None:
                raise ValueError("`alibi` is not supported when `use_flash_attn` is True")
            dropout = self.config.attention_dropout if self.training else 0.0
            if q.dtype == torch.float32:
                dtype = kernel_dtype(q, self.query_key_value, self.config)
                q = q.to(dtype)
                k = k.to(dtype)
                v = v.to(dtype)
            output = _flash_attention_forward(q, k, v, attention_mask, length, position_ids=position_ids, dropout=dropout, is_causal=self.is_causal)
            merged = output.reshape(batch, length, self.num_heads * self.head_dim)
            output = self.dense(merged)
            return output, None
        if kernel == "sdpa":
            q = self.laid_out(q, attention_mask)
            k = self.laid_out(k, attention_mask)
            v = self.laid_out(v, attention_mask)
            causal = self.is_causal and attention_mask is None and length > 1
            dropout = self.attention_dropout.p if alibi is not None and self.training else 0.0
            output = scaled_dot_product_attention(q, k, v, attn_mask=attention_mask, dropout_p=dropout, is_causal=causal)
            if alibi is None:
                output = output.view(batch, self.num_heads, length, self.head_dim)
                output = output.permute(0, 2, 1, 3)
            else:
                output = output.transpose(1, 2)
        elif alibi is None:
            weights = q @ k.transpose(-1, -2)
            weights /= math.sqrt(self.head_dim)
            weights = F.softmax(weights + attention_mask, dim=-1, dtype=hidden_states.dtype)
            output = weights @ v
            output = output.view(batch, self.num_heads, length, self.head_dim)
            output = output.permute(0, 2, 1, 3)
        else:
            product = q @ k.transpose(-1, -2)
            scores = product.view(batch, self.num_heads, length, k.shape[-2])
            if scores.dtype == torch.float16 or scores.dtype == torch.bfloat16:
                scores = scores.to(torch.float32)
            logits = scores + alibi.view(batch, self.num_heads, 1, -1)
            logits *= 1.0 / math.sqrt(self.head_dim)
            weights = F.softmax(logits + attention_mask, dim=-1, dtype=hidden_states.dtype)
            weights = self.attention_dropout(weights)
            output = (weights @ v).flatten(0, 1)
            output = output.view(batch, self.num_heads, length, self.head_dim).permute(0, 2, 1, 3)
        output = output.reshape(batch, length, self.num_heads * self.head_dim)
        output = self.dense(output)
        return output, weights


class FalconMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense_h_to_4h = FalconLinear(config.hidden_size, config.ffn_hidden_size, bias=config.bias)
        self.act = get_activation(config.activation)
        self.dense_4h_to_h = FalconLinear(config.ffn_hidden_size, config.hidden_size, bias=config.bias)

    def forward(self, x):
        x = self.act(self.dense_h_to_4h(x))
        x = self.dense_4h_to_h(x)
        return x


def dropout_add(x, residual, prob, training):
    out = F.dropout(x, p=prob, training=training)
    out = residual + out
    return out


class FalconDecoderLayer(GradientCheckpointingLayer):
    def __init__(self, config, layer_idx=None):
        super().__init__()
        self.self_attention = FalconAttention(config, layer_idx)
        self.mlp = FalconMLP(config)
        self.config = config
        names = ["input_layernorm"]
        if not config.parallel_attn:
            names = ["post_attention_layernorm", "input_layernorm"]
        elif config.num_ln_in_parallel_attn == 2:
            names = ["ln_attn", "ln_mlp"]
        for name in names:
            setattr(self, name, nn.LayerNorm(config.hidden_size, eps=config.layer_norm_epsilon))

    def forward(self, hidden_states, alibi, attention_mask, position_ids=None, layer_past=None, use_cache=False, position_embeddings=None, **kwargs):
        residual, config = hidden_states, self.config
        if config.new_decoder_architecture and config.num_ln_in_parallel_attn == 2:
            normed = self.ln_attn(hidden_states)
            fed = self.ln_mlp(hidden_states)
        else:
            normed = self.input_layernorm(hidden_states)
        attended, weights = self.self_attention(normed, layer_past=layer_past, attention_mask=attention_mask, position_ids=position_ids, alibi=alibi,
                                                use_cache=use_cache, position_embeddings=position_embeddings)
        if not config.new_decoder_architecture:
            if config.parallel_attn:
                fed = normed
            else:
                residual = dropout_add(attended, residual, config.attention_dropout, training=self.training)
                fed = self.post_attention_layernorm(residual)
        if config.new_decoder_architecture and config.parallel_attn and config.num_ln_in_parallel_attn == 1:
            fed = normed
        output = self.mlp(fed)
        if config.new_decoder_architecture or config.parallel_attn:
            output += attended
        summed = dropout_add(output, residual, config.hidden_dropout, training=self.training)
        return summed, weights
