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


class CausalConv(nn.Module):
    def __init__(self, d, k):
        super().__init__()
        self.conv = nn.Conv1d(d, d, k, padding=k - 1, groups=d)
        self.k = k

    def forward(self, x):
        return self.conv(x.transpose(1, 2))[..., : x.size(1)].transpose(1, 2)


class Block(nn.Module):
    def __init__(self, config, i):
        super().__init__()
        d = config.hidden_size
        self.a, self.b = CausalConv(d, 4), nn.utils.parametrizations.weight_norm(nn.Linear(d, d)) if False else nn.Linear(d, d)
        self.g = nn.Parameter(torch.full((d,), 0.1))

    def forward(self, x, skip=None):
        y = F.silu(self.a(x)) * torch.sigmoid(self.b(x))
        if skip is not None:
            y = y + self.g * skip
        return x + y


@dataclass
class Out(ModelOutput):
    loss: Optional[torch.FloatTensor] = None
    logits: torch.FloatTensor = None
    hidden: Optional[Tuple[torch.FloatTensor, ...]] = None


class XModel(PreTrainedModel):
    config_class = XConfig
    supports_gradient_checkpointing = True

    def __init__(self, config):
        super().__init__(config)
        self.wte = nn.Embedding(config.vocab_size, config.hidden_size)
        n = config.num_hidden_layers
        self.down = nn.ModuleList([Block(config, i) for i in range(n)])
        self.up = nn.ModuleList([Block(config, i) for i in range(n)])
        self.lambdas = nn.Parameter(torch.ones(n, 2))
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self):
        return self.wte

    def forward(self, input_ids):
        x = x0 = self.wte(input_ids)
        skips: List[Tensor] = []
        for i, layer in enumerate(self.down):
            x = self.lambdas[i, 0] * x + self.lambdas[i, 1] * x0
            x = layer(x)
            skips.append(x)
        for layer in self.up:
            x = layer(x, skip=skips.pop())
        return x


class XForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = XConfig

    def __init__(self, config):
        super().__init__(config)
        self.model = XModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self):
        return self.model.wte

    def get_output_embeddings(self):
        return self.lm_head

    def forward(self, input_ids=None, attention_mask=None, labels=None, return_dict=True, **kwargs):
        h = self.model(input_ids)
        logits = 15.0 * torch.tanh(self.lm_head(h) / 15.0)
        loss = None
        if labels is not None:
            *_, v = logits.shape
            labels = F.pad(labels, (0, 1), value=-100)[..., 1:]
            loss = F.cross_entropy(logits.float().view(-1, v), labels.reshape(-1), ignore_index=-100)
        return Out(loss=loss, logits=logits, hidden=(h,))
