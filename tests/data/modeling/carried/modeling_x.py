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


class Block(nn.Module):
    """Gated linear attention in chunks, its state carried from one to the next."""

    def __init__(self, config, i):
        super().__init__()
        d = config.hidden_size
        self.h, self.chunk = config.heads, 16
        self.norm = Norm(d)
        self.q, self.k, self.v, self.g = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.decay = nn.Sequential(nn.Linear(d, 16, bias=False), nn.Linear(16, d))
        self.o = nn.Linear(d, d, bias=False)

    def split(self, t):
        b, n, _ = t.shape
        return t.view(b, n // self.chunk, self.chunk, self.h, -1).permute(0, 3, 1, 2, 4)

    def forward(self, x):
        b, n, d = x.shape
        pad = -n % self.chunk
        y = F.pad(self.norm(x), (0, 0, 0, pad))
        q, k, v = self.split(self.q(y)), self.split(self.k(y)), self.split(self.v(y))
        a = self.split(F.logsigmoid(self.decay(y)) / 16).float().cumsum(-2)
        q, kd = (q * a.exp()).to(x.dtype), (k * (-a).exp()).to(x.dtype)
        mask = torch.ones(self.chunk, self.chunk, dtype=torch.bool, device=x.device).triu(1)
        within = torch.einsum("bhnid,bhnjd->bhnij", q, kd).masked_fill(mask, 0)
        out = torch.einsum("bhnij,bhnjd->bhnid", within, v)
        state = torch.zeros(b, self.h, q.shape[-1], v.shape[-1], dtype=x.dtype, device=x.device)
        parts = []
        for i in range(q.shape[2]):
            parts.append(out[:, :, i] + q[:, :, i] @ state)
            last = a[:, :, i, -1:].transpose(-1, -2).exp().to(x.dtype)
            state = last * (state + kd[:, :, i].transpose(-1, -2) @ v[:, :, i])
        out = torch.stack(parts, 2).permute(0, 2, 3, 1, 4).reshape(b, n + pad, d)[:, :n]
        return x + self.o(out * F.silu(self.g(y[:, :n])))


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
