"""Names that files of 5 lean on: context variables, hints, names of arguments, an operator of its own, buffers, a config of strict fields."""
import contextvars
import functools
import inspect
from typing import Optional, get_type_hints

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast
from .configuration_misc import MiscConfig

_scale = contextvars.ContextVar("scale", default=1.0)


class scaled:
    def __init__(self, by):
        self.by = by

    def __enter__(self):
        self.token = _scale.set(self.by)

    def __exit__(self, *exc):
        _scale.reset(self.token)


@torch.library.custom_op("misc::double_it", mutates_args=())
def double_it(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@double_it.register_fake
def _(x):
    return torch.empty_like(x)


def named(f):
    names = f.__code__.co_varnames[: f.__code__.co_argcount]
    hints = get_type_hints(f)

    @functools.wraps(f)
    def wrapped(self, *args, **kwargs):
        bound = dict(zip(names[1:], args))
        bound.update({k: v for k, v in kwargs.items() if k in inspect.signature(f).parameters})
        assert "x" in hints and "x" in bound
        return f(self, **bound)

    return wrapped


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        h = config.hidden_size
        self.up, self.down = nn.Linear(h, 2 * h), nn.Linear(2 * h, h)
        self.offset = nn.Buffer(torch.zeros(h), persistent=False)
        self.gain = nn.Buffer(torch.ones(h))

    @named
    def forward(self, x: torch.Tensor, scale: Optional[float] = None) -> torch.Tensor:
        return self.down(F.gelu(self.up(x + self.offset))) * self.gain * _scale.get()


class MiscForCausalLM(PreTrainedModel):
    config: MiscConfig
    config_class = MiscConfig

    def __init__(self, config):
        super().__init__(config)
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([Layer(config) for _ in range(config.num_hidden_layers)])
        self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self):
        return self.embed

    def forward(self, input_ids=None, attention_mask=None, labels=None, pixel_values=None, **kwargs):
        x = self.embed(input_ids)
        if pixel_values is not None:
            mask = (input_ids == self.config.image_token_id).unsqueeze(-1).expand_as(x)
            x = x.masked_scatter(mask, pixel_values.to(x.dtype))
        with scaled(0.5):
            for layer in self.layers:
                x = x + layer(x, scale=None)
        with torch.no_grad():
            y = double_it(x.detach())
        logits = self.head(x)
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits.float().view(-1, logits.size(-1)), labels.view(-1))
        return CausalLMOutputWithPast(loss=loss, logits=logits)
