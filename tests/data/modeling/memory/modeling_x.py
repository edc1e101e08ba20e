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


class Memory(nn.Module):
    """Cross attention to learned slots."""

    def __init__(self, d, heads, slots=32):
        super().__init__()
        self.h = heads
        self.slots = nn.Parameter(torch.zeros(slots, d))
        self.q = nn.Linear(d, d)
        self.kv = nn.Linear(d, 2 * d)
        self.o = nn.Linear(d, d)
        self.gate = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        b, t, d = x.shape
        q = self.q(x).unflatten(-1, (self.h, -1)).transpose(1, 2)
        mem = self.slots.unsqueeze(0).expand(b, -1, -1)
        k, v = self.kv(mem).unflatten(-1, (2, self.h, -1)).unbind(2)
        k, v = k.transpose(1, 2), v.transpose(1, 2)
        w = torch.matmul(q, k.mT).div(math.sqrt(q.size(-1))).softmax(-1)
        w = F.dropout(w, 0.1, self.training)
        y = torch.matmul(w, v).transpose(1, 2).flatten(2)
        return torch.tanh(self.gate) * self.o(y)


class Block(nn.Module):
    def __init__(self, config, i):
        super().__init__()
        d = config.hidden_size
        self.mem = Memory(d, config.num_heads)
        self.attn = nn.MultiheadAttention(d, config.num_heads, batch_first=True)
        self.n = nn.ModuleList(nn.LayerNorm(d) for _ in range(3))
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.SiLU(), nn.Linear(2 * d, d))
        self.w = nn.Parameter(torch.randn(d))
        self.m = nn.Parameter(torch.randn(d, d) * 0.02)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.size(1), device=x.device, dtype=x.dtype)
        h = self.n[0](x)
        a, _ = self.attn(h, h, h, attn_mask=mask, need_weights=False)
        x = x + a
        x = x + self.mem(self.n[1](x))
        bias = torch.matmul(self.w, self.m)
        score = torch.matmul(self.w, x.transpose(1, 2))
        x = x + bias + score.unsqueeze(-1).sigmoid()
        return x + self.ff(self.n[2](x))


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
