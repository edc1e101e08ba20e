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


class Attention(nn.Module):
    def __init__(self, config, owner=None):
        super().__init__()
        d, self.h, self.kvh = config.hidden_size, config.num_attention_heads, config.num_key_value_heads
        self.hd = d // self.h
        self.q = nn.Linear(d, d, bias=False)
        if owner is None:
            self.k, self.v = nn.Linear(d, self.kvh * self.hd, bias=False), nn.Linear(d, self.kvh * self.hd, bias=False)
        self.sink = nn.Parameter(torch.zeros(self.h))
        self.g = nn.Sequential(nn.Linear(d, self.h), nn.Sigmoid())
        self.o = nn.Linear(d, d, bias=False)

    def forward(self, x, kv=None):
        b, n, _ = x.shape
        q = self.q(x).view(b, n, self.h, self.hd).transpose(1, 2)
        if kv is None:
            kv = tuple(p(x).view(b, n, self.kvh, self.hd).transpose(1, 2) for p in (self.k, self.v))
        k, v = (t[:, :, None].expand(-1, -1, self.h // self.kvh, -1, -1).reshape(b, self.h, n, self.hd) for t in kv)
        s = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.hd)
        s = s + torch.triu(torch.full((n, n), -1e4, device=x.device, dtype=s.dtype), diagonal=1)
        s = torch.cat([s, self.sink.reshape(1, -1, 1, 1).expand(b, -1, n, 1)], dim=-1)
        p = F.softmax(s - s.amax(dim=-1, keepdim=True), dim=-1, dtype=s.dtype)[..., :-1]
        y = torch.matmul(F.dropout(p, p=0.1, training=self.training), v)
        y = y * self.g(x).transpose(1, 2).unsqueeze(-1)
        return self.o(y.transpose(1, 2).flatten(2)), kv


class Block(nn.Module):
    def __init__(self, config, i, owner=None):
        super().__init__()
        d = config.hidden_size
        self.attn = Attention(config, owner)
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d, elementwise_affine=False)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(approximate="tanh"), nn.Dropout(0.1), nn.Linear(4 * d, d))
        self.gamma = nn.ParameterDict({"a": nn.Parameter(torch.ones(d) * 1e-4), "m": nn.Parameter(torch.ones(d) * 1e-4)})

    def forward(self, x, kv=None):
        y, kv = self.attn(self.n1(x), kv)
        x = x + self.gamma["a"] * y
        x = torch.addcmul(x, self.gamma["m"], self.mlp(self.n2(x)))
        return x, kv


class XForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = XConfig
    supports_gradient_checkpointing = False
    _tied_weights_keys = {"lm_head.weight": "wte.weight"}

    def __init__(self, config):
        super().__init__(config)
        self.wte = nn.Embedding(config.vocab_size, config.hidden_size)
        self.wpe = nn.Parameter(torch.zeros(1, 2048, config.hidden_size))
        first = Block(config, 0)
        self.layers = nn.ModuleList([first] + [Block(config, i, owner=first) for i in range(1, config.num_hidden_layers)])
        self.norm = nn.LayerNorm(config.hidden_size)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self):
        return self.wte

    def get_output_embeddings(self):
        return self.lm_head

    def set_output_embeddings(self, new):
        self.lm_head = new

    def forward(self, input_ids, attention_mask=None, labels=None, **kwargs):
        x = self.wte(input_ids)
        x = x + self.wpe[:, : x.shape[1]]
        kv = None
        for layer in self.layers:
            x, kv = layer(x, kv)
        logits = self.lm_head(self.norm(x))
        loss = 0.0
        if labels is not None:
            shift, targets = logits[..., :-1, :].contiguous(), labels[..., 1:].contiguous()
            loss = nn.CrossEntropyLoss(label_smoothing=0.1)(shift.view(-1, shift.size(-1)), targets.view(-1))
            loss = loss + 1e-4 * torch.logsumexp(logits, dim=-1).pow(2).mean()
        return CausalLMOutputWithPast(loss=loss, logits=logits)
