import math
from typing import Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast


class XConfig(PretrainedConfig):
    model_type = "x_lm"

    def __init__(self, vocab_size=512, hidden_size=64, num_hidden_layers=2, num_heads=4, **kwargs):
        self.vocab_size, self.hidden_size, self.num_hidden_layers, self.num_heads = vocab_size, hidden_size, num_hidden_layers, num_heads
        super().__init__(**kwargs)


class SSM(nn.Module):
    def __init__(self, d, n=8):
        super().__init__()
        self.A_log = nn.Parameter(torch.log(torch.arange(1, n + 1, dtype=torch.float32)).repeat(d, 1))
        self.D = nn.Parameter(torch.ones(d))
        self.x_proj = nn.Linear(d, 2 * n + 4, bias=False)
        self.dt = nn.Linear(4, d)
        self.n = n

    def forward(self, u):
        b, l, d = u.shape
        A = -torch.exp(self.A_log.float())
        dt, B, C = self.x_proj(u).split([4, self.n, self.n], dim=-1)
        dt = F.softplus(self.dt(dt))
        dA = torch.exp(dt.unsqueeze(-1) * A)
        dBu = dt.unsqueeze(-1) * B.unsqueeze(2) * u.unsqueeze(-1)
        x = torch.zeros(b, d, self.n, device=u.device, dtype=dA.dtype)
        ys = []
        for i in range(l):
            x = dA[:, i] * x + dBu[:, i]
            ys.append((x * C[:, i].unsqueeze(1)).sum(-1))
        y = torch.stack(ys, dim=1)
        return (y + u * self.D).to(u.dtype)


class Block(nn.Module):
    def __init__(self, config, i):
        super().__init__()
        d = config.hidden_size
        self.norm = nn.RMSNorm(d, eps=1e-6)
        self.inp = nn.Linear(d, 2 * d, bias=False)
        self.ssm = SSM(d)
        self.out = nn.Linear(d, d, bias=False)

    def forward(self, x):
        r = x
        u, z = self.inp(self.norm(x)).chunk(2, dim=-1)
        y = self.ssm(F.silu(u))
        return r + self.out(y * F.silu(z))


class XForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = XConfig
    supports_gradient_checkpointing = True
    _tied_weights_keys = None

    def __init__(self, config):
        super().__init__(config)
        self.wte = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([Block(config, i) for i in range(config.num_hidden_layers)])
        self.norm = nn.LayerNorm(config.hidden_size)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self):
        return self.wte

    def get_output_embeddings(self):
        return self.lm_head

    def forward(self, input_ids, attention_mask=None, labels=None, **kwargs):
        x = self.wte(input_ids)
        for layer in self.layers:
            if self.gradient_checkpointing and self.training:
                x = checkpoint(layer, x, use_reentrant=False)
            else:
                x = layer(x)
        logits = self.lm_head(self.norm(x))
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits[:, :-1].contiguous().view(-1, logits.size(-1)).float(), labels[:, 1:].contiguous().view(-1))
        return CausalLMOutputWithPast(loss=loss, logits=logits)
