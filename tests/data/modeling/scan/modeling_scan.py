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


State = namedtuple("State", ["h", "n"])


class Block(nn.Module):
    """A gated linear recurrence by chunks; a token shift; low-rank decay."""

    chunk: int = 16

    def __init__(self, config, i):
        super().__init__()
        d = self.d = config.hidden_size
        self.h = config.num_attention_heads
        self.mix = nn.ParameterList([nn.Parameter(torch.rand(1, 1, d)) for _ in range(4)])
        self.r, self.k, self.v = (nn.Linear(d, d, bias=False) for _ in range(3))
        self.w1, self.w2 = nn.Linear(d, 8, bias=False), nn.Linear(8, d)
        self.o = nn.Linear(d, d, bias=False)
        self.gn = nn.GroupNorm(self.h, d)
        self.act = {"silu": nn.SiLU(), "none": nn.Identity()}["silu"]

    def shift(self, x):
        return F.pad(x, (0, 0, 1, -1))

    def forward(self, x):
        b, n, d = x.shape
        prev = self.shift(x)
        r, k, v, w = (torch.lerp(x, prev, m.expand_as(x)) if j % 2 else x + (prev - x) * m for j, m in enumerate(self.mix))
        r, k, v = self.r(r), self.k(k), self.v(v)
        w = -F.softplus(-self.w2(torch.tanh(self.w1(w)))) - 0.5
        r, k, v, w = [t.view(b, n // self.chunk, self.chunk, self.h, -1).permute(0, 3, 1, 2, 4) for t in (r, k, v, w)]
        c = w.float().cumsum(dim=-2)
        total = c[..., -1:, :]
        q_ = (r.float() * c.exp()).to(x.dtype)
        k_ = (k.float() * (total - c).exp()).to(x.dtype)
        intra = (q_ @ (k.float() * (-c).exp()).to(x.dtype).transpose(-1, -2)).tril()
        out = intra @ v
        state, outs = State(torch.zeros(b, self.h, d // self.h, d // self.h, device=x.device, dtype=x.dtype), 0), []
        for j in range(n // self.chunk):
            outs.append(out[:, :, j] + q_[:, :, j] @ state.h)
            state = State(state.h * total[:, :, j].transpose(-1, -2).exp().to(x.dtype) + k_[:, :, j].transpose(-1, -2) @ v[:, :, j], state.n + 1)
        y = torch.stack(outs, dim=2).permute(0, 2, 3, 1, 4).reshape(b * n, d)
        y = self.gn(y).view(b, n, d)
        return x + self.o(y * self.act(prev))


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
