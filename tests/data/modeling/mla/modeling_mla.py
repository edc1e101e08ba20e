import math
import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import PretrainedConfig, PreTrainedModel, GenerationMixin
from transformers.modeling_outputs import CausalLMOutputWithPast

from transformers.cache_utils import Cache, DynamicCache
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from typing import Optional, Tuple


class MLAConfig(PretrainedConfig):
    model_type = "mla_lm"
    def __init__(self, vocab_size=1000, hidden_size=256, num_hidden_layers=3, num_attention_heads=4, q_lora_rank=96, kv_lora_rank=64,
                 qk_nope_head_dim=48, qk_rope_head_dim=16, v_head_dim=64, intermediate_size=512, max_position_embeddings=1024,
                 rope_theta=10000.0, use_cache=True, **kwargs):
        for k, v in dict(locals()).items():
            if k not in ("self", "kwargs", "__class__"):
                setattr(self, k, v)
        super().__init__(**kwargs)


class RMSNorm(nn.Module):
    def __init__(self, d, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))
        self.eps = eps
    def forward(self, x):
        return F.rms_norm(x, (x.size(-1),), self.weight, self.eps)


def precompute_freqs_cis(dim, end, theta=10000.0):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: (dim // 2)].float() / dim))
    t = torch.arange(end, dtype=torch.float32)
    freqs = torch.outer(t, freqs)
    return torch.stack([torch.cos(freqs), torch.sin(freqs)], dim=-1)


def apply_rotary(x, freqs):
    xs = x.float().reshape(*x.shape[:-1], -1, 2)
    freqs = freqs.view(1, xs.size(1), 1, xs.size(3), 2)
    out = torch.stack([xs[..., 0] * freqs[..., 0] - xs[..., 1] * freqs[..., 1], xs[..., 1] * freqs[..., 0] + xs[..., 0] * freqs[..., 1]], -1)
    return out.flatten(3).type_as(x)


class MLA(nn.Module):
    def __init__(self, c, layer_idx):
        super().__init__()
        self.c, self.layer_idx = c, layer_idx
        self.h = c.num_attention_heads
        self.qk = c.qk_nope_head_dim + c.qk_rope_head_dim
        self.q_a = nn.Linear(c.hidden_size, c.q_lora_rank, bias=False)
        self.q_a_norm = RMSNorm(c.q_lora_rank)
        self.q_b = nn.Linear(c.q_lora_rank, self.h * self.qk, bias=False)
        self.kv_a = nn.Linear(c.hidden_size, c.kv_lora_rank + c.qk_rope_head_dim, bias=False)
        self.kv_a_norm = RMSNorm(c.kv_lora_rank)
        self.kv_b = nn.Linear(c.kv_lora_rank, self.h * (c.qk_nope_head_dim + c.v_head_dim), bias=False)
        self.o = nn.Linear(self.h * c.v_head_dim, c.hidden_size, bias=False)

    def forward(self, x, freqs, mask, past: Optional[Cache] = None):
        b, s, _ = x.shape
        q = self.q_b(self.q_a_norm(self.q_a(x))).view(b, s, self.h, self.qk)
        q_nope, q_pe = torch.split(q, [self.c.qk_nope_head_dim, self.c.qk_rope_head_dim], dim=-1)
        kv, k_pe = self.kv_a(x).split([self.c.kv_lora_rank, self.c.qk_rope_head_dim], dim=-1)
        q_pe = apply_rotary(q_pe, freqs)
        k_pe = apply_rotary(k_pe.unsqueeze(2), freqs)
        kv = self.kv_b(self.kv_a_norm(kv)).view(b, s, self.h, -1)
        k_nope, v = torch.split(kv, [self.c.qk_nope_head_dim, self.c.v_head_dim], dim=-1)
        q = torch.cat([q_nope, q_pe], dim=-1).transpose(1, 2)
        k = torch.cat([k_nope, k_pe.expand(-1, -1, self.h, -1)], dim=-1).transpose(1, 2)
        v = v.transpose(1, 2)
        if past is not None:
            k, v = past.update(k, v, self.layer_idx)
        scores = torch.matmul(q, k.transpose(2, 3)) * (self.qk ** -0.5)
        if mask is not None:
            scores += mask
        p = scores.softmax(dim=-1, dtype=torch.float32).to(x.dtype)
        out = (p @ v).transpose(1, 2).flatten(2)
        return self.o(out)


class Block(nn.Module):
    def __init__(self, c, i):
        super().__init__()
        self.n1, self.n2 = RMSNorm(c.hidden_size), RMSNorm(c.hidden_size)
        self.attn = MLA(c, i)
        self.ffn = nn.Sequential(nn.Linear(c.hidden_size, c.intermediate_size), nn.GELU(approximate="tanh"), nn.Linear(c.intermediate_size, c.hidden_size))
    def forward(self, x, freqs, mask, past=None):
        x = x + self.attn(self.n1(x), freqs, mask, past)
        return x + self.ffn(self.n2(x))


class MLAForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = MLAConfig
    supports_gradient_checkpointing = True
    _no_split_modules = ["Block"]
    def __init__(self, config):
        super().__init__(config)
        c = config
        self.embed_tokens = nn.Embedding(c.vocab_size, c.hidden_size)
        self.layers = nn.ModuleList()
        for i in range(c.num_hidden_layers):
            self.layers.append(Block(c, i))
        self.norm = RMSNorm(c.hidden_size)
        self.lm_head = nn.Linear(c.hidden_size, c.vocab_size, bias=False)
        self.register_buffer("freqs", precompute_freqs_cis(c.qk_rope_head_dim, c.max_position_embeddings, c.rope_theta), persistent=False)
        self.gradient_checkpointing = False
        self.post_init()
    def forward(self, input_ids, attention_mask=None, labels=None, use_cache=None, past_key_values=None, **kwargs):
        use_cache = self.config.use_cache if use_cache is None else use_cache
        if use_cache and past_key_values is None:
            past_key_values = DynamicCache()
        x = self.embed_tokens(input_ids)
        s = input_ids.shape[1]
        mask = None
        if s > 1:
            mask = torch.full((s, s), float("-inf"), device=input_ids.device).triu_(1)
        freqs = self.freqs[:s]
        for layer in self.layers:
            if self.training and self.gradient_checkpointing:
                x = self._gradient_checkpointing_func(layer.__call__, x, freqs, mask)
            else:
                x = layer(x, freqs, mask, past_key_values)
        logits = self.lm_head(self.norm(x)).float()
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits[:, :-1].reshape(-1, logits.size(-1)), labels[:, 1:].reshape(-1))
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=past_key_values if use_cache else None)
