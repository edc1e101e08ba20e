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
    def __init__(self, config):
        super().__init__()
        d, self.h = config.n_embd, config.n_head
        self.hd = d // self.h
        self.qkv = nn.Linear(d, 3 * d, bias=False)
        self.gates = nn.Linear(d, 3 * self.h)
        self.o = nn.Linear(d, d, bias=False)
        self.bs = 16
        self.comp_k = nn.Sequential(nn.Linear(self.bs * self.hd, self.hd), nn.ReLU(), nn.Linear(self.hd, self.hd))
        self.comp_v = nn.Sequential(nn.Linear(self.bs * self.hd, self.hd), nn.ReLU(), nn.Linear(self.hd, self.hd))
        self.pos = nn.Parameter(torch.zeros(self.h, self.bs, self.hd))

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = [z.view(B, T, self.h, self.hd).transpose(1, 2) for z in self.qkv(x).chunk(3, -1)]
        nb = T // self.bs
        kb = k.reshape(B, self.h, nb, self.bs, self.hd) + self.pos[None, :, None]
        vb = v.reshape(B, self.h, nb, self.bs, self.hd)
        ck, cv = self.comp_k(kb.flatten(-2)), self.comp_v(vb.flatten(-2))
        sim = torch.einsum('bhid,bhjd->bhij', q, ck) * self.hd ** -0.5
        i = torch.arange(T, device=x.device)
        j = torch.arange(nb, device=x.device)
        cmask = (i[:, None] // self.bs) > j[None, :]
        sim = sim.masked_fill(~cmask, torch.finfo(sim.dtype).min)
        attn = sim.softmax(dim=-1)
        attn = attn * cmask.any(-1, keepdim=True)
        out_c = attn @ cv
        imp = attn.detach().view(B, self.h, nb, self.bs, nb).mean(dim=3)
        sel = imp.topk(min(2, nb), dim=-1).indices
        block_mask = torch.zeros(B, self.h, nb, nb, dtype=torch.bool, device=x.device).scatter_(-1, sel, True)
        block_mask = block_mask | torch.eye(nb, dtype=torch.bool, device=x.device)
        fine = block_mask.repeat_interleave(self.bs, dim=-1).repeat_interleave(self.bs, dim=-2)
        causal = i[:, None] >= i[None, :]
        out_f = F.scaled_dot_product_attention(q, k, v, attn_mask=fine & causal)
        win = causal & ((i[:, None] - i[None, :]) < 32)
        out_w = F.scaled_dot_product_attention(q, k, v, attn_mask=win)
        g = self.gates(x).sigmoid().view(B, T, self.h, 3).permute(3, 0, 2, 1).unsqueeze(-1)
        out = (torch.stack([out_c, out_f, out_w]) * g).sum(0)
        return x + self.o(out.transpose(1, 2).reshape(B, T, D))


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
