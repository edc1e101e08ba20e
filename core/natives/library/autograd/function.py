"""torch/autograd/function.py beside Function."""
import functools
from json import _Refused

from torch.autograd import Function


def once_differentiable(fn):
    """The graph of a backward is none: what it was given lives until it returns."""

    @functools.wraps(fn)
    def wrapper(ctx, *args):
        return fn(ctx, *args)

    return wrapper


class FunctionCtx:
    pass


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _Refused("torch.autograd.function." + name)
