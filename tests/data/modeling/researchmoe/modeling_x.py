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


class MoE(nn.Module):
    def __init__(self, d, n=4, k=2):
        super().__init__()
        self.gate = nn.Linear(d, n, bias=False)
        self.w1 = nn.Parameter(torch.randn(n, d, 2 * d) * 0.02)
        self.w2 = nn.Parameter(torch.randn(n, 2 * d, d) * 0.02)
        self.k, self.n = k, n
        self.register_buffer("load", torch.zeros(n), persistent=True)

    def forward(self, x):
        b, t, d = x.shape
        flat = x.reshape(-1, d)
        logits = self.gate(flat)
        p = logits.softmax(dim=-1, dtype=torch.float32)
        w, idx = torch.topk(p, self.k, dim=-1)
        w = (w / w.sum(-1, keepdim=True)).to(x.dtype)
        dense = torch.zeros_like(logits).scatter(1, idx, w)
        with torch.no_grad():
            self.load.mul_(0.9).add_(0.1 * dense.float().mean(0))
        h = torch.einsum("nd,edh->enh", flat, self.w1)
        h = F.relu(h).pow(2)
        y = torch.einsum("enh,ehd->end", h, self.w2)
        out = torch.einsum("end,ne->nd", y, dense)
        return out.view(b, t, d)


class ConvMix(nn.Module):
    def __init__(self, d, k=4):
        super().__init__()
        self.k = k
        self.inp = nn.Linear(d, 2 * d)
        self.conv = nn.Conv1d(d, d, k, groups=d)
        self.out = nn.Linear(d, d)

    def forward(self, x):
        u, g = self.inp(x).tensor_split(2, dim=-1)
        u = F.pad(u.transpose(1, 2), (self.k - 1, 0))
        u = self.conv(u).transpose(1, 2)
        return self.out(F.silu(u) * torch.sigmoid(g))


class Block(nn.Module):
    def __init__(self, config, i):
        super().__init__()
        d = config.hidden_size
        self.norms = nn.ModuleDict({"a": nn.LayerNorm(d, bias=False), "b": nn.LayerNorm(d, bias=False)})
        self.mix, self.moe = ConvMix(d), MoE(d)
        self.alpha = nn.Parameter(torch.tensor(0.5))

    def forward(self, x):
        x = x + self.alpha * self.mix(self.norms["a"](x))
        return torch.addcmul(x, self.alpha, self.moe(self.norms["b"](x)))


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
