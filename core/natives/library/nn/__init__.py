"""What else torch.nn has can be named, but not used."""
from json import _Refused

import torch
from _script import import_by_name


class RMSNorm(Module):
    def __init__(self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None):
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        if elementwise_affine:
            self.weight = Parameter(torch.empty(self.normalized_shape))
        else:
            self.register_parameter("weight", None)

    def forward(self, x):
        return torch.nn.functional.rms_norm(x, self.normalized_shape, self.weight, self.eps)


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    if name in ("init", "functional", "utils"):
        return import_by_name("torch.nn." + name)
    return _Refused("torch.nn." + name)
