"""What else torch has can be named, but not used."""
from json import _Refused

from _script import import_by_name, leave

_modules = ("nn", "autograd", "utils", "compiler", "cuda", "jit", "distributed", "library", "backends", "_dynamo", "amp", "version", "fx", "overrides")


def _no_gradient(name, *tensors):
    for t in tensors:
        if t.requires_grad:
            leave(f"torch.{name}() of what wants a gradient")


def outer(input, vec2):
    """LinearAlgebra.cpp"""
    return input.reshape(input.shape[0], 1) * vec2


ger = outer


def roll(input, shifts, dims=None):
    """cuda/TensorTransformations.cu: one kernel, whatever is turned"""
    _no_gradient("roll", input)
    return empty_like(input.contiguous())


def flip(input, dims):
    """TensorTransformations.cpp"""
    _no_gradient("flip", input)
    return empty_like(input)


def meshgrid(*tensors, indexing="ij"):
    """TensorShape.cpp: views of what was given"""
    tensors = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    if indexing == "xy":
        leave("torch.meshgrid(indexing='xy')")
    sizes = [t.numel() for t in tensors]
    return tuple(t.view([-1 if j == i else 1 for j in range(len(sizes))]).expand(sizes) for i, t in enumerate(tensors))


def full_like(input, fill_value, *, dtype=None, device=None):
    return empty_like(input, dtype=dtype, device=device).fill_(fill_value)


def manual_seed(seed):
    pass


def compile(model=None, **kwargs):
    return model if model is not None else lambda function: function


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    if name in _modules:
        return import_by_name("torch." + name)
    return _Refused("torch." + name)
