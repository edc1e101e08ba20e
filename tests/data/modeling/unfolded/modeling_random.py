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

from torch.utils.checkpoint import checkpoint


def heads_of(t, heads):
    return t.view(t.shape[0], t.shape[1], heads, -1).transpose(1, 2)


def attend(q, k, v, heads):
    q, k, v = (heads_of(t, heads) for t in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


def scores(q, k, v, heads):
    q, k, v = heads_of(q, heads), heads_of(k, heads), heads_of(v, heads)
    weights = q @ k.transpose(-1, -2) * q.size(-1) ** -0.5
    mask = torch.ones(q.size(2), q.size(2), dtype=torch.bool, device=q.device).triu(1)
    weights = F.softmax(weights.masked_fill(mask, float("-inf")), dim=-1, dtype=torch.float32).to(v.dtype)
    return (weights @ v).transpose(1, 2).reshape(v.shape[0], v.shape[2], -1)


def rotate(x):
    a, b = x.chunk(2, dim=-1)
    t = torch.arange(x.shape[1], device=x.device, dtype=torch.float32)[:, None] * torch.ones(32, device=x.device)
    cos, sin = t.cos().to(x.dtype), t.sin().to(x.dtype)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.out = nn.Linear(d, d)
        self.vec1 = nn.Parameter(torch.ones(d))
        self.vec2 = nn.Parameter(torch.ones(d))
        self.vec3 = nn.Parameter(torch.ones(d))

    def forward(self, x):
        a, b = x, self.out(x)
        b = torch.cat([f(b[..., :32]) for f in (F.relu, F.silu)], dim=-1)
        c = a
        a = a.transpose(1, 2).contiguous().transpose(1, 2)
        b = F.softmax(b, dim=-1) * c
        b = b * (b @ self.vec1).unsqueeze(-1)
        a = a * (a @ self.vec2).unsqueeze(-1)
        c = c * self.vec3 + self.vec3
        return x + a + b


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
