import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast


class RandomConfig(PretrainedConfig):
    model_type = "random_lm"

    def __init__(self, vocab_size=500, hidden_size=64, num_hidden_layers=2, **kwargs):
        self.vocab_size, self.hidden_size, self.num_hidden_layers = vocab_size, hidden_size, num_hidden_layers
        super().__init__(**kwargs)

from functools import partial, wraps
from collections import namedtuple
from torch import einsum
from einops import rearrange, repeat, reduce

Intermediates = namedtuple("Intermediates", ["qk", "attn"])


def exists(val):
    return val is not None


def default(val, d):
    return val if exists(val) else d() if callable(d) else d


def max_neg_value(t):
    return -torch.finfo(t.dtype).max


def l2norm(t, groups=1):
    t = rearrange(t, "... (g d) -> ... g d", g=groups)
    t = F.normalize(t, p=2, dim=-1)
    return rearrange(t, "... g d -> ... (g d)")


class RotaryEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        inv_freq = 1.0 / (10000 ** (torch.arange(0, dim, 2).float() / dim))
        self.register_buffer("inv_freq", inv_freq)

    def forward(self, t):
        freqs = torch.einsum("i , j -> i j", t.type_as(self.inv_freq), self.inv_freq)
        freqs = torch.stack((freqs, freqs), dim=-1)
        return rearrange(freqs, "... d r -> ... (d r)")


def rotate_half(x):
    x = rearrange(x, "... (d r) -> ... d r", r=2)
    x1, x2 = x.unbind(dim=-1)
    x = torch.stack((-x2, x1), dim=-1)
    return rearrange(x, "... d r -> ... (d r)")


def apply_rotary_pos_emb(t, freqs):
    rot_dim, seq_len = freqs.shape[-1], t.shape[-2]
    freqs = freqs[-seq_len:, :]
    t, t_unrotated = t[..., :rot_dim], t[..., rot_dim:]
    t = (t * freqs.cos()) + (rotate_half(t) * freqs.sin())
    return torch.cat((t, t_unrotated), dim=-1)


class AlibiPositionalBias(nn.Module):
    def __init__(self, heads, total_heads):
        super().__init__()
        self.heads, self.total_heads = heads, total_heads
        slopes = torch.tensor(self._get_slopes(heads))
        slopes = rearrange(slopes, "h -> h 1 1")
        self.register_buffer("slopes", slopes, persistent=False)

    @property
    def device(self):
        return next(self.buffers()).device

    @staticmethod
    def _get_slopes(heads):
        def get_slopes_power_of_2(n):
            start = (2 ** (-2 ** -(math.log2(n) - 3)))
            ratio = start
            return [start * ratio ** i for i in range(n)]

        if math.log2(heads).is_integer():
            return get_slopes_power_of_2(heads)
        closest = 2 ** math.floor(math.log2(heads))
        return get_slopes_power_of_2(closest) + get_slopes_power_of_2(2 * closest)[0::2][:heads - closest]

    def forward(self, i, j):
        i_arange = torch.arange(j - i, j, device=self.device)
        j_arange = torch.arange(j, device=self.device)
        bias = -torch.abs(rearrange(j_arange, "j -> 1 1 j") - rearrange(i_arange, "i -> 1 i 1"))
        bias = bias * self.slopes
        num_heads_unalibied = self.total_heads - bias.shape[0]
        return F.pad(bias, (0, 0, 0, 0, 0, num_heads_unalibied))


class GLU(nn.Module):
    def __init__(self, dim_in, dim_out, activation, mult_bias=False):
        super().__init__()
        self.act = activation
        self.proj = nn.Linear(dim_in, dim_out * 2)
        self.mult_bias = nn.Parameter(torch.ones(dim_out)) if mult_bias else 1.

    def forward(self, x):
        x, gate = self.proj(x).chunk(2, dim=-1)
        return x * self.act(gate) * self.mult_bias


class FeedForward(nn.Module):
    def __init__(self, dim, dim_out=None, mult=4, glu=False, swish=False, post_act_ln=False, dropout=0.):
        super().__init__()
        inner_dim = int(dim * mult)
        dim_out = default(dim_out, dim)
        activation = nn.SiLU() if swish else nn.GELU()
        project_in = nn.Sequential(nn.Linear(dim, inner_dim), activation) if not glu else GLU(dim, inner_dim, activation, mult_bias=True)
        self.ff = nn.Sequential(*filter(exists, (project_in, nn.LayerNorm(inner_dim) if post_act_ln else None, nn.Dropout(dropout), nn.Linear(inner_dim, dim_out))))

    def forward(self, x):
        return self.ff(x)


def shift(t, amount, mask=None):
    if amount == 0:
        return t
    amount = min(amount, t.shape[1])
    if exists(mask):
        t = t.masked_fill(~mask[..., None], 0.)
    return F.pad(t, (0, 0, amount, -amount), value=0.)


class ShiftTokens(nn.Module):
    def __init__(self, shifts, fn):
        super().__init__()
        self.fn = fn
        self.shifts = tuple(shifts)

    def forward(self, x, **kwargs):
        mask = kwargs.get("mask", None)
        shifts = self.shifts
        segments = len(shifts)
        feats_per_shift = x.shape[-1] // segments
        splitted = x.split(feats_per_shift, dim=-1)
        segments_to_shift, rest = splitted[:segments], splitted[segments:]
        segments_to_shift = list(map(lambda args: shift(*args, mask=mask), zip(segments_to_shift, shifts)))
        x = torch.cat((*segments_to_shift, *rest), dim=-1)
        return self.fn(x, **kwargs)


class Attention(nn.Module):
    def __init__(self, dim, dim_head=16, heads=4, qk_norm=True, talking_heads=True, num_mem_kv=2, gate_values=True):
        super().__init__()
        self.scale, self.heads, self.qk_norm = dim_head ** -0.5, heads, qk_norm
        inner = dim_head * heads
        self.to_q, self.to_k, self.to_v = (nn.Linear(dim, inner, bias=False) for _ in range(3))
        self.to_v_gate = nn.Linear(dim, inner) if gate_values else None
        if gate_values:
            nn.init.constant_(self.to_v_gate.weight, 0)
            nn.init.constant_(self.to_v_gate.bias, 1)
        self.qk_norm_scale = nn.Parameter(torch.ones(1, heads, 1, 1) * 10)
        self.talking = nn.Parameter(torch.randn(heads, heads)) if talking_heads else None
        self.num_mem_kv = num_mem_kv
        if num_mem_kv > 0:
            self.mem_k = nn.Parameter(torch.randn(heads, num_mem_kv, dim_head))
            self.mem_v = nn.Parameter(torch.randn(heads, num_mem_kv, dim_head))
        self.rel = AlibiPositionalBias(3, heads)
        self.rotary = RotaryEmbedding(8)
        self.to_out = nn.Sequential(nn.Linear(inner, dim * 2), nn.GLU())

    def forward(self, x, context=None):
        b, n, _, h, device = *x.shape, self.heads, x.device
        kv_input = default(context, x)
        q, k, v = map(lambda t: rearrange(t, "b n (h d) -> b h n d", h=h), (self.to_q(x), self.to_k(kv_input), self.to_v(kv_input)))
        freqs = self.rotary(torch.arange(n, device=device))
        q, k = (apply_rotary_pos_emb(t, freqs).to(v.dtype) for t in (q, k))
        if self.num_mem_kv > 0:
            mem_k, mem_v = map(lambda t: repeat(t, "h n d -> b h n d", b=b), (self.mem_k, self.mem_v))
            k = torch.cat((mem_k, k), dim=-2)
            v = torch.cat((mem_v, v), dim=-2)
        if self.qk_norm:
            q, k = map(partial(l2norm, groups=2), (q, k))
            q = q * self.qk_norm_scale
        dots = einsum("b h i d, b h j d -> b h i j", q, k) * self.scale
        mask_value = max_neg_value(dots)
        i, j = dots.shape[-2:]
        bias = self.rel(i, j)
        dots = dots + bias.to(dots.dtype)
        causal_mask = torch.ones((i, j), dtype=torch.bool, device=device).triu(j - i + 1)
        dots = dots.masked_fill(causal_mask, mask_value)
        attn = F.softmax(dots, dim=-1, dtype=torch.float32)
        attn = attn.type(dots.dtype)
        if exists(self.talking):
            attn = einsum("b h i j, h g -> b g i j", attn, self.talking)
        inter = Intermediates(qk=dots, attn=attn)
        out = einsum("b h i j, b h j d -> b h i d", inter.attn, v)
        out = rearrange(out, "b h n d -> b n (h d)")
        if exists(self.to_v_gate):
            gates = self.to_v_gate(x)
            out = out * gates.sigmoid()
        return self.to_out(out), inter


class ScaleNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.g = nn.Parameter(torch.ones(1) * (dim ** -0.5))

    def forward(self, x):
        norm = torch.norm(x, dim=-1, keepdim=True)
        return x / norm.clamp(min=self.eps) * self.g


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(d), ScaleNorm(d)])
        self.layers = nn.ModuleList([Attention(d), ShiftTokens((0, 1, 2), FeedForward(d, glu=True, swish=True, post_act_ln=True))])
        self.residual_scale = nn.Parameter(torch.ones(d))

    def forward(self, x):
        for ind, (norm, layer) in enumerate(zip(self.norms, self.layers)):
            residual = x
            y = norm(x)
            out = layer(y)
            if isinstance(out, tuple):
                out, inter = out
            x = out + residual * self.residual_scale
        return x


class RandomModel(PreTrainedModel):
    config_class = RandomConfig
    supports_gradient_checkpointing = True

    def __init__(self, config):
        super().__init__(config)
        self.wte = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([Block(config.hidden_size) for _ in range(config.num_hidden_layers)])
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self):
        return self.wte

    def forward(self, input_ids):
        x = self.wte(input_ids)
        for layer in self.layers:
            x = self._gradient_checkpointing_func(layer.__call__, x) if self.gradient_checkpointing else layer(x)
        return x


class RandomForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = RandomConfig
    supports_gradient_checkpointing = True

    def __init__(self, config):
        super().__init__(config)
        self.model = RandomModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self):
        return self.model.wte

    def get_output_embeddings(self):
        return self.lm_head

    def forward(self, input_ids, attention_mask=None, labels=None, **kwargs):
        logits = self.lm_head(self.model(input_ids))
        loss = F.cross_entropy(logits[:, :-1].reshape(-1, logits.size(-1)), labels[:, 1:].reshape(-1)) if labels is not None else None
        return CausalLMOutputWithPast(loss=loss, logits=logits)
