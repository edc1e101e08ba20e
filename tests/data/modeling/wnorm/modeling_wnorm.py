import math
from typing import Optional, Tuple, List, Union

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast, BaseModelOutputWithPast


class XConfig(PretrainedConfig):
    model_type = "wnorm_lm"

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

class SquareReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.relu(x)
        ctx.save_for_backward(y)
        return y * y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return 2.0 * grad * y


class NormLinear(nn.Module):
    def __init__(self, fan_in, fan_out):
        super().__init__()
        self.v = nn.Parameter(torch.randn(fan_out, fan_in) / math.sqrt(fan_in))
        self.g = nn.Parameter(torch.ones(fan_out, 1))

    def forward(self, x):
        w = self.g * self.v / self.v.norm(dim=1, keepdim=True)
        return F.linear(x, w)


@torch.compile
def fused_gate(a, b):
    return torch.sigmoid(a) * b


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.up = NormLinear(config.hidden_size, config.intermediate_size)
        self.down = NormLinear(config.intermediate_size, config.hidden_size)

    def forward(self, x):
        return self.down(SquareReLU.apply(self.up(x)))


class Attention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.heads = config.num_attention_heads
        self.to_qkv = nn.Linear(config.hidden_size, config.hidden_size * 3, bias=False)
        self.to_out = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.temperature = nn.Parameter(torch.tensor(1.0))
        self.q_scale = nn.Parameter(torch.ones(self.heads, 1, config.hidden_size // self.heads))

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = (t.view(b, n, self.heads, c // self.heads).transpose(1, 2) for t in self.to_qkv(x).chunk(3, dim=-1))
        q, k = F.normalize(q, dim=-1) * self.q_scale, F.normalize(k, dim=-1)
        sim = q @ k.mT * self.temperature
        causal = torch.tril(torch.ones(n, n, device=x.device))
        sim = torch.where(causal == 0, torch.full_like(sim, -1e4), sim)
        out = sim.softmax(-1) @ v
        return self.to_out(out.permute(0, 2, 1, 3).reshape(b, n, c))


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


class XForCausalLM(XPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.model = XModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

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
