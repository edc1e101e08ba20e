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


class SquaredReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        y = F.relu(x)
        ctx.save_for_backward(y)
        ctx.scale = scale
        return y * y * scale

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return 2 * grad * y * ctx.scale, None


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.sign()

    @staticmethod
    def backward(ctx, g):
        return g.clamp(-1, 1)


class BitLinear(nn.Linear):
    def forward(self, x):
        w = self.weight
        s = w.abs().mean().clamp(min=1e-5)
        wq = w + (StraightThrough.apply(w) * s - w).detach()
        with torch.no_grad():
            a = x.abs().amax(dim=-1, keepdim=True).clamp_(min=1e-5)
        xq = x + ((x * (127 / a)).round().clamp(-128, 127) / (127 / a) - x).detach()
        return F.linear(xq, wq, self.bias)


def make_norm(kind):
    def norm(x, eps=1e-6):
        if kind == "rms":
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
        m, v = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
        return (x - m) / torch.sqrt(v + eps)
    return norm


class Block(nn.Module):
    norms = {"rms": make_norm("rms"), "ln": make_norm("ln")}

    def __init__(self, config, i):
        super().__init__()
        d = config.hidden_size
        self.fc, self.out = BitLinear(d, 4 * d, bias=False), BitLinear(4 * d, d, bias=False)
        self.q, self.kv = nn.Linear(d, d, bias=False), nn.Linear(d, 2 * d // 2, bias=False)
        self.kind = ("rms", "ln")[i % 2]
        self.h, self.kvh = config.num_attention_heads, config.num_key_value_heads
        self.temperature = nn.Parameter(torch.zeros(self.h, 1, 1))
        inv = 1.0 / 10000 ** (torch.arange(0, d // self.h, 2).float() / (d // self.h))
        self.register_buffer("inv_freq", inv, persistent=False)

    @functools.lru_cache(maxsize=None)
    def width(self):
        return self.fc.in_features // self.h

    def rotate(self, x):
        t = torch.arange(x.size(2), device=x.device, dtype=self.inv_freq.dtype)
        f = torch.outer(t, self.inv_freq)
        cos, sin = (g(f)[None, None].to(x.dtype) for g in (torch.cos, torch.sin))
        x1, x2 = x[..., ::2], x[..., 1::2]
        return torch.stack((x1 * cos - x2 * sin, x1 * sin + x2 * cos), dim=-1).flatten(-2)

    def forward(self, x):
        norm = self.norms[self.kind]
        b, n, d = x.shape
        h = norm(x)
        q = self.rotate(self.q(h).unflatten(-1, (self.h, -1)).permute(0, 2, 1, 3))
        k, v = self.kv(h).view(b, n, 2, self.kvh, -1).unbind(2)
        k, v = map(lambda t: t.transpose(1, 2).repeat_interleave(self.h // self.kvh, dim=1), (k, v))
        k = self.rotate(k)
        s = (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT) * self.temperature.exp()
        s = s.masked_fill(~torch.tril(torch.ones(n, n, dtype=torch.bool, device=x.device)), torch.finfo(s.dtype).min)
        x = x + (s.softmax(dim=-1) @ v).transpose(1, 2).contiguous().view(b, n, d)
        return x + self.out(SquaredReLU.apply(self.fc(norm(x)), 0.5))


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
