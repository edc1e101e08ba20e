"""Parallel retention (Sun et al. 2023) with xpos-like rotation and group norm per head."""
from typing import Optional

import torch
import torch.nn.functional as F
from torch import nn
from transformers.configuration_utils import PretrainedConfig
from transformers.generation import GenerationMixin
from transformers.modeling_utils import PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast


class RetNetConfig(PretrainedConfig):
    model_type = "retnet"

    def __init__(self, vocab_size=800, hidden_size=128, num_hidden_layers=2, num_heads=4, v_factor=2, ffn_size=256, **kwargs):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.num_heads = num_heads
        self.v_factor = v_factor
        self.ffn_size = ffn_size
        super().__init__(**kwargs)


def rotate_every_two(x):
    x1 = x[:, :, :, ::2]
    x2 = x[:, :, :, 1::2]
    x = torch.stack((-x2, x1), dim=-1)
    return x.flatten(-2)


def theta_shift(x, sin, cos):
    return (x * cos) + (rotate_every_two(x) * sin)


class RetNetRelPos(nn.Module):
    def __init__(self, config):
        super().__init__()
        angle = 1.0 / (10000 ** torch.linspace(0, 1, config.hidden_size // config.num_heads // 2))
        angle = angle.unsqueeze(-1).repeat(1, 2).flatten()
        decay = torch.log(1 - 2 ** (-5 - torch.arange(config.num_heads, dtype=torch.float)))
        self.register_buffer("angle", angle)
        self.register_buffer("decay", decay)

    @torch.no_grad()
    def forward(self, slen: int):
        index = torch.arange(slen).to(self.decay)
        sin = torch.sin(index[:, None] * self.angle[None, :])
        cos = torch.cos(index[:, None] * self.angle[None, :])
        mask = torch.tril(torch.ones(slen, slen).to(self.decay))
        mask = torch.masked_fill(index[:, None] - index[None, :], ~mask.bool(), float("inf"))
        mask = torch.exp(mask * self.decay[:, None, None])
        mask = torch.nan_to_num(mask)
        mask = mask / mask.sum(dim=-1, keepdim=True).sqrt()
        return (sin, cos), mask


class MultiScaleRetention(nn.Module):
    def __init__(self, config: RetNetConfig):
        super().__init__()
        dim, self.heads, factor = config.hidden_size, config.num_heads, config.v_factor
        self.key_dim = dim // self.heads
        self.head_dim = dim * factor // self.heads
        self.scaling = self.key_dim**-0.5
        self.q_proj = nn.Linear(dim, dim, bias=False)
        self.k_proj = nn.Linear(dim, dim, bias=False)
        self.v_proj = nn.Linear(dim, dim * factor, bias=False)
        self.g_proj = nn.Linear(dim, dim * factor, bias=False)
        self.out_proj = nn.Linear(dim * factor, dim, bias=False)
        self.group_norm = nn.LayerNorm(self.head_dim, elementwise_affine=False)

    def forward(self, x: torch.Tensor, rel_pos):
        bsz, tgt_len, _ = x.size()
        (sin, cos), inner_mask = rel_pos
        q = self.q_proj(x)
        k = self.k_proj(x)
        v = self.v_proj(x)
        g = self.g_proj(x)
        k *= self.scaling
        q = q.view(bsz, tgt_len, self.heads, self.key_dim).transpose(1, 2)
        k = k.view(bsz, tgt_len, self.heads, self.key_dim).transpose(1, 2)
        sin, cos = sin.to(q.dtype), cos.to(q.dtype)
        qr = theta_shift(q, sin, cos)
        kr = theta_shift(k, sin, cos)
        vr = v.view(bsz, tgt_len, self.heads, self.head_dim).transpose(1, 2)
        qk_mat = qr @ kr.transpose(-1, -2)
        qk_mat = qk_mat * inner_mask.to(qk_mat.dtype)
        qk_mat = qk_mat / qk_mat.detach().abs().sum(dim=-1, keepdim=True).clamp(min=1, max=5e4)
        output = torch.matmul(qk_mat, vr)
        output = output.transpose(1, 2)
        output = self.group_norm(output).reshape(bsz, tgt_len, self.head_dim * self.heads)
        output = F.silu(g) * output
        return self.out_proj(output)


class RetNetLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.retention = MultiScaleRetention(config)
        self.fc1 = nn.Linear(config.hidden_size, config.ffn_size)
        self.fc2 = nn.Linear(config.ffn_size, config.hidden_size)
        self.ln1 = nn.LayerNorm(config.hidden_size)
        self.ln2 = nn.LayerNorm(config.hidden_size)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x, rel_pos):
        x = x + self.dropout(self.retention(self.ln1(x), rel_pos))
        h = F.gelu(self.fc1(self.ln2(x).float()).type_as(x)) if False else F.gelu(self.fc1(self.ln2(x)))
        h = F.dropout(h, p=0.1, training=self.training)
        return x + self.fc2(h)


class RetNetForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = RetNetConfig
    base_model_prefix = "retnet"
    supports_gradient_checkpointing = True

    def __init__(self, config):
        super().__init__(config)
        self.emb = nn.Embedding(config.vocab_size, config.hidden_size)
        self.rel_pos = RetNetRelPos(config)
        self.layers = nn.ModuleList([])
        for _ in range(config.num_hidden_layers):
            self.layers.append(RetNetLayer(config))
        self.norm = nn.LayerNorm(config.hidden_size)
        self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self):
        return self.emb

    def forward(self, input_ids: Optional[torch.LongTensor] = None, attention_mask=None, labels=None, **kwargs):
        x = self.emb(input_ids)
        slen = x.size(1)
        rel = self.rel_pos(slen)
        for idx, layer in enumerate(self.layers):
            if self.gradient_checkpointing and self.training:
                x = self._gradient_checkpointing_func(layer.__call__, x, rel)
            else:
                x = layer(x, rel_pos=rel)
        logits = self.head(self.norm(x))
        loss = None
        if labels is not None:
            loss_fct = nn.CrossEntropyLoss()
            loss = loss_fct(logits[:, :-1, :].contiguous().view(-1, self.config.vocab_size), labels[:, 1:].contiguous().view(-1))
        return CausalLMOutputWithPast(loss=loss, logits=logits)
