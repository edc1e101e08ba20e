import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast


class RandomConfig(PretrainedConfig):
    model_type = "random_lm"

    def __init__(self, vocab_size=500, hidden_size=64, num_hidden_layers=2, **kwargs):
        self.vocab_size, self.hidden_size, self.num_hidden_layers = vocab_size, hidden_size, num_hidden_layers
        super().__init__(**kwargs)

def rotate_every_two(x):
    x1 = x[:, :, :, ::2]
    x2 = x[:, :, :, 1::2]
    x = torch.stack((-x2, x1), dim=-1)
    return x.flatten(-2)


def theta_shift(x, sin, cos):
    return (x * cos) + (rotate_every_two(x) * sin)


class RetNetRelPos(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        angle = 1.0 / (10000 ** torch.linspace(0, 1, d // heads // 2))
        angle = angle.unsqueeze(-1).repeat(1, 2).flatten()
        decay = torch.log(1 - 2 ** (-5 - torch.arange(heads, dtype=torch.float)))
        self.register_buffer("angle", angle)
        self.register_buffer("decay", decay)

    def forward(self, slen):
        index = torch.arange(slen).to(self.decay)
        sin = torch.sin(index[:, None] * self.angle[None, :])
        cos = torch.cos(index[:, None] * self.angle[None, :])
        mask = torch.tril(torch.ones(slen, slen).to(self.decay))
        mask = torch.masked_fill(index[:, None] - index[None, :], ~mask.bool(), float("inf"))
        mask = torch.exp(mask * self.decay[:, None, None])
        mask = torch.nan_to_num(mask)
        mask = mask / mask.sum(dim=-1, keepdim=True).sqrt()
        return (sin, cos), mask


class Block(nn.Module):
    def __init__(self, d, heads=4):
        super().__init__()
        self.h, self.kd = heads, d // heads
        self.rel = RetNetRelPos(d, heads)
        self.q, self.k, self.v, self.g, self.o = [nn.Linear(d, d, bias=False) for _ in range(5)]
        self.group_norm = nn.RMSNorm(self.kd, eps=1e-5, elementwise_affine=False)
        self.ln, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.fc1, self.gate, self.fc2 = nn.Linear(d, 2 * d), nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def forward(self, hidden):
        x = self.ln(hidden)
        b, t, d = x.size()
        (sin, cos), inner_mask = self.rel(t)
        q, k, v, g = self.q(x), self.k(x), self.v(x), self.g(x)
        k = k * self.kd ** -0.5
        q = q.view(b, t, self.h, self.kd).transpose(1, 2)
        k = k.view(b, t, self.h, self.kd).transpose(1, 2)
        qr, kr = theta_shift(q, sin.to(q.dtype), cos.to(q.dtype)), theta_shift(k, sin.to(q.dtype), cos.to(q.dtype))
        v = v.view(b, t, self.h, self.kd).transpose(1, 2)
        qk = qr @ kr.transpose(-1, -2) * inner_mask.to(qr.dtype)
        qk = qk / qk.detach().float().abs().sum(dim=-1, keepdim=True).clamp(min=1, max=5e4).to(qk.dtype)
        out = torch.matmul(qk, v.to(qk.dtype)).transpose(1, 2)
        out = self.group_norm(out).reshape(b, t, d)
        out = F.silu(g) * out
        x = hidden + self.o(out)
        y = self.ln2(x)
        return x + self.fc2(F.gelu(self.fc1(y)) * self.gate(y))


class RandomModel(PreTrainedModel):
    config_class = RandomConfig
    supports_gradient_checkpointing = True

    def __init__(self, config):
        super().__init__(config)
        self.wte = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([Block(config.hidden_size) for _ in range(config.num_hidden_layers)])
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self):
        return self.wte

    def forward(self, input_ids):
        x = self.wte(input_ids)
        for layer in self.layers:
            x = self._gradient_checkpointing_func(layer.__call__, x) if self.gradient_checkpointing else layer(x)
        return x


class RandomForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = RandomConfig
    supports_gradient_checkpointing = True

    def __init__(self, config):
        super().__init__(config)
        self.model = RandomModel(config)
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
