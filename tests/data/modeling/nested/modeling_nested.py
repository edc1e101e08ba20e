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
    """Regions within regions, a scale used twice, a value that nobody reads, where() of two dtypes."""

    def __init__(self, config, i):
        super().__init__()
        d = config.hidden_size
        self.up, self.down, self.gate = nn.Linear(d, 2 * d), nn.Linear(2 * d, d), nn.Linear(d, 2 * d, bias=False)
        self.scale = nn.Parameter(torch.ones(d))
        self.norm = nn.LayerNorm(d)

    def mlp(self, x, keep=None):
        h = F.silu(self.gate(x)) * self.up(x)
        return checkpoint(self.down, h, use_reentrant=False) if keep is None else self.down(h)

    def forward(self, x):
        y = x * self.scale + self.scale
        y = checkpoint(self.mlp, self.norm(y), use_reentrant=False) + x
        z = torch.where(y > 0, y, self.up(x)[..., : y.size(-1)])
        unused = z.float().exp().clamp(max=5.0).to(x.dtype)
        return z + checkpoint(self.mlp, z, keep=True, use_reentrant=False)


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
