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


class MLP(nn.Module):
    def __init__(self, d, mult=4):
        super().__init__()
        self.w1, self.w2, self.w3 = nn.Linear(d, mult * d, bias=False), nn.Linear(mult * d, d, bias=False), nn.Linear(d, mult * d, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, config, capacity=0.25):
        super().__init__()
        self.capacity = capacity
        self.router = nn.Linear(config.n_embd, 1, bias=False)
        self.mlp = MLP(config.n_embd)
        self.aux_router = nn.Sequential(nn.Linear(config.n_embd, config.n_embd // 2), nn.SiLU(), nn.Linear(config.n_embd // 2, 1))

    def forward(self, x):
        b, s, dim = x.shape
        k = int(s * self.capacity)
        router_logits = self.router(x)
        weights, token_index = torch.topk(router_logits, k, dim=1, sorted=False)
        selected, index = torch.sort(token_index, dim=1)
        indices_expanded = selected.expand(-1, -1, dim)
        filtered_x = torch.gather(input=x, dim=1, index=indices_expanded)
        x_out = self.mlp(filtered_x)
        token_weights = F.softmax(weights, dim=1)
        r_weights = torch.gather(token_weights, dim=1, index=index)
        xw_out = r_weights * x_out
        out = torch.scatter_add(input=x, dim=1, index=indices_expanded, src=xw_out)
        with torch.no_grad():
            targets = torch.zeros_like(router_logits)
            targets.scatter_(1, token_index, 1.0)
        aux = F.binary_cross_entropy_with_logits(self.aux_router(x.detach()), targets)
        return out + aux * 0


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
