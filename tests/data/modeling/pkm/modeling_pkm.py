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


class ProductKeys(nn.Module):
    """Memory of product keys: two halves of a query, the best pairs, an embedding bag of values."""

    def __init__(self, d, n=16, k=4, heads=2):
        super().__init__()
        self.n, self.k, self.heads = n, k, heads
        self.query = nn.Linear(d, heads * d)
        self.keys = nn.Parameter(torch.randn(heads, n, 2, d // 2))
        self.values = nn.Embedding(n * n, d)

    def forward(self, x):
        b, t, d = x.shape
        q = self.query(x).reshape(b, t, 2, self.heads, d // 2)
        dots = torch.einsum("btphd,hnpd->bthpn", q, self.keys)
        s, i = dots.topk(self.k, dim=-1)
        (sx, sy), (ix, iy) = s.unbind(dim=3), i.unbind(dim=3)
        scores = (sx.unsqueeze(-1) + sy.unsqueeze(-2)).view(b, t, self.heads, -1)
        index = (ix.unsqueeze(-1) * self.n + iy.unsqueeze(-2)).view(b, t, self.heads, -1)
        best, at = scores.topk(self.k, dim=-1)
        index = index.gather(-1, at)
        w = best.softmax(dim=-1)
        return (self.values(index) * w.unsqueeze(-1)).sum(dim=(2, 3))


class Block(nn.Module):
    def __init__(self, config, i):
        super().__init__()
        d = config.hidden_size
        self.n1, self.n2 = nn.RMSNorm(d, eps=1e-6), nn.RMSNorm(d, eps=1e-6)
        self.memory = ProductKeys(d)
        self.mix = nn.Linear(d, d, bias=False)
        self.decay = nn.Parameter(torch.linspace(-3, 3, d))
        self.keep = 0.9

    @torch.no_grad()
    def ema(self, x):
        return x.detach().float().mean(dim=(0, 1))

    def forward(self, x):
        h = self.n1(x)
        a = torch.sigmoid(self.decay)
        n = h.size(1)
        t = torch.arange(n, device=h.device)
        power = (t[:, None] - t[None, :]).clamp(min=0)
        kernel = (a[None, None, :] ** power[..., None]) * (t[:, None] >= t[None, :])[..., None]
        y = torch.einsum("tsd,bsd->btd", kernel.to(h.dtype), self.mix(h) * (1 - a))
        x = x + y
        try:
            m = self.memory(self.n2(x))
        except (RuntimeError, AttributeError) as e:
            raise e
        else:
            x = x + m
        finally:
            s = self.ema(x)
        assert s.dim() == 1, f"expected one dimension, got {s.dim()=}"
        return x


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
