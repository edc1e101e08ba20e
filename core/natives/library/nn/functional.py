"""What else torch.nn.functional has can be named, but not used."""
from json import _Refused

import torch
from _script import import_by_name

_FORMULAS = ("nll_loss", "one_hot", "logsigmoid", "glu", "mse_loss", "binary_cross_entropy_with_logits", "group_norm")


def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    denom = input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return input / denom


def softmin(input, dim=None, _stacklevel=3, dtype=None):
    return softmax(-input, dim, dtype=dtype)


def softsign(input):
    return input / (input.abs() + 1)


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    if name in _FORMULAS:
        return getattr(import_by_name("torch._formulas"), name)
    return _Refused("torch.nn.functional." + name)
