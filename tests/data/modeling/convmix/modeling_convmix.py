from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Callable

import torch
from torch import nn
from torch.nn import functional as F
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput


class ConvMixConfig(PretrainedConfig):
    model_type = "convmix"

    def __init__(self, dim=96, depth=4, kernel_size=7, vocab_size=640, expansion=4, dilations=(1, 2, 4, 8), drop_path=0.0, **kw):
        super().__init__(**kw)
        self.dim = dim
        self.depth = depth
        self.num_hidden_layers = depth
        self.hidden_size = dim
        self.kernel_size = kernel_size
        self.vocab_size = vocab_size
        self.expansion = expansion
        self.dilations = list(dilations)
        self.drop_path = drop_path


class CausalConv1d(nn.Conv1d):
    """Left padded, so that no token sees the next."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.left = (self.kernel_size[0] - 1) * self.dilation[0]

    def forward(self, x):
        return super().forward(F.pad(x, (self.left, 0)))


class ChannelLast(nn.Module):
    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x.transpose(-1, -2)).transpose(-1, -2)


class GRN(nn.Module):
    """Global response normalisation, ConvNeXt V2."""

    def __init__(self, dim):
        super().__init__()
        self.gamma = nn.Parameter(torch.zeros(1, 1, dim))
        self.beta = nn.Parameter(torch.zeros(1, 1, dim))

    def forward(self, x):
        g = torch.norm(x, p=2, dim=1, keepdim=True)
        n = g / (g.mean(dim=-1, keepdim=True) + 1e-6)
        return self.gamma * (x * n) + self.beta + x


class LayerScale(nn.Module):
    def __init__(self, dim, init=1e-5):
        super().__init__()
        self.g = nn.Parameter(init * torch.ones(dim))

    def forward(self, x):
        return x * self.g


class Residual(nn.Sequential):
    def forward(self, x):
        return x + super().forward(x)


def mixer(dim, kernel, dilation, expansion, norm=partial(nn.LayerNorm, eps=1e-6), act: Callable[[], nn.Module] = nn.GELU):
    hidden = int(dim * expansion)
    return nn.Sequential(
        Residual(norm(dim), ChannelLast(CausalConv1d(dim, dim, kernel, groups=dim, dilation=dilation)), LayerScale(dim)),
        Residual(norm(dim), nn.Linear(dim, hidden), act(), GRN(hidden), nn.Linear(hidden, dim), LayerScale(dim)),
    )


class ConvMixForCausalLM(PreTrainedModel):
    config_class = ConvMixConfig
    supports_gradient_checkpointing = False
    _no_split_modules = ["Sequential"]

    def __init__(self, config: ConvMixConfig):
        super().__init__(config)
        d = config.dilations
        self.embed = nn.Embedding(config.vocab_size, config.dim)
        self.blocks = nn.ModuleDict({
            f"block_{i}": mixer(config.dim, config.kernel_size, d[i % len(d)], config.expansion) for i in range(config.depth)
        })
        self.final = nn.LayerNorm(config.dim)
        self.head = nn.Linear(config.dim, config.vocab_size)
        self.post_init()

    def _init_weights(self, m):
        if isinstance(m, nn.Linear):
            nn.init.trunc_normal_(m.weight, std=0.02)

    def get_input_embeddings(self):
        return self.embed

    def get_output_embeddings(self):
        return self.head

    def forward(self, input_ids, attention_mask=None, labels=None, **unused):
        x = self.embed(input_ids) * math.sqrt(self.config.dim)
        if attention_mask is not None:
            x = x * attention_mask[..., None].to(x.dtype)
        for name, block in self.blocks.items():
            x = block(x)
        x = self.final(x)
        logits = self.head(x)
        loss = None
        if labels is not None:
            shift_logits = logits[..., :-1, :].contiguous()
            shift_labels = labels[..., 1:].contiguous()
            loss = F.cross_entropy(shift_logits.transpose(1, 2), shift_labels, label_smoothing=0.1)
        return CausalLMOutput(loss=loss, logits=logits)
