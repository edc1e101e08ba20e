"""A decoder with differential attention (Ye et al., 2024): each head subtracts a second softmax from its first, and normalises what is left.

One file: config, an RMSNorm whose backward is its own, attention, layers, model. What AutoModelForCausalLM(trust_remote_code=True) would load.
"""
import math

import torch
from torch import nn
from torch.nn import functional as F

from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.masking_utils import create_causal_mask
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutputWithPast


class DiffConfig(PretrainedConfig):
    model_type = "diff_transformer"
    attribute_map = {"hidden_size": "d_model", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads"}
    base_model_tp_plan = None

    def __init__(self, vocab_size=32000, d_model=2048, n_layers=24, n_heads=16, n_kv_heads=4, ffn_dim=5632, max_position_embeddings=4096,
                 rope_base=10000.0, norm_eps=1e-5, tie_word_embeddings=True, **kwargs):
        super().__init__(tie_word_embeddings=tie_word_embeddings, **kwargs)
        self.vocab_size = vocab_size
        self.d_model = d_model
        self.n_layers = n_layers
        self.n_heads = n_heads
        self.n_kv_heads = n_kv_heads
        self.ffn_dim = ffn_dim
        self.max_position_embeddings = max_position_embeddings
        self.rope_base = rope_base
        self.norm_eps = norm_eps


class RMSNormFunction(torch.autograd.Function):
    """Keeps x and one number a row instead of the normalised rows in fp32."""

    @staticmethod
    def forward(ctx, x, weight, eps):
        wide = x.float()
        rstd = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
        ctx.save_for_backward(x, weight, rstd)
        return (wide * rstd).to(x.dtype) * weight

    @staticmethod
    def backward(ctx, grad):
        x, weight, rstd = ctx.saved_tensors
        normed = x.float() * rstd
        wide = grad.float()
        grad_weight = (wide * normed).sum(tuple(range(grad.dim() - 1))).to(weight.dtype)
        wide = wide * weight.float()
        grad_x = (wide - normed * (wide * normed).mean(-1, keepdim=True)) * rstd
        return grad_x.to(x.dtype), grad_weight, None


class RMSNorm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        return RMSNormFunction.apply(x, self.weight, self.eps)


def rotate(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class DiffAttention(nn.Module):
    def __init__(self, config, depth):
        super().__init__()
        self.heads, self.kv_heads = config.n_heads, config.n_kv_heads
        self.width = config.d_model // config.n_heads // 2
        self.q_proj = nn.Linear(config.d_model, 2 * self.heads * self.width, bias=False)
        self.k_proj = nn.Linear(config.d_model, 2 * self.kv_heads * self.width, bias=False)
        self.v_proj = nn.Linear(config.d_model, 2 * self.kv_heads * self.width, bias=False)
        self.o_proj = nn.Linear(config.d_model, config.d_model, bias=False)
        self.lambda_init = 0.8 - 0.6 * math.exp(-0.3 * depth)
        self.lambda_q = nn.Parameter(torch.zeros(2, self.width))
        self.lambda_k = nn.Parameter(torch.zeros(2, self.width))
        self.norm = RMSNorm(2 * self.width, config.norm_eps)

    def forward(self, x, cos, sin, mask):
        batch, length, _ = x.shape
        q = self.q_proj(x).view(batch, length, 2 * self.heads, self.width).transpose(1, 2)
        k = self.k_proj(x).view(batch, length, 2 * self.kv_heads, self.width).transpose(1, 2)
        v = self.v_proj(x).view(batch, length, self.kv_heads, 2 * self.width).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        groups = self.heads // self.kv_heads
        k = k.repeat_interleave(groups, dim=1)
        v = v.repeat_interleave(groups, dim=1)
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.width)
        if mask is not None:
            scores = scores + mask
        maps = F.softmax(scores, dim=-1, dtype=torch.float32).type_as(x)
        maps = maps.view(batch, self.heads, 2, length, length)
        first, second = torch.exp((self.lambda_q * self.lambda_k).sum(-1).float()).unbind(0)
        weight = (first - second + self.lambda_init).type_as(x)
        maps = maps[:, :, 0] - weight * maps[:, :, 1]
        out = self.norm(torch.matmul(maps, v)) * (1 - self.lambda_init)
        return self.o_proj(out.transpose(1, 2).reshape(batch, length, -1))


class DiffLayer(GradientCheckpointingLayer):
    def __init__(self, config, depth):
        super().__init__()
        self.attention_norm = RMSNorm(config.d_model, config.norm_eps)
        self.attention = DiffAttention(config, depth)
        self.ffn_norm = RMSNorm(config.d_model, config.norm_eps)
        self.gate = nn.Linear(config.d_model, config.ffn_dim, bias=False)
        self.up = nn.Linear(config.d_model, config.ffn_dim, bias=False)
        self.down = nn.Linear(config.ffn_dim, config.d_model, bias=False)

    def forward(self, x, cos, sin, mask):
        x = x + self.attention(self.attention_norm(x), cos, sin, mask)
        h = self.ffn_norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class DiffPreTrainedModel(PreTrainedModel):
    config_class = DiffConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["DiffLayer"]


class DiffModel(DiffPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.d_model)
        self.layers = nn.ModuleList([DiffLayer(config, depth) for depth in range(config.n_layers)])
        self.norm = RMSNorm(config.d_model, config.norm_eps)
        width = config.d_model // config.n_heads // 2
        self.register_buffer("inv_freq", 1.0 / config.rope_base ** (torch.arange(0, width, 2).float() / width), persistent=False)
        self.post_init()

    def forward(self, input_ids=None, attention_mask=None, **kwargs):
        x = self.embed_tokens(input_ids)
        positions = torch.arange(x.shape[1], device=x.device)
        angles = torch.outer(positions.float(), self.inv_freq)
        cos, sin = angles.cos().type_as(x), angles.sin().type_as(x)
        mask = create_causal_mask(config=self.config, inputs_embeds=x, attention_mask=attention_mask, past_key_values=None,
                                  position_ids=positions.unsqueeze(0))
        for layer in self.layers:
            x = layer(x, cos, sin, mask)
        return BaseModelOutput(last_hidden_state=self.norm(x))


class M(DiffPreTrainedModel, GenerationMixin):
    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}

    def __init__(self, config):
        super().__init__(config)
        self.model = DiffModel(config)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.post_init()

    def forward(self, input_ids=None, attention_mask=None, labels=None, **kwargs):
        hidden = self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        logits = self.lm_head(hidden)
        loss = None
        if labels is not None:
            loss = self.loss_function(logits=logits, labels=labels, vocab_size=self.config.vocab_size, **kwargs)
        return CausalLMOutputWithPast(loss=loss, logits=logits)
