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
    """ windows, pools and upsampling between tokens """

    def __init__(self, config):
        super().__init__()
        d = config.n_embd
        self.w = 8
        self.qkv = nn.Linear(d, 3 * d)
        self.o = nn.Linear(d, d)
        self.act = nn.PReLU()
        self.pool = nn.MaxPool1d(3, stride=1, padding=1)
        self.up = nn.Upsample(scale_factor=2)
        self.drop = nn.Dropout1d(0.1)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        k = F.pad(k, (0, 0, self.w - 1, 0)).unfold(1, self.w, 1)
        s = torch.einsum('btc,btcw->btw', q, k) / math.sqrt(C)
        y = torch.einsum('btw,btcw->btc', s.softmax(-1), k)
        y = self.act(y) + self.pool(v.transpose(1, 2)).transpose(1, 2)
        z = F.avg_pool1d(y.transpose(1, 2), 2)
        y = y + self.up(z).transpose(1, 2)
        y = y + F.pad(z, (2, 0), mode="reflect")[..., 2:].mean(-1).unsqueeze(1)
        return x + self.drop(self.o(y)) * F.adaptive_avg_pool1d(y.transpose(1, 2), 1).transpose(1, 2)


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
