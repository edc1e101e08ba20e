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


@dataclass
class ToyOutput(CausalLMOutput):
    lm_loss: Optional[torch.FloatTensor] = None
    value_loss: Optional[torch.FloatTensor] = None
    values: torch.FloatTensor = None


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        d = config.n_embd
        self.attn = nn.MultiheadAttention(d, config.n_head, batch_first=True, bias=config.bias)
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d), nn.Dropout(0.1))

    def forward(self, x, mask=None):
        h = self.ln1(x)
        x = x + self.attn(h, h, h, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.ln2(x))


class ToyForCausalLM(PreTrainedModel):
    config_class = ToyConfig
    supports_gradient_checkpointing = True

    def __init__(self, config):
        super().__init__(config)
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Parameter(torch.zeros(1, config.block_size, config.n_embd))
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.n_layer)])
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.value_head = nn.Sequential(nn.Linear(config.n_embd, config.n_embd), nn.Tanh(), nn.Linear(config.n_embd, 1))
        self.cls_head = nn.Linear(config.n_embd, 5)
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self):
        return self.wte

    def forward(self, input_ids, attention_mask=None, labels=None, **kwargs):
        B, T = input_ids.shape
        x = self.wte(input_ids) + self.wpe[:, :T]
        mask = torch.triu(torch.full((T, T), float("-inf"), device=x.device, dtype=x.dtype), diagonal=1)
        for block in self.blocks:
            if self.gradient_checkpointing and self.training:
                x = self._gradient_checkpointing_func(block.__call__, x, mask)
            else:
                x = block(x, mask)
        logits = self.lm_head(x)
        values = self.value_head(x).squeeze(-1)
        pooled = x.mean(dim=1)
        cls = self.cls_head(pooled)
        loss = lm_loss = value_loss = None
        if labels is not None:
            shift_logits = logits[..., :-1, :].contiguous()
            shift_labels = labels[..., 1:].contiguous()
            loss_fct = nn.CrossEntropyLoss(reduction="none")
            per_token = loss_fct(shift_logits.view(-1, self.config.vocab_size).float(), shift_labels.view(-1)).view(B, T - 1)
            m = attention_mask[:, 1:].to(per_token.dtype) if attention_mask is not None else torch.ones_like(per_token)
            lm_loss = (per_token * m).sum() / m.sum().clamp(min=1)
            target = torch.linspace(0, 1, T, device=x.device, dtype=x.dtype).expand(B, T)
            value_loss = F.mse_loss(values, target)
            z = torch.logsumexp(logits.float(), dim=-1).pow(2).mean()
            cls_loss = F.cross_entropy(cls.float(), labels[:, 0].clamp(0, 4))
            smooth = F.smooth_l1_loss(values, target)
            loss = lm_loss + 0.1 * value_loss + 1e-4 * z + 0.1 * cls_loss + smooth
        return ToyOutput(loss=loss, logits=logits, lm_loss=lm_loss, value_loss=value_loss, values=values)
