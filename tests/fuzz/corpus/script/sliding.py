"""ALiBi with sandwiched norms, gated attention output, squared relu; head of its own; loss in chunks of fp32."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from transformers import PreTrainedModel, PretrainedConfig
from transformers.modeling_outputs import CausalLMOutputWithPast


class AlibiConfig(PretrainedConfig):
    model_type = "alibi_lm"

    def __init__(self, vocab_size=1000, d_model=256, n_layers=3, n_heads=8, mlp_ratio=4, alibi_bias_max=8, resid_pdrop=0.0,
                 clip_qkv=None, emb_scale=True, **kwargs):
        self.vocab_size = vocab_size
        self.d_model = d_model
        self.n_layers = n_layers
        self.n_heads = n_heads
        self.mlp_ratio = mlp_ratio
        self.alibi_bias_max = alibi_bias_max
        self.resid_pdrop = resid_pdrop
        self.clip_qkv = clip_qkv
        self.emb_scale = emb_scale
        kwargs.setdefault("tie_word_embeddings", False)
        super().__init__(**kwargs)

    @property
    def hidden_size(self):
        return self.d_model

    @property
    def num_attention_heads(self):
        return self.n_heads


def gen_slopes(n_heads, alibi_bias_max=8):
    _n_heads = 2 ** math.ceil(math.log2(n_heads))
    m = torch.arange(1, _n_heads + 1, dtype=torch.float32)
    m = m.mul(alibi_bias_max / _n_heads)
    slopes = 1.0 / torch.pow(2, m)
    return slopes.view(1, n_heads, 1, 1)


class SquaredReLU(nn.Module):
    def forward(self, x):
        return torch.square(F.relu(x))


class AlibiAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.n_heads = config.n_heads
        self.d_head = config.d_model // config.n_heads
        self.clip_qkv = config.clip_qkv
        self.Wqkv = nn.Linear(config.d_model, 3 * config.d_model, bias=False)
        self.gate = nn.Linear(config.d_model, config.n_heads, bias=True)
        self.out_proj = nn.Linear(config.d_model, config.d_model, bias=False)
        self.softmax_scale = 1 / math.sqrt(self.d_head)

    def forward(self, x, attn_bias):
        b, s, d = x.shape
        qkv = self.Wqkv(x)
        if self.clip_qkv:
            qkv = qkv.clamp(min=-self.clip_qkv, max=self.clip_qkv)
        query, key, value = qkv.chunk(3, dim=2)
        query = query.view(b, s, self.n_heads, self.d_head).transpose(1, 2).reshape(b * self.n_heads, s, self.d_head)
        key = key.view(b, s, self.n_heads, self.d_head).permute(0, 2, 3, 1).reshape(b * self.n_heads, self.d_head, s)
        value = value.view(b, s, self.n_heads, self.d_head).transpose(1, 2)
        scores = torch.bmm(query, key).mul(self.softmax_scale).view(b, self.n_heads, s, s)
        scores = scores + attn_bias
        weights = scores.softmax(dim=-1, dtype=torch.float32).to(value.dtype)
        out = torch.matmul(weights, value)
        out = out * torch.sigmoid(self.gate(x)).transpose(1, 2).unsqueeze(-1)
        return self.out_proj(out.transpose(1, 2).flatten(2))


class AlibiBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm_1 = nn.LayerNorm(config.d_model)
        self.attn = AlibiAttention(config)
        self.norm_2 = nn.LayerNorm(config.d_model)
        self.ffn = nn.Sequential(
            nn.Linear(config.d_model, config.mlp_ratio * config.d_model),
            SquaredReLU(),
            nn.Linear(config.mlp_ratio * config.d_model, config.d_model),
        )
        self.resid_dropout = nn.Dropout(config.resid_pdrop)

    def forward(self, x, attn_bias):
        x = x + self.resid_dropout(self.attn(self.norm_1(x), attn_bias))
        x = x + self.resid_dropout(self.ffn(self.norm_2(x)))
        return x


class M(PreTrainedModel):
    config_class = AlibiConfig
    base_model_prefix = "transformer"
    supports_gradient_checkpointing = True
    _no_split_modules = ["AlibiBlock"]

    def __init__(self, config):
        super().__init__(config)
        self.wte = nn.Embedding(config.vocab_size, config.d_model)
        self.blocks = nn.ModuleList([AlibiBlock(config) for _ in range(config.n_layers)])
        self.norm_f = nn.LayerNorm(config.d_model)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.register_buffer("slopes", gen_slopes(config.n_heads, config.alibi_bias_max), persistent=False)
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self):
        return self.wte

    def _attn_bias(self, attention_mask, s, device, dtype):
        bias = torch.arange(1 - s, 1, dtype=torch.int32, device=device).view(1, 1, 1, s)
        bias = (bias * self.slopes).to(dtype=dtype)
        causal = torch.ones(s, s, dtype=torch.bool, device=device).tril().logical_not()
        bias = bias.masked_fill(causal.view(1, 1, s, s), torch.finfo(dtype).min)
        if attention_mask is not None:
            bias = bias.masked_fill(~attention_mask.view(-1, 1, 1, s).bool(), torch.finfo(dtype).min)
        return bias

    def forward(self, input_ids=None, attention_mask=None, labels=None, **kwargs):
        x = self.wte(input_ids)
        if self.config.emb_scale:
            x = x * math.sqrt(self.config.d_model)
        attn_bias = self._attn_bias(attention_mask, input_ids.size(1), x.device, x.dtype)
        for block in self.blocks:
            if self.gradient_checkpointing and self.training:
                x = self._gradient_checkpointing_func(block.__call__, x, attn_bias)
            else:
                x = block(x, attn_bias)
        x = self.norm_f(x)
        logits = self.lm_head(x)
        loss = None
        if labels is not None:
            targets = torch.roll(labels, shifts=-1)
            targets[:, -1] = -100
            loss = F.cross_entropy(logits.float().view(-1, logits.size(-1)), targets.to(logits.device).view(-1))
        return CausalLMOutputWithPast(loss=loss, logits=logits)
