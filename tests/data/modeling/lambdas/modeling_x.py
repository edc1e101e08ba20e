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


class Rot(nn.Module):
    def __init__(self, dim, base=10000):
        super().__init__()
        inv = 1.0 / base ** (torch.arange(0, dim, 2).float() / dim)
        self.register_buffer("inv_freq", inv)
        self.seq_len_cached = None
        self.cos_cached = None
        self.sin_cached = None

    def forward(self, x):
        T = x.shape[1]
        if T != self.seq_len_cached:
            self.seq_len_cached = T
            t = torch.arange(T, device=x.device).type_as(self.inv_freq)
            f = torch.outer(t, self.inv_freq).to(x.device)
            self.cos_cached, self.sin_cached = f.cos().bfloat16(), f.sin().bfloat16()
        return self.cos_cached[None, :, None, :], self.sin_cached[None, :, None, :]


def apply_rot(x, cos, sin):
    assert x.ndim == 4
    d = x.shape[3] // 2
    x1, x2 = x[..., :d], x[..., d:]
    return torch.cat([x1 * cos + x2 * sin, x1 * (-sin) + x2 * cos], 3).type_as(x)


class Block(nn.Module):
    def __init__(self, config, i):
        super().__init__()
        d, self.h = config.hidden_size, config.num_heads
        self.c_q, self.c_k, self.c_v, self.c_proj = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.c_proj.weight.data.zero_()
        self.rot = Rot(d // self.h)
        self.lamb = nn.Parameter(torch.tensor(0.5))
        self.lambdas = nn.Parameter(torch.tensor([1.0, 0.0]))
        self.c_fc, self.c_out = nn.Linear(d, 4 * d, bias=False), nn.Linear(4 * d, d, bias=False)
        self.v1 = None

    def attn(self, x, v1):
        B, T, C = x.size()
        q, k, v = (m(x).view(B, T, self.h, -1) for m in (self.c_q, self.c_k, self.c_v))
        if v1 is None:
            v1 = v
        v = (1 - self.lamb) * v + self.lamb * v1.view_as(v)
        cos, sin = self.rot(q)
        q, k = F.rms_norm(q, (q.size(-1),)), F.rms_norm(k, (k.size(-1),))
        q, k = apply_rot(q, cos, sin), apply_rot(k, cos, sin)
        y = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        y = y.transpose(1, 2).contiguous().view_as(x)
        return self.c_proj(y), v1

    def forward(self, x):
        x0 = x
        x = self.lambdas[0] * x + self.lambdas[1] * x0
        x1, v1 = self.attn(F.rms_norm(x, (x.size(-1),)), None)
        x = x + x1
        return x + self.c_out(F.relu(self.c_fc(F.rms_norm(x, (x.size(-1),)))).square())


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
