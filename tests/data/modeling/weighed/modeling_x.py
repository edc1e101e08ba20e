import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast


class XConfig(PretrainedConfig):
    model_type = "x_lm"

    def __init__(self, vocab_size=503, hidden_size=96, num_hidden_layers=3, heads=4, **kwargs):
        self.vocab_size, self.hidden_size, self.num_hidden_layers, self.heads = vocab_size, hidden_size, num_hidden_layers, heads
        super().__init__(**kwargs)


class Norm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x):
        t = x.float()
        return (t * torch.rsqrt(t.pow(2).mean(-1, keepdim=True) + 1e-6)).type_as(x) * self.weight


class Weighed(nn.Module):
    """A convolution whose kernel is a direction times a length (weight normalisation by hand), causal by padding."""

    def __init__(self, d, size, groups):
        super().__init__()
        self.v = nn.Parameter(torch.randn(d, d // groups, size))
        self.g = nn.Parameter(torch.ones(d, 1, 1))
        self.bias = nn.Parameter(torch.zeros(d))
        self.size, self.groups = size, groups

    def forward(self, x):
        w = self.v * (self.g / self.v.norm(dim=(1, 2), keepdim=True))
        return F.conv1d(F.pad(x, (self.size - 1, 0)), w, self.bias, groups=self.groups)


class Block(nn.Module):
    def __init__(self, config, i):
        super().__init__()
        d = config.hidden_size
        self.norm = nn.GroupNorm(1, d)
        self.conv = Weighed(d, 4, d)
        self.gate, self.value, self.out = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.filter = nn.Parameter(torch.randn(d, 64))
        self.skip = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        y = self.norm(x.transpose(1, 2))
        y = self.conv(y).transpose(1, 2)
        gate = torch.sigmoid(self.gate(y)) * torch.tanh(self.value(y))
        decay = torch.cumsum(F.logsigmoid(self.filter.float()), dim=-1).exp().to(x.dtype)
        lags = decay[:, :8].softmax(-1)
        mixed = sum(F.pad(gate, (0, 0, i, 0))[:, : x.shape[1]] * lags[:, i] for i in range(8))
        out = self.out(mixed)
        return x + torch.where(x.isfinite(), out, torch.zeros_like(out)) * self.skip.exp()


class XModel(PreTrainedModel):
    config_class = XConfig
    supports_gradient_checkpointing = True

    def __init__(self, config):
        super().__init__(config)
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([Block(config, i) for i in range(config.num_hidden_layers)])
        self.norm = Norm(config.hidden_size)
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self):
        return self.embed

    def forward(self, input_ids, attention_mask=None):
        x = self.embed(input_ids)
        for layer in self.layers:
            x = self._gradient_checkpointing_func(layer.__call__, x) if self.gradient_checkpointing and self.training else layer(x)
        return self.norm(x)


class XForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = XConfig
    supports_gradient_checkpointing = True

    def __init__(self, config):
        super().__init__(config)
        self.model = XModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self):
        return self.model.embed

    def get_output_embeddings(self):
        return self.lm_head

    def forward(self, input_ids, attention_mask=None, labels=None, **kwargs):
        logits = self.lm_head(self.model(input_ids, attention_mask)).float()
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits[..., :-1, :].flatten(0, -2), labels[..., 1:].flatten())
        return CausalLMOutputWithPast(loss=loss, logits=logits)
