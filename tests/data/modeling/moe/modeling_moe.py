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


class Router(nn.Module):
    def __init__(self, d, n, k):
        super().__init__()
        self.proj = nn.Linear(d, n, bias=False)
        self.k = k
        self.register_buffer("bias", torch.zeros(n), persistent=False)

    @property
    def n(self):
        return self.proj.out_features

    def forward(self, x):
        logits = self.proj(x).float()
        probs = logits.softmax(-1)
        top, index = torch.topk(probs + self.bias, self.k, dim=-1)
        top = top / top.sum(-1, keepdim=True).clamp_min(1e-9)
        return top.to(x.dtype), index, logits


class Expert(nn.Module):
    def __init__(self, d, inner):
        super().__init__()
        self.w1, self.w2 = nn.Linear(d, inner, bias=False), nn.Linear(inner, d, bias=False)

    def forward(self, x, *, act: Callable = F.gelu):
        return self.w2(act(self.w1(x)))


class Block(nn.Module):
    def __init__(self, config, i):
        super().__init__()
        d = config.hidden_size
        self.router = Router(d, 4, 2)
        self.experts = nn.ModuleList(Expert(d, 3 * d) for _ in range(self.router.n))
        self.shared = Expert(d, d)
        self.norm = nn.RMSNorm(d)
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.h = config.num_attention_heads

    def attend(self, x):
        b, n, d = x.shape
        q, k, v = (t.view(b, n, self.h, d // self.h).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        slopes = torch.tensor([2 ** (-8 * (i + 1) / self.h) for i in range(self.h)], device=x.device, dtype=x.dtype)
        dist = torch.arange(n, device=x.device)[None, :] - torch.arange(n, device=x.device)[:, None]
        bias = slopes[:, None, None] * dist.to(x.dtype)
        mask = torch.full((n, n), float("-inf"), device=x.device, dtype=x.dtype).triu(1)
        w = einsum("bhid,bhjd->bhij", q, k) * (d // self.h) ** -0.5 + (bias + mask)
        return self.o(einsum("bhij,bhjd->bhid", w.softmax(-1), v).transpose(1, 2).reshape(b, n, d))

    def forward(self, x):
        x = x + self.attend(self.norm(x))
        flat = (h := self.norm(x)).reshape(-1, h.size(-1))
        weights, index, logits = self.router(flat)
        out = self.shared(flat, act=F.silu)
        for e, expert in enumerate(self.experts):
            gate = (weights * (index == e)).sum(-1, keepdim=True)
            out = out + expert(flat) * gate
        return x + out.view_as(x)


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
