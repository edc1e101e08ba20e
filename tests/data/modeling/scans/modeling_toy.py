import math
from dataclasses import dataclass
from typing import Optional, Tuple, List

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput, CausalLMOutputWithPast


class ToyConfig(PretrainedConfig):
    model_type = "toy_lm"

    def __init__(self, vocab_size=503, n_embd=64, n_layer=2, n_head=4, block_size=256, dropout=0.0, bias=True, **kwargs):
        self.vocab_size = vocab_size
        self.n_embd = n_embd
        self.n_layer = n_layer
        self.n_head = n_head
        self.block_size = block_size
        self.dropout = dropout
        self.bias = bias
        super().__init__(**kwargs)

    @property
    def hidden_size(self):
        return self.n_embd

    @property
    def num_hidden_layers(self):
        return self.n_layer


class Block(nn.Module):
    """ products, extremes and moments along the sequence """

    def __init__(self, config):
        super().__init__()
        d = config.n_embd
        self.norm = nn.LayerNorm(d)
        self.gate, self.inp, self.out = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x):
        h = self.norm(x)
        a = torch.sigmoid(self.gate(h))
        u = self.inp(h)
        A = torch.cumprod(a.float(), dim=1)
        y = A * torch.cumsum(u / (A + 1e-6), dim=1) * torch.prod(a, dim=1, keepdim=True)
        y, _ = torch.cummax(y.to(x.dtype), dim=1)
        v, m = torch.var_mean(y, dim=-1, keepdim=True)
        y = (y - m) * torch.rsqrt(v + 1e-5)
        low, high = torch.aminmax(u, dim=-1, keepdim=True)
        y = y + (u - low) / (high - low + 1) - u.median(dim=-1, keepdim=True)[0]
        y = y / y.norm(p=1, dim=-1, keepdim=True) + u / (u.std(dim=-1, keepdim=True) + 1e-5)
        p = u.softmax(-1)
        y = y + torch.xlogy(p, p) + torch.atan2(u, a) + F.normalize(u, p=3, dim=-1)
        w = torch.ones(x.size(1), x.size(1), device=x.device, dtype=x.dtype).tril()
        return x + self.out(w @ y.transpose(1, 2).transpose(1, 2) @ self.out.weight.to(w.dtype)).to(x.dtype)


class ToyForCausalLM(PreTrainedModel):
    config_class = ToyConfig
    supports_gradient_checkpointing = True
    _no_split_modules = ["Block"]

    def __init__(self, config):
        super().__init__(config)
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.n_layer)])
        self.ln_f = nn.LayerNorm(config.n_embd)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self):
        return self.wte

    def get_output_embeddings(self):
        return self.lm_head

    def forward(self, input_ids, attention_mask=None, labels=None, **kwargs):
        x = self.wte(input_ids)
        for block in self.blocks:
            if self.gradient_checkpointing and self.training:
                x = self._gradient_checkpointing_func(block.__call__, x)
            else:
                x = block(x)
        logits = self.lm_head(self.ln_f(x))
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits[:, :-1].reshape(-1, logits.size(-1)), labels[:, 1:].reshape(-1))
        return CausalLMOutput(loss=loss, logits=logits)
