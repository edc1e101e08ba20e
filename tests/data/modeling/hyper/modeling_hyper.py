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


class Cache(dict):
    def get_or(self, key, make):
        if key not in self:
            self[key] = make()
        return self[key]


class Hyper(nn.Module):
    """Several residual streams that are mixed by learned and dynamic weights."""

    def __init__(self, d, rate=2, layer_id=0):
        super().__init__()
        self.rate = rate
        self.static_beta = nn.Parameter(torch.ones(rate))
        init = torch.zeros(rate, 1)
        init[layer_id % rate, 0] = 1.0
        self.static_alpha = nn.Parameter(torch.cat([init, torch.eye(rate)], dim=1))
        self.dynamic = nn.Parameter(torch.zeros(d, rate + 1))
        self.scale = nn.Parameter(torch.ones(1) * 0.01)
        self.norm = nn.LayerNorm(d)

    def width(self, h):
        normed = self.norm(h)
        alpha = torch.tanh(normed @ self.dynamic) * self.scale + self.static_alpha[None, None, ...]
        mixed = alpha.transpose(-1, -2) @ h
        return mixed, self.static_beta[None, None]

    def depth(self, mixed, out, beta):
        return torch.einsum("blh,bln->blnh", out, beta.expand(out.shape[0], out.shape[1], -1)) + mixed[..., 1:, :]


class Block(nn.Module):
    def __init__(self, config, i):
        super().__init__()
        d = config.hidden_size
        self.hyper = nn.ModuleDict({name: Hyper(d, 2, 2 * i + j) for j, name in enumerate(("attn", "mlp"))})
        self.q, self.k, self.v, self.o = (nn.Linear(d, d, bias=False) for _ in "qkvo")
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.ReLU(), nn.Linear(4 * d, d))
        self.h = config.num_attention_heads
        self.cache = Cache()

    def attend(self, x):
        b, n, d = x.shape
        q, k, v = [f(x).view(b, n, self.h, -1).transpose(1, 2) for f in (self.q, self.k, self.v)]
        q, k = [F.rms_norm(t, (t.size(-1),)) for t in (q, k)]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).contiguous().view_as(x))

    def forward(self, x):
        if x.dim() == 3:
            x = x.unsqueeze(2).repeat(1, 1, 2, 1)
        for name, f in (("attn", self.attend), ("mlp", self.mlp)):
            mixed, beta = self.hyper[name].width(x)
            x = self.hyper[name].depth(mixed, f(mixed[..., 0, :]), beta)
        return x


class XForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = XConfig

    def __init__(self, config):
        super().__init__(config)
        self.wte = nn.Embedding(config.vocab_size, config.hidden_size)
        self.blocks = nn.ModuleList(Block(config, i) for i in range(config.num_hidden_layers))
        self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.mtp = nn.ModuleList([nn.Linear(config.hidden_size, config.hidden_size) for _ in range(2)])
        self.post_init()

    def get_input_embeddings(self):
        return self.wte

    def get_output_embeddings(self):
        return self.head

    def forward(self, input_ids, attention_mask=None, labels=None, **kwargs):
        x = self.wte(input_ids)
        x = functools.reduce(lambda acc, block: block(acc), self.blocks, x)
        x = x.sum(dim=2)
        logits = self.head(F.layer_norm(x, x.shape[-1:]))
        loss = None
        if labels is not None:
            losses = [F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())]
            for k, proj in enumerate(self.mtp, start=2):
                more = self.head(torch.tanh(proj(x[:, :-k])))
                losses.append(F.cross_entropy(more.flatten(0, 1), labels[:, k:].flatten()))
            loss = torch.stack(losses).mean() + 0.01 * sum(p.square().mean() for n, p in self.named_parameters() if n.endswith("scale"))
        return {"loss": loss, "logits": logits} if False else CausalLMOutputWithPast(loss=loss, logits=logits)
