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


class Layer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(d), nn.RMSNorm(d)
        self.h = h
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.g, self.u, self.dn = nn.Linear(d, 2 * d), nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d))
        h = self.n2(x)
        return x + self.dn(F.silu(self.g(h)) * self.u(h))


class ToyForCausalLM(PreTrainedModel):
    config_class = ToyConfig
    supports_gradient_checkpointing = True

    def __init__(self, config):
        super().__init__(config)
        d = config.n_embd
        self.emb = nn.Embedding(config.vocab_size, d)
        self.layers = nn.ModuleList([Layer(d, config.n_head) for _ in range(config.n_layer)])
        self.norm = nn.RMSNorm(d)
        self.head = nn.Linear(d, config.vocab_size, bias=False)
        self.mtp = nn.ModuleList([nn.ModuleDict(dict(enorm=nn.RMSNorm(d), hnorm=nn.RMSNorm(d), proj=nn.Linear(2 * d, d), layer=Layer(d, config.n_head))) for _ in range(2)])
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self):
        return self.emb

    def get_output_embeddings(self):
        return self.head

    def forward(self, input_ids, attention_mask=None, labels=None, **kwargs):
        h = self.emb(input_ids)
        for layer in self.layers:
            h = layer(h) if not (self.gradient_checkpointing and self.training) else torch.utils.checkpoint.checkpoint(layer, h, use_reentrant=False)
        logits = self.head(self.norm(h))
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
            prev = h
            for k, m in enumerate(self.mtp, start=1):
                nxt = torch.roll(input_ids, shifts=-k, dims=1)
                prev = m["layer"](m["proj"](torch.cat([m["hnorm"](prev), m["enorm"](self.emb(nxt))], dim=-1)))
                lg = self.head(self.norm(prev))
                tgt = labels[:, k + 1:]
                loss = loss + 0.3 / len(self.mtp) * F.cross_entropy(lg[:, : -(k + 1)].float().flatten(0, 1), tgt.flatten(), ignore_index=-100)
        return CausalLMOutputWithPast(loss=loss, logits=logits)
