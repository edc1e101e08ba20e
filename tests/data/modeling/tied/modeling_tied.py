import math
from typing import Optional, Tuple, List, Union

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast, BaseModelOutputWithPast


class XConfig(PretrainedConfig):
    model_type = "tied_lm"

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


class Norm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        return self._norm(x.float()).type_as(x) * self.weight

class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.w1 = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.w2 = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)
        self.w3 = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x):
        return self.dropout(self.w2(F.silu(self.w1(x)) * self.w3(x)))

class LoRALinear(nn.Module):
    def __init__(self, d_in, d_out, r=4):
        super().__init__()
        self.base = nn.Linear(d_in, d_out, bias=False)
        self.A = nn.Parameter(torch.randn(r, d_in) * 0.01)
        self.B = nn.Parameter(torch.zeros(d_out, r))

    def forward(self, x):
        return self.base(x) + (x @ self.A.T) @ self.B.T


class Attention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.h = config.num_attention_heads
        d = config.hidden_size
        self.q, self.k, self.v, self.o = (LoRALinear(d, d) for _ in range(4))
        half = d // self.h // 2
        freq = torch.exp(torch.arange(half, dtype=torch.float32) * -(math.log(10000.0) / half))
        pos = torch.arange(config.max_position_embeddings, dtype=torch.float32)
        ang = pos[:, None] * freq[None, :]
        self.register_buffer("sin", torch.sin(ang).repeat_interleave(2, dim=-1), persistent=False)
        self.register_buffer("cos", torch.cos(ang).repeat_interleave(2, dim=-1), persistent=False)

    @staticmethod
    def rotate_every_two(x):
        x1, x2 = x[..., ::2], x[..., 1::2]
        return torch.stack((-x2, x1), dim=-1).flatten(-2)

    def forward(self, x):
        b, n, d = x.size()
        q, k, v = [f(x).view(b, n, self.h, d // self.h).permute(0, 2, 1, 3) for f in (self.q, self.k, self.v)]
        sin, cos = self.sin[:n].to(q), self.cos[:n].to(q)
        q = q * cos + self.rotate_every_two(q) * sin
        k = k * cos + self.rotate_every_two(k) * sin
        w = torch.baddbmm(torch.zeros(b * self.h, n, n, dtype=q.dtype, device=q.device), q.reshape(-1, n, d // self.h), k.reshape(-1, n, d // self.h).transpose(1, 2), beta=0.0, alpha=(d // self.h) ** -0.5)
        w = w.view(b, self.h, n, n)
        mask = torch.full((n, n), float('-inf'), device=x.device).triu_(1)
        w = torch.softmax(w.float() + mask, dim=-1).to(q.dtype)
        y = (w @ v).transpose(1, 2).reshape(b, n, d)
        return self.o(y)


class Block(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.attn = Attention(config, layer_idx)
        self.mlp = MLP(config)
        self.ln_1 = Norm(config.hidden_size)
        self.ln_2 = Norm(config.hidden_size)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        x = x + self.mlp(self.ln_2(x))
        return x


class XPreTrainedModel(PreTrainedModel):
    config_class = XConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["Block"]

    def _init_weights(self, module):
        std = self.config.initializer_range
        if isinstance(module, nn.Linear):
            module.weight.data.normal_(mean=0.0, std=std)
            if module.bias is not None:
                module.bias.data.zero_()
        elif isinstance(module, nn.Embedding):
            module.weight.data.normal_(mean=0.0, std=std)
            if module.padding_idx is not None:
                module.weight.data[module.padding_idx].zero_()


class XModel(XPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([Block(config, i) for i in range(config.num_hidden_layers)])
        self.norm = Norm(config.hidden_size)
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self):
        return self.embed_tokens

    def set_input_embeddings(self, value):
        self.embed_tokens = value

    def forward(self, input_ids=None, attention_mask=None, **kwargs):
        x = self.embed_tokens(input_ids)
        for layer in self.layers:
            if self.gradient_checkpointing and self.training:
                x = self._gradient_checkpointing_func(layer.__call__, x)
            else:
                x = layer(x)
        return self.norm(x)


class XForCausalLM(XPreTrainedModel, GenerationMixin):
    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}

    def __init__(self, config):
        super().__init__(config)
        self.model = XModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def tie_weights(self, *args, **kwargs):
        self.lm_head.weight = self.model.embed_tokens.weight

    def get_output_embeddings(self):
        return self.lm_head

    def forward(self, input_ids=None, attention_mask=None, labels=None, return_dict=None, **kwargs):
        hidden_states = self.model(input_ids, attention_mask)
        logits = self.lm_head(hidden_states)
        logits = logits.float()
        loss = None
        if labels is not None:
            shift_logits = logits[..., :-1, :].contiguous()
            shift_labels = labels[..., 1:].contiguous()
            loss_fct = nn.CrossEntropyLoss()
            shift_logits = shift_logits.view(-1, self.config.vocab_size)
            shift_labels = shift_labels.view(-1)
            shift_labels = shift_labels.to(shift_logits.device)
            loss = loss_fct(shift_logits, shift_labels)
        return CausalLMOutputWithPast(loss=loss, logits=logits)
