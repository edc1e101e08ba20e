import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast


class XConfig(PretrainedConfig):
    model_type = "x_lm"

    def __init__(self, vocab_size=503, hidden_size=96, num_hidden_layers=3, heads=4, **kwargs):
        self.vocab_size, self.hidden_size, self.num_hidden_layers, self.heads = vocab_size, hidden_size, num_hidden_layers, heads
        super().__init__(**kwargs)


class Norm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x):
        t = x.float()
        return (t * torch.rsqrt(t.pow(2).mean(-1, keepdim=True) + 1e-6)).type_as(x) * self.weight


class Square(torch.autograd.Function):
    """relu(x)^2 whose backward keeps relu(x) alone"""

    @staticmethod
    def forward(ctx, x, scale):
        y = x.clamp(min=0)
        ctx.save_for_backward(y)
        ctx.scale = scale
        return y.mul(y).mul_(scale)

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * y * (2 * ctx.scale), None


class Cell(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d, bias=False)
        self.qkv, self.o = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 3 * d), nn.Linear(3 * d, d)
        slopes = 2.0 ** (-8 * torch.arange(1, heads + 1) / heads)
        self.register_buffer("slopes", slopes, persistent=False)

    def forward(self, x, step):
        b, n, d = x.shape
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        where = torch.arange(n, device=x.device)
        bias = (where[None] - where[:, None]).clamp(max=0) * self.slopes[:, None, None]
        bias = bias.masked_fill(where[None] > where[:, None], float("-inf"))
        weights = torch.baddbmm(bias.to(x.dtype).repeat(b, 1, 1), q.flatten(0, 1), k.flatten(0, 1).mT, alpha=q.shape[-1] ** -0.5)
        y = (weights.softmax(-1) @ v.flatten(0, 1)).view(b, self.heads, n, -1)
        x = x + self.o(y.transpose(1, 2).flatten(2)) * step
        return x + self.down(Square.apply(self.up(self.norm2(x)), 0.5))


class Block(nn.Module):
    """One cell, gone through thrice, with a gate of each turn; how far is learned."""

    def __init__(self, config, i):
        super().__init__()
        self.cell = Cell(config.hidden_size, config.heads)
        self.steps = nn.Parameter(torch.ones(3))
        self.halt = nn.Linear(config.hidden_size, 1)

    def forward(self, x):
        left, total = torch.ones_like(x[..., :1]), 0
        for step in self.steps:
            x = self.cell(x, step)
            p = torch.sigmoid(self.halt(x)) * left
            total = total + p * x
            left = left - p
        return total + left * x


class XModel(PreTrainedModel):
    config_class = XConfig
    supports_gradient_checkpointing = True

    def __init__(self, config):
        super().__init__(config)
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([Block(config, i) for i in range(config.num_hidden_layers)])
        self.norm = Norm(config.hidden_size)
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self):
        return self.embed

    def forward(self, input_ids, attention_mask=None):
        x = self.embed(input_ids)
        for layer in self.layers:
            x = self._gradient_checkpointing_func(layer.__call__, x) if self.gradient_checkpointing and self.training else layer(x)
        return self.norm(x)


class XForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = XConfig
    supports_gradient_checkpointing = True

    def __init__(self, config):
        super().__init__(config)
        self.model = XModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self):
        return self.model.embed

    def get_output_embeddings(self):
        return self.lm_head

    def forward(self, input_ids, attention_mask=None, labels=None, **kwargs):
        logits = self.lm_head(self.model(input_ids, attention_mask)).float()
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits[..., :-1, :].flatten(0, -2), labels[..., 1:].flatten())
        return CausalLMOutputWithPast(loss=loss, logits=logits)
