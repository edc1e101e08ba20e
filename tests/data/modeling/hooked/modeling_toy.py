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
    """ cells, and hooks that see and change what passes """

    def __init__(self, config):
        super().__init__()
        d = config.n_embd
        self.norm = nn.LayerNorm(d)
        self.fc, self.fc2 = nn.Linear(d, d), nn.Linear(d, d)
        self.gru, self.lstm = nn.GRUCell(d, d), nn.LSTMCell(d, d)
        self.fc.register_forward_hook(self._save)
        self.fc2.register_forward_pre_hook(lambda module, args: (args[0] * 0.5,))
        handle = self.fc.register_forward_hook(lambda module, args, output: output * 2)
        handle.remove()
        self.cache = {}

    def _save(self, module, inputs, output):
        self.cache["mean"] = output.detach().mean()

    def forward(self, x):
        y = self.fc(self.norm(x))
        y = self.fc2(F.gelu(y)) * self.cache.pop("mean")
        h, state, outs = y[:, 0], None, []
        for t in range(0, x.size(1), 16):
            h = self.gru(y[:, t], h)
            state = self.lstm(h, state)
            outs.append(state[0])
        return x + torch.stack(outs, dim=1).repeat_interleave(16, dim=1)


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
