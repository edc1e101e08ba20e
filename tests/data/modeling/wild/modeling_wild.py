import math
import functools
from collections import namedtuple
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor, einsum
from torch.utils.checkpoint import checkpoint
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast, BaseModelOutputWithPast, ModelOutput


class XConfig(PretrainedConfig):
    model_type = "x_lm"

    def __init__(self, vocab_size=500, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=False, **kwargs):
        self.vocab_size, self.hidden_size, self.num_hidden_layers = vocab_size, hidden_size, num_hidden_layers
        self.num_attention_heads, self.num_key_value_heads = num_attention_heads, num_key_value_heads
        super().__init__(tie_word_embeddings=tie_word_embeddings, **kwargs)


def exists(v):
    return v is not None


def default(v, d):
    return v if exists(v) else d() if callable(d) else d


class Residual(nn.Module):
    def __init__(self, fn, *, scale=None):
        super().__init__()
        self.fn, self.scale = fn, nn.Parameter(torch.tensor(0.5)) if scale else None

    def forward(self, x, **kw):
        out = self.fn(x, **kw)
        return x + (out if self.scale is None else out * self.scale)


class PreNorm(nn.Module):
    def __init__(self, d, fn):
        super().__init__()
        self.norm, self.fn = nn.LayerNorm(d), fn

    def forward(self, x, *args, **kw):
        return self.fn(self.norm(x), *args, **kw)


class GEGLU(nn.Module):
    def forward(self, x):
        x, gate = x.chunk(2, dim=-1)
        return x * F.gelu(gate)


class PerceiverAttention(nn.Module):
    """Latents of their own attend to the tokens before them; talking heads; a learned null key."""

    def __init__(self, d, heads=4, dim_head=16, dropout=0.0):
        super().__init__()
        inner = heads * dim_head
        self.heads, self.scale = heads, dim_head ** -0.5
        self.to_q, self.to_kv = nn.Linear(d, inner, bias=False), nn.Linear(d, inner * 2, bias=False)
        self.null_kv = nn.Parameter(torch.randn(2, dim_head))
        self.talking = nn.Conv2d(heads, heads, 1, bias=False) if False else nn.Parameter(torch.eye(heads))
        self.to_out = nn.Sequential(nn.Linear(inner, d), nn.Dropout(dropout))
        self.q_norm = nn.LayerNorm(dim_head)

    def forward(self, x, mask: Optional[Tensor] = None, pos=None):
        b, n, h, device = *x.shape[:2], self.heads, x.device
        q = self.to_q(x)
        k, v = self.to_kv(x).chunk(2, dim=-1)
        q, k, v = map(lambda t: t.reshape(b, n, h, -1).permute(0, 2, 1, 3), (q, k, v))
        q = self.q_norm(q) * self.scale
        nk, nv = (t.view(1, 1, 1, -1).expand(b, h, 1, -1) for t in self.null_kv.unbind(dim=0))
        k, v = torch.cat((nk, k), dim=-2), torch.cat((nv, v), dim=-2)
        sim = torch.einsum("b h i d, b h j d -> b h i j", q, k)
        if exists(pos):
            sim = sim + F.pad(pos, (1, 0), value=0.0)
        causal = torch.ones((n, n), dtype=torch.bool, device=device).triu(1)
        sim = sim.masked_fill(F.pad(causal, (1, 0), value=False), -torch.finfo(sim.dtype).max)
        sim = torch.einsum("g h, b h i j -> b g i j", self.talking, sim)
        attn = sim.softmax(dim=-1, dtype=torch.float32).type_as(sim)
        out = torch.einsum("b h i j, b h j d -> b h i d", attn, v)
        return self.to_out(out.transpose(1, 2).flatten(start_dim=2))


class Block(nn.Module):
    def __init__(self, config, i):
        super().__init__()
        d = config.hidden_size
        self.rel = nn.Embedding(32, 4)
        self.attn = Residual(PreNorm(d, PerceiverAttention(d)), scale=bool(i % 2))
        self.ff = Residual(PreNorm(d, nn.Sequential(nn.Linear(d, 8 * d), GEGLU(), nn.Linear(4 * d, d))))

    @staticmethod
    def buckets(rel, n=32, most=128):
        rel = (-rel).clamp(min=0)
        exact = n // 2
        small = rel < exact
        large = exact + (torch.log(rel.float().clamp(min=1) / exact) / math.log(most / exact) * (n - exact)).long()
        large = torch.minimum(large, torch.full_like(large, n - 1))
        return torch.where(small, rel, large)

    def forward(self, x):
        n = x.shape[-2]
        p = torch.arange(n, device=x.device)
        rel = self.rel(self.buckets(p[None, :] - p[:, None])).permute(2, 0, 1).unsqueeze(0)
        x = self.attn(x, pos=rel)
        return self.ff(x)


class XModel(PreTrainedModel):
    config_class = XConfig
    supports_gradient_checkpointing = True

    def __init__(self, config):
        super().__init__(config)
        self.wte = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([Block(config, i) for i in range(config.num_hidden_layers)])
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self):
        return self.wte

    def forward(self, input_ids):
        x = self.wte(input_ids)
        for layer in self.layers:
            x = self._gradient_checkpointing_func(layer.__call__, x) if self.gradient_checkpointing else layer(x)
        return x


class XForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = XConfig
    supports_gradient_checkpointing = True

    def __init__(self, config):
        super().__init__(config)
        self.model = XModel(config)
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
