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


class Block(nn.Module):
    def __init__(self, config, i):
        super().__init__()
        d = config.hidden_size
        self.h = config.num_attention_heads
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.gn = nn.GroupNorm(4, d)
        self.conv = nn.Conv1d(d, d, 3, padding=1, groups=d)
        self.register_buffer("mask", torch.tril(torch.ones(1024, 1024)).view(1, 1, 1024, 1024), persistent=False)

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = self.qkv(x).split(c, dim=2)
        q, k, v = (y.view(b, t, self.h, c // self.h).transpose(1, 2) for y in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att.masked_fill_(self.mask[:, :, :t, :t] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        y = (att @ v).transpose(1, 2).contiguous().view(b, t, c)
        x = x + self.proj(y)
        z = self.gn(x.transpose(1, 2))
        z = F.gelu(self.conv(z)).transpose(1, 2)
        x = x + z
        x += 0.1 * x.detach()
        return x


class XForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = XConfig
    supports_gradient_checkpointing = False

    def __init__(self, config):
        super().__init__(config)
        self.transformer = nn.ModuleDict(dict(wte=nn.Embedding(config.vocab_size, config.hidden_size), h=nn.ModuleList([Block(config, i) for i in range(2)])))
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.transformer.wte.weight = self.lm_head.weight
        self.post_init()

    def get_input_embeddings(self):
        return self.transformer.wte

    def get_output_embeddings(self):
        return self.lm_head

    def forward(self, input_ids, attention_mask=None, labels=None, **kwargs):
        x = self.transformer.wte(input_ids)
        for block in self.transformer.h:
            x = block(x)
        logits = self.lm_head(x)
        loss = None
        if labels is not None:
            each = F.cross_entropy(logits[:, :-1].transpose(1, 2), labels[:, 1:], reduction="none")
            loss = each.mean()
        return CausalLMOutputWithPast(loss=loss, logits=logits)
