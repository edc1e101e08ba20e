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


class Block(nn.Module):
    """A hypernetwork writes the weights of a low-rank update from a code of the layer, and of each sequence."""

    def __init__(self, config, i):
        super().__init__()
        d, r = config.hidden_size, 8
        self.r, self.norm = r, Norm(d)
        self.code = nn.Parameter(torch.randn(16))
        self.make = nn.Linear(16, 2 * d * r)
        self.summary = nn.Linear(d, r)
        self.up, self.down = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)
        self.register_buffer("scale", torch.tensor(1 / math.sqrt(r)), persistent=False)

    def forward(self, x):
        b, n, d = x.shape
        a, c = self.make(torch.tanh(self.code)).view(2, d, self.r)
        y = self.norm(x)
        mixed = torch.softmax(self.summary(y).mean(1), dim=-1)
        low = torch.einsum("bnd,dr->bnr", y, a) * mixed[:, None]
        wide = torch.einsum("bnr,dr->bnd", low, c) * self.scale
        h = F.silu(self.up(y + wide))
        h = h * torch.clamp(h, -3, 3)
        return torch.add(x, self.down(h), alpha=0.5)


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
