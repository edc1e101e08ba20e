"""What else torch has can be named, but not used."""
from json import _Refused
from math import e, inf, nan, pi

from _script import import_by_name, leave
from torch._switches import mapped

contiguous_format = "contiguous_format"
_modules = ("nn", "autograd", "utils", "compiler", "cuda", "jit", "distributed", "library", "backends", "_dynamo", "amp", "version", "fx", "overrides", "onnx", "_C")


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


def _product(labels, sizes):
    n = 1
    for label in labels:
        n *= sizes[label]
    return n


def einsum(equation, *operands):
    """Linear.cpp: two operands are brought to [both, left, summed] and [both, summed, right] and multiplied."""
    operands = operands[0] if len(operands) == 1 else operands
    equation = equation.replace(" ", "")
    if len(operands) != 2 or "." in equation or "->" not in equation:
        leave(f"torch.einsum('{equation}')")
    inputs, out = equation.split("->")
    a, b = inputs.split(",")
    if len(a) == len(b) == 1 and out == a + b:
        _no_gradient("einsum", *operands)
        return outer(*operands)
    left, right = operands
    sizes = dict(zip(a, left.shape))
    sizes.update(zip(b, right.shape))
    order = list(out) + sorted(set(a + b) - set(out))
    both = [label for label in order if label in a and label in b and label in out]
    summed = [label for label in order if label in a and label in b and label not in out]
    of_left = [label for label in order if label in a and label not in b]
    of_right = [label for label in order if label in b and label not in a]
    if not summed or len(set(a)) != len(a) or len(set(b)) != len(b) or not set(of_left + of_right) <= set(out):
        leave(f"torch.einsum('{equation}')")
    n, m = _product(both, sizes), _product(summed, sizes)
    left = left.permute([a.index(label) for label in both + of_left + summed]).reshape(n, _product(of_left, sizes), m)
    right = right.permute([b.index(label) for label in both + summed + of_right]).reshape(n, m, _product(of_right, sizes))
    made = both + of_left + of_right
    return bmm(left, right).view([sizes[label] for label in made]).permute([made.index(label) for label in out])


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


class _Mapped:
    """One argument a level, the outermost first: what a function of indices gives for a grid of them."""

    def __init__(self, func, in_dims):
        self.func = func
        self.at = [i for i, dim in enumerate(in_dims) if dim is not None] if isinstance(in_dims, tuple) else []
        if len(self.at) != 1 or in_dims[self.at[0]] != 0:
            leave("torch.vmap() but over the first dimension of one argument")

    def __call__(self, *args):
        return self.within(args, ())

    def within(self, args, levels):
        levels += (self.at[0],)
        if isinstance(self.func, _Mapped):
            return self.func.within(args, levels)
        places = list(args)
        for level, i in enumerate(levels):
            places[i] = mapped(args[i].view([-1 if k == level else 1 for k in range(len(levels))]))
        return self.func(*places).expand([args[i].shape[0] for i in levels])


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    return _Mapped(func, in_dims)


class _Drawn:
    """A number that was drawn: whether it is below nothing, or below all, is known."""

    def __lt__(self, other):
        if type(other) in (type(0), type(0.0)) and (other <= 0 or other >= 1):
            return other >= 1
        leave("a number that was drawn decides")

    def item(self):
        return self

    def to(self, *args, **kwargs):
        return self


def rand(*size, **kwargs):
    if size not in ((), ([],), ((),)):
        leave("torch.rand() of more than one number")
    return _Drawn()


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    if name in _modules or name == "_higher_order_ops":
        return import_by_name("torch." + name)
    return _Refused("torch." + name)


def broadcast_to(input, size):
    return input.expand(size)
