"""PaLM style: attention and feed-forward side by side, multi-query, one fused projection; tied head."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import PreTrainedModel, PretrainedConfig
from transformers.modeling_outputs import CausalLMOutput


class ParallelConfig(PretrainedConfig):
    model_type = "parallel_lm"
    attribute_map = {"hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head",
                     "max_position_embeddings": "n_ctx"}

    def __init__(self, vocab_size=50304, n_embd=512, n_layer=6, n_head=8, n_ctx=1024, ff_mult=4, dropout=0.0, bias=False,
                 rotary_pct=0.5, tie_word_embeddings=True, **kwargs):
        super().__init__(tie_word_embeddings=tie_word_embeddings, **kwargs)
        self.vocab_size = vocab_size
        self.n_embd = n_embd
        self.n_layer = n_layer
        self.n_head = n_head
        self.n_ctx = n_ctx
        self.ff_mult = ff_mult
        self.dropout = dropout
        self.bias = bias
        self.rotary_pct = rotary_pct


class LayerNorm(nn.Module):
    """LayerNorm with an optional bias."""

    def __init__(self, ndim, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(ndim))
        self.bias = nn.Parameter(torch.zeros(ndim)) if bias else None

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


class Rotary(nn.Module):
    def __init__(self, dim, base=10000):
        super().__init__()
        inv_freq = 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim))
        self.register_buffer("inv_freq", inv_freq)
        self.seq_len_cached = None
        self.cos_cached = None
        self.sin_cached = None

    def forward(self, x):
        seq_len = x.shape[-2]
        if seq_len != self.seq_len_cached:
            self.seq_len_cached = seq_len
            t = torch.arange(seq_len, device=x.device).type_as(self.inv_freq)
            freqs = torch.outer(t, self.inv_freq)
            self.cos_cached = freqs.cos().to(x.dtype)
            self.sin_cached = freqs.sin().to(x.dtype)
        return self.cos_cached[None, None, :, :], self.sin_cached[None, None, :, :]


def apply_rotary(x, cos, sin):
    d = cos.shape[-1]
    x1, x2, rest = x[..., :d], x[..., d:2 * d], x[..., 2 * d:]
    return torch.cat([x1 * cos - x2 * sin, x1 * sin + x2 * cos, rest], dim=-1)


class ParallelBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        assert config.n_embd % config.n_head == 0
        self.n_head = config.n_head
        self.head_dim = config.n_embd // config.n_head
        self.ff = config.ff_mult * config.n_embd
        self.norm = LayerNorm(config.n_embd, config.bias)
        self.fused = nn.Linear(config.n_embd, config.n_embd + 2 * self.head_dim + 2 * self.ff, bias=config.bias)
        self.attn_out = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.ff_out = nn.Linear(self.ff, config.n_embd, bias=config.bias)
        self.dropout = config.dropout
        self.rotary = Rotary(int(self.head_dim * config.rotary_pct))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v, ff = self.fused(self.norm(x)).split((C, self.head_dim, self.head_dim, 2 * self.ff), dim=-1)
        q = q.view(B, T, self.n_head, self.head_dim).transpose(1, 2)
        k = k.unsqueeze(1)
        v = v.unsqueeze(1)
        cos, sin = self.rotary(q)
        q, k = apply_rotary(q, cos, sin), apply_rotary(k, cos, sin)
        k = k.expand(B, self.n_head, T, self.head_dim)
        v = v.expand(B, self.n_head, T, self.head_dim)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=self.dropout if self.training else 0.0, is_causal=True)
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        gate, up = ff.chunk(2, dim=-1)
        return x + self.attn_out(y) + self.ff_out(F.silu(gate) * up)


class ParallelForCausalLM(PreTrainedModel):
    config_class = ParallelConfig
    base_model_prefix = "transformer"
    _no_split_modules = ["ParallelBlock"]
    _tied_weights_keys = {"lm_head.weight": "wte.weight"}

    def __init__(self, config):
        super().__init__(config)
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.drop = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList([ParallelBlock(config) for _ in range(config.n_layer)])
        self.norm_f = LayerNorm(config.n_embd, config.bias)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self):
        return self.wte

    def set_input_embeddings(self, value):
        self.wte = value

    def get_output_embeddings(self):
        return self.lm_head

    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02 / math.sqrt(2 * self.config.n_layer))

    def forward(self, input_ids, attention_mask=None, labels=None, return_dict=None, **kwargs):
        x = self.drop(self.wte(input_ids))
        for block in self.blocks:
            x = block(x)
        logits = self.lm_head(self.norm_f(x))
        loss = None
        if labels is not None:
            shift_logits = logits[..., :-1, :].contiguous()
            shift_labels = labels[..., 1:].contiguous()
            loss = F.cross_entropy(shift_logits.view(-1, shift_logits.size(-1)), shift_labels.view(-1), ignore_index=-100)
        return CausalLMOutput(loss=loss, logits=logits)
