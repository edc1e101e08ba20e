import math
from typing import Optional, Tuple, List, Union

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast, BaseModelOutputWithPast


class XConfig(PretrainedConfig):
    model_type = "modded_lm"

    def __init__(self, vocab_size=1000, hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=320,
                 max_position_embeddings=512, dropout=0.0, initializer_range=0.02, rope_theta=10000.0, tie_word_embeddings=False, **kwargs):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.intermediate_size = intermediate_size
        self.max_position_embeddings = max_position_embeddings
        self.dropout = dropout
        self.initializer_range = initializer_range
        self.rope_theta = rope_theta
        super().__init__(tie_word_embeddings=tie_word_embeddings, **kwargs)


def norm(x):
    return F.rms_norm(x, (x.size(-1),))


class CastedLinear(nn.Linear):
    def forward(self, x):
        return F.linear(x, self.weight.to(x.dtype))


class CausalSelfAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.c_q = CastedLinear(dim, dim, bias=False)
        self.c_k = CastedLinear(dim, dim, bias=False)
        self.c_v = CastedLinear(dim, dim, bias=False)
        self.lambdas = nn.Parameter(torch.tensor([0.5, 0.5]))
        self.c_proj = CastedLinear(dim, dim, bias=False)
        self.c_proj.weight.data.zero_()

    def forward(self, x, vi, cos, sin):
        B, T = x.size(0), x.size(1)
        q = self.c_q(x).view(B, T, self.num_heads, -1)
        k = self.c_k(x).view(B, T, self.num_heads, -1)
        v = self.c_v(x).view(B, T, self.num_heads, -1)
        v = self.lambdas[0] * v + self.lambdas[1] * vi.view_as(v)
        q, k = norm(q), norm(k)
        q1, q2 = q.chunk(2, dim=3)
        q = torch.cat((q1 * cos + q2 * sin, q1 * (-sin) + q2 * cos), 3).type_as(x)
        k1, k2 = k.chunk(2, dim=3)
        k = torch.cat((k1 * cos + k2 * sin, k1 * (-sin) + k2 * cos), 3).type_as(x)
        y = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        y = y.transpose(1, 2).contiguous().view_as(x)
        return self.c_proj(y)


class MLP(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.c_fc = CastedLinear(dim, 4 * dim, bias=False)
        self.c_proj = CastedLinear(4 * dim, dim, bias=False)

    def forward(self, x):
        x = self.c_fc(x)
        x = F.relu(x).square()
        return self.c_proj(x)


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attn = CausalSelfAttention(config.hidden_size, config.num_attention_heads)
        self.mlp = MLP(config.hidden_size)
        self.lambdas = nn.Parameter(torch.tensor([1.0, 0.0]))

    def forward(self, x, vi, x0, cos, sin):
        x = self.lambdas[0] * x + self.lambdas[1] * x0
        x = x + self.attn(norm(x), vi, cos, sin)
        x = x + self.mlp(norm(x))
        return x


class XForCausalLM(PreTrainedModel):
    config_class = XConfig

    def __init__(self, config):
        super().__init__(config)
        self.num_encoder_layers = config.num_hidden_layers // 2
        self.num_decoder_layers = config.num_hidden_layers - self.num_encoder_layers
        self.skip_weights = nn.Parameter(torch.ones(self.num_decoder_layers))
        self.transformer = nn.ModuleDict(dict(
            wte=nn.Embedding(config.vocab_size, config.hidden_size),
            vte=nn.Embedding(config.vocab_size, config.hidden_size * config.num_hidden_layers),
            h=nn.ModuleList([Block(config) for _ in range(config.num_hidden_layers)]),
        ))
        self.lm_head = CastedLinear(config.hidden_size, config.vocab_size, bias=False)
        dim = config.hidden_size // config.num_attention_heads
        inv_freq = (1 / 10000) ** (torch.arange(0, dim, 2) / dim)
        t = torch.arange(config.max_position_embeddings, dtype=torch.float32)
        freqs = torch.einsum("i,j->ij", t, inv_freq)
        self.register_buffer("cos", freqs.cos(), persistent=False)
        self.register_buffer("sin", freqs.sin(), persistent=False)
        self.post_init()

    def get_input_embeddings(self):
        return self.transformer.wte

    def forward(self, input_ids, attention_mask=None, labels=None, **kwargs):
        x = self.transformer.wte(input_ids)
        x = norm(x)
        x0 = x
        vi = self.transformer.vte(input_ids).chunk(self.config.num_hidden_layers, dim=-1)
        n = input_ids.size(1)
        cos, sin = self.cos[None, :n, None, :].to(x.dtype), self.sin[None, :n, None, :].to(x.dtype)
        skip_connections = []
        for i in range(self.num_encoder_layers):
            x = self.transformer.h[i](x, vi[i], x0, cos, sin)
            skip_connections.append(x)
        for i in range(self.num_decoder_layers):
            x = x + self.skip_weights[i] * skip_connections.pop()
            x = self.transformer.h[self.num_encoder_layers + i](x, vi[self.num_encoder_layers + i], x0, cos, sin)
        x = norm(x)
        logits = self.lm_head(x)
        logits = 30 * torch.tanh(logits / 30)
        logits = logits.float()
        loss = F.cross_entropy(logits[:, :-1, :].reshape(-1, logits.size(-1)), labels[:, 1:].reshape(-1)) if labels is not None else None
        return CausalLMOutputWithPast(loss=loss, logits=logits)
