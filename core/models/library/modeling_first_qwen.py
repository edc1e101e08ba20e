"""The layers of the first Qwen, whose classes stand beside its weights on the hub (modeling_qwen.py)."""
import torch
import torch.nn.functional as F
from torch import nn

from transformers.modeling_flash_package import FlashSelfAttention, RotaryKernel


def by_flash(config):
    """Where flash-attn is installed and the weights are in half, it runs and nothing says otherwise but use_flash_attn."""
    return config._attn_implementation == "flash_attention_2" and not config.fp32


def rotate_half(x):
    x1, x2 = x.view(*x.shape[:-1], 2, -1).unbind(dim=-2)
    return torch.cat((-x2, x1), dim=-1)


def apply_rotary_pos_emb(t, freqs, kernel):
    width, (cos, sin) = freqs[0].shape[-1], freqs
    t_float = t.float()
    if kernel:
        cos = cos.squeeze(0).squeeze(1)[:, : width // 2]
        sin = sin.squeeze(0).squeeze(1)[:, : width // 2]
        return RotaryKernel.apply(t_float, cos, sin).type_as(t)
    turned, rest = t_float[..., :width], t_float[..., width:]
    turned = (turned * cos) + (rotate_half(turned) * sin)
    return torch.cat((turned, rest), dim=-1).type_as(t)


class RotaryEmbedding(nn.Module):
    """Tables for twice the longest row so far, which the first forward makes."""

    def __init__(self, dim, base):
        super().__init__()
        self.dim, self.base = dim, base
        self.tables, self.length, self.alpha = None, 0, 1.0  # inv_freq is a buffer that the first forward replaces

    def forward(self, length, alpha, device):
        if length > self.length or alpha != self.alpha:
            base = self.base * alpha ** (self.dim / (self.dim - 2))
            self.inv_freq = 1.0 / (base ** (torch.arange(0, self.dim, 2, device=device).float() / self.dim))
            self.length, self.alpha = max(2 * length, 16), alpha
            seq = torch.arange(self.length, device=self.inv_freq.device)
            freqs = torch.outer(seq.type_as(self.inv_freq), self.inv_freq)
            emb = torch.cat((freqs, freqs), dim=-1)
            emb = emb[None, :, None, :]
            cos, sin = emb.cos(), emb.sin()
            self.tables = [cos, sin]
        cos, sin = self.tables
        return [cos[:, :length], sin[:, :length]]


class QWenRMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        output = self._norm(x.float()).type_as(x)
        return output * self.weight


class QWenAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.register_buffer("masked_bias", torch.tensor(-1e4), persistent=False)
        width = config.kv_channels * config.num_attention_heads
        self.split_size, self.num_heads = config.hidden_size, config.num_attention_heads
        self.head_dim = config.hidden_size // self.num_heads
        self.logn = config.use_logn_attn
        self.c_attn = nn.Linear(config.hidden_size, 3 * width)
        self.c_proj = nn.Linear(config.hidden_size, width, bias=not config.no_bias)
        self.by_flash = by_flash(config)
        if self.by_flash:
            self.core_attention_flash = FlashSelfAttention(config.attn_dropout_prob)
        self.seq_length = config.seq_length
        self.register_buffer("logn_tensor", torch.ones(32767)[None, :, None, None], persistent=False)  # a logarithm of each length

    def _split_heads(self, x):
        return x.view(x.size()[:-1] + (self.num_heads, self.head_dim))

    def _merge_heads(self, x):
        x = x.contiguous()
        return x.view(x.size()[:-2] + (self.num_heads * self.head_dim,))

    def forward(self, hidden_states, rotary=None, layer_past=None, attention_mask=None, use_cache=False, tokens=None):
        mixed = self.c_attn(hidden_states)
        query, key, value = mixed.split(self.split_size, dim=2)
        query = self._split_heads(query)
        key = self._split_heads(key)
        value = self._split_heads(value)
        length = query.shape[1]
        turn = [x[:, -length:, :, :] for x in rotary]
        query = apply_rotary_pos_emb(query, turn, self.by_flash)
        key = apply_rotary_pos_emb(key, turn, self.by_flash)
        present = (key, value)
        if layer_past is not None:
            key, value = layer_past.update(key.transpose(1, 2), value.transpose(1, 2))
            key = key.transpose(1, 2)
            value = value.transpose(1, 2)
        key_size = key.size(1)
        if key_size > self.seq_length and self.logn and not self.training:
            logn = self.logn_tensor[:, key_size - length : key_size, :, :].type_as(query)
            query = query * logn.expand_as(query)
        if self.by_flash:
            q, k, v = query, key, value
            output = self.core_attention_flash(q, k, v, tokens)
        else:
            causal = None
            if length == key_size:
                causal = torch.tril(torch.ones((key_size, key_size), dtype=torch.bool, device=query.device)).view(1, 1, key_size, key_size)
            query = query.permute(0, 2, 1, 3)
            key = key.permute(0, 2, 1, 3)
            value = value.permute(0, 2, 1, 3)
            if attention_mask is not None:
                attention_mask = attention_mask.expand(-1, -1, query.size(2), -1)
                if causal is not None:
                    attention_mask = attention_mask.masked_fill(~causal, torch.finfo(query.dtype).min)
            else:
                attention_mask = causal
            output = F.scaled_dot_product_attention(query, key, value, attn_mask=attention_mask).transpose(1, 2)
        context = self._merge_heads(output)
        output = self.c_proj(context)
        return output, present if use_cache else None


class QWenMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        inner, bias = config.intermediate_size // 2, not config.no_bias
        self.w1 = nn.Linear(config.hidden_size, inner, bias=bias)
        self.w2 = nn.Linear(config.hidden_size, inner, bias=bias)
        self.c_proj = nn.Linear(inner, config.hidden_size, bias=bias)

    def forward(self, hidden_states):
        a1 = self.w1(hidden_states)
        a2 = self.w2(hidden_states)
        product = a1 * F.silu(a2)
        output = self.c_proj(product)
        return output


class QWenBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1 = QWenRMSNorm(config.hidden_size, eps=config.layer_norm_epsilon)
        self.attn = QWenAttention(config)
        self.ln_2 = QWenRMSNorm(config.hidden_size, eps=config.layer_norm_epsilon)
        self.mlp = QWenMLP(config)

    def forward(self, hidden_states, rotary=None, layer_past=None, attention_mask=None, use_cache=False, tokens=None):
        normed = self.ln_1(hidden_states)
        outputs = self.attn(normed, rotary, layer_past=layer_past, attention_mask=attention_mask, use_cache=use_cache,
                            tokens=tokens)
        attn_output = outputs[0]
        residual = hidden_states
        mlp_input = attn_output + residual
        normed = self.ln_2(mlp_input)
        residual = mlp_input
        mlp_output = self.mlp(normed)
        hidden_states = residual + mlp_output
        return (hidden_states,) + outputs[1:] if use_cache else (hidden_states,)
