"""Hyper-connections, ALiBi, a sliding window, QK normalisation, sinks, multi-token prediction, a custom autograd.Function, T5-like relative bias."""
import math

import torch
from torch import nn
from torch.nn import functional as F
from transformers import GenerationMixin, PreTrainedModel
from transformers.configuration_utils import PretrainedConfig
from transformers.modeling_outputs import CausalLMOutputWithPast


class ResearchConfig(PretrainedConfig):
    model_type = "research"

    def __init__(self, vocab_size=1024, hidden_size=128, num_hidden_layers=2, num_heads=4, streams=2, window=32, buckets=8, heads_ahead=2, dropout=0.1, **kwargs):
        self.vocab_size, self.hidden_size, self.num_hidden_layers, self.num_heads = vocab_size, hidden_size, num_hidden_layers, num_heads
        self.streams, self.window, self.buckets, self.heads_ahead, self.dropout = streams, window, buckets, heads_ahead, dropout
        super().__init__(**kwargs)


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x, scale)
        return torch.round(x / scale).clamp(-127, 127) * scale

    @staticmethod
    def backward(ctx, grad):
        x, scale = ctx.saved_tensors
        inside = (x.abs() <= 127 * scale).to(grad.dtype)
        return grad * inside, None


class Attention(nn.Module):
    def __init__(self, config, i):
        super().__init__()
        d = config.hidden_size
        self.h, self.window, self.buckets = config.num_heads, config.window if i % 2 == 0 else None, config.buckets
        self.q, self.k, self.v, self.o = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.temperature = nn.Parameter(torch.ones(self.h, 1, 1) * 10)
        self.sink = nn.Parameter(torch.zeros(self.h))
        self.bias = nn.Embedding(config.buckets, self.h) if i % 2 else None
        self.dropout = nn.Dropout(config.dropout)

    def slopes(self, device):
        return torch.tensor([2 ** (-8 * (i + 1) / self.h) for i in range(self.h)], device=device)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = [p(x).view(b, n, self.h, -1).transpose(1, 2) for p in (self.q, self.k, self.v)]
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        scores = q @ k.transpose(-2, -1) * self.temperature
        at = torch.arange(n, device=x.device)
        distance = at[:, None] - at[None, :]
        if self.bias is None:
            scores = scores - (self.slopes(x.device)[:, None, None] * distance.abs()).to(scores.dtype)
        else:
            near = self.buckets // 2
            apart = distance.clamp(min=0)
            far = near + (torch.log(apart.float().clamp(min=1) / near) / math.log(16) * (self.buckets - near)).to(torch.long)
            bucket = torch.where(apart < near, apart, torch.min(far, torch.full_like(far, self.buckets - 1)))
            scores = scores + self.bias(bucket).permute(2, 0, 1).unsqueeze(0)
        mask = distance < 0
        if self.window is not None:
            mask = mask | (distance >= self.window)
        scores = scores.masked_fill(mask, torch.finfo(scores.dtype).min)
        sink = self.sink.view(1, -1, 1, 1).expand(b, -1, n, 1).to(scores.dtype)
        weights = F.softmax(torch.cat([scores, sink], dim=-1), dim=-1, dtype=torch.float32)[..., :-1].to(v.dtype)
        return self.o((self.dropout(weights) @ v).transpose(1, 2).contiguous().view(b, n, d))


class Hyper(nn.Module):
    """Hyper-connections: several residual streams, mixed by learnt matrices."""

    def __init__(self, config, module):
        super().__init__()
        n, d = config.streams, config.hidden_size
        self.norm = nn.RMSNorm(d)
        self.static_alpha = nn.Parameter(torch.cat([torch.zeros(n, 1), torch.eye(n)], dim=1))
        self.dynamic_alpha = nn.Linear(d, n + 1, bias=False)
        self.beta = nn.Parameter(torch.ones(n))
        self.module = module

    def forward(self, streams):
        normed = self.norm(streams)
        alpha = torch.tanh(self.dynamic_alpha(normed)) * 0.01 + self.static_alpha
        mixed = torch.einsum("bnsa,bnsd->bnad", alpha.to(streams.dtype), streams)
        out = self.module(mixed[:, :, 0])
        return mixed[:, :, 1:] + self.beta.to(out.dtype)[:, None] * out.unsqueeze(2)


class Experts(nn.Module):
    def __init__(self, config):
        super().__init__()
        d = config.hidden_size
        self.gate = nn.Linear(d, 4, bias=False)
        self.w1 = nn.Parameter(torch.empty(4, d, 2 * d))
        self.w2 = nn.Parameter(torch.empty(4, d, d))
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        b, n, d = x.shape
        flat = x.reshape(-1, d)
        share, which = torch.topk(self.gate(flat).softmax(-1), 2)
        share = share / share.sum(-1, keepdim=True)
        dense = torch.zeros(flat.size(0), 4, dtype=share.dtype, device=x.device).scatter(1, which, share)
        a, g = torch.einsum("td,edf->tef", StraightThrough.apply(flat, self.scale), self.w1).chunk(2, dim=-1)
        y = torch.einsum("tef,efd->ted", a * F.gelu(g, approximate="tanh"), self.w2)
        return torch.einsum("ted,te->td", y, dense).view(b, n, d)


class ResearchForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = ResearchConfig
    supports_gradient_checkpointing = True

    def __init__(self, config):
        super().__init__(config)
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList()
        for i in range(config.num_hidden_layers):
            self.layers.append(nn.Sequential(Hyper(config, Attention(config, i)), Hyper(config, Experts(config))))
        self.norm = nn.RMSNorm(config.hidden_size)
        self.ahead = nn.ModuleList([nn.Linear(config.hidden_size, config.hidden_size) for _ in range(config.heads_ahead)])
        self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self):
        return self.embed

    def get_output_embeddings(self):
        return self.head

    def forward(self, input_ids, attention_mask=None, labels=None, **kwargs):
        x = self.embed(input_ids).unsqueeze(2).repeat(1, 1, self.config.streams, 1)
        for layer in self.layers:
            x = self._gradient_checkpointing_func(layer.__call__, x) if self.gradient_checkpointing and self.training else layer(x)
        hidden = self.norm(x.sum(dim=2))
        loss, logits = None, self.head(hidden)
        if labels is not None:
            loss = F.cross_entropy(logits[:, :-1].reshape(-1, logits.size(-1)).float(), labels[:, 1:].reshape(-1))
            for i, ahead in enumerate(self.ahead):
                more = self.head(F.silu(ahead(hidden[:, : -2 - i])))
                loss = loss + 0.3 * F.cross_entropy(more.flatten(0, 1).float(), labels[:, 2 + i :].flatten())
        return CausalLMOutputWithPast(loss=loss, logits=logits)
