"""What else torch has can be named, but not used."""
from json import _Refused
from math import e, inf, nan, pi

from _script import import_by_name, leave
from torch._switches import einsum_swaps, mapped, mm_into

contiguous_format, preserve_format, legacy_contiguous_format = "contiguous_format", "preserve_format", "legacy_contiguous_format"
_modules = ("nn", "autograd", "utils", "linalg", "compiler", "cuda", "jit", "distributed", "library", "backends", "_dynamo", "amp", "version",
            "fx", "overrides", "onnx", "_C", "distributions", "optim", "func", "fft", "special", "ops")


def _more():
    return import_by_name("torch._formulas")


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
    if input.requires_grad and is_grad_enabled():
        return _more().roll(input)
    return empty_like(input.contiguous())


def flip(input, *dims):
    """TensorTransformations.cpp"""
    if input.requires_grad and is_grad_enabled():
        return _more().flip(input, *dims)
    return empty_like(input)


def _product(labels, sizes):
    n = 1
    for label in labels:
        n *= sizes.get(label, 1)
    return n


def _spelt(inputs, out, operands):
    """Digits for what an ellipsis stands for, the last dimensions alike; without an output what stands there once, in the order of the alphabet."""
    free, most = "0123456789", 0
    for label, t in zip(inputs, operands):
        most = _highest([most, t.dim() - len(label) + 3]) if "..." in label else most
    inputs = [l.replace("...", free[most - (t.dim() - len(l) + 3) : most]) for l, t in zip(inputs, operands)]
    if out is None:
        together = "".join(inputs)
        return inputs, free[:most] + "".join(sorted([label for label in set(together) if label not in free and together.count(label) == 1]))
    return inputs, out.replace("...", free[:most])


def _pair(left, a, right, b, order, summed):
    """sumproduct_pair(): brought to [both, left, summed] and [both, summed, right] and multiplied; a size of 1 counts as not there"""
    if not summed:
        return _spread(left, a, order) * _spread(right, b, order), order
    sizes = {label: n for label, n in zip(a + b, [*left.shape, *right.shape]) if n != 1}
    in_a = [label for label, n in zip(a, left.shape) if n != 1]
    in_b = [label for label, n in zip(b, right.shape) if n != 1]
    kept = [label for label in order if label not in summed]
    both = [label for label in kept if label in in_a and label in in_b]
    of_left = [label for label in kept if label in in_a and label not in in_b]
    of_right = [label for label in kept if label not in in_a]
    if einsum_swaps() and of_left and of_right and kept.index(of_right[-1]) < kept.index(of_left[0]):
        left, a, of_left, right, b, of_right = right, b, of_right, left, a, of_left
    summed = [label for label in order if label in summed]
    n, m = _product(both, sizes), _product(summed, sizes)
    left = _ordered(left, a, both + of_left + summed).reshape(n, _product(of_left, sizes), m)
    right = _ordered(right, b, both + summed + of_right).reshape(n, m, _product(of_right, sizes))
    made = both + of_left + of_right
    made_of = bmm(left, right).view([sizes.get(label, 1) for label in made])
    return made_of.permute([made.index(label) for label in kept]), kept


def _ordered(t, labels, order):
    """Those of `order` that the tensor has, in that order; what it has beside them is of size 1."""
    return t.permute([labels.index(label) for label in order if label in labels] + [i for i, label in enumerate(labels) if label not in order])


def einsum(equation, *operands):
    """Linear.cpp: pair by pair from the left; what only one of a pair has and nobody asks for is summed before"""
    given = operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    equation = equation.replace(" ", "")
    inputs, out = equation.split("->") if "->" in equation else (equation, None)
    inputs, out = _spelt(inputs.split(","), out, given)
    ops = [_half(t) for t in given]
    if len(inputs) != len(ops):
        raise RuntimeError("einsum(): fewer operands were provided than specified in the equation")
    for labels, t in zip(inputs, ops):
        if len(set(labels)) != len(labels):
            leave(f"torch.einsum('{equation}')")
        if len(labels) != t.dim():
            raise RuntimeError("einsum(): the number of subscripts in the equation does not match the number of dimensions for an operand")
    if len(ops) == 1:
        return _alone(ops[0], inputs[0], out)
    gone = sorted(set("".join(inputs)) - set(out))
    if len(ops) > 2:  # all are brought to all dimensions before the first product
        every = list(out) + gone
        ops = [_spread(t, labels, every) for labels, t in zip(inputs, ops)]
        inputs = [every for _ in ops]
    left, a = ops[0], list(inputs[0])
    for i in range(1, len(ops)):
        right, b, summed = ops[i], list(inputs[i]), []
        later = [label for labels, t in zip(inputs[i + 1 :], ops[i + 1 :]) for label, n in zip(labels, t.shape) if n != 1]
        alone = ([], [])
        for label in gone:
            in_a = label in a and left.shape[a.index(label)] != 1
            in_b = label in b and right.shape[b.index(label)] != 1
            if label not in later and in_a and in_b:
                summed.append(label)
            elif label not in later and (in_a or in_b):
                alone[in_b].append(label)
        if alone[0]:
            left = left.sum([a.index(label) for label in alone[0]], True)
        if alone[1]:
            right = right.sum([b.index(label) for label in alone[1]], True)
        order = list(out) + [label for label in gone if label in a or label in b]
        left, a = _pair(left, a, right, b, [label for label in order if label in a or label in b], summed)
    return left.view([left.shape[a.index(label)] if label in a else 1 for label in out]) if a != list(out) else left


def _spread(t, labels, out):
    t = _ordered(t, labels, out)
    for i, label in enumerate(out):
        if label not in labels:
            t = t.unsqueeze(i)
    return t


def _alone(t, labels, out):
    if len(set(labels)) != len(labels):
        leave(f"torch.einsum('{labels}->{out}')")
    gone = [i for i, label in enumerate(labels) if label not in out]
    kept = [label for label in labels if label in out]
    t = t.sum(gone) if gone else t
    return t.permute([kept.index(label) for label in out])


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


def rand(*size, generator=None, dtype=None, device=None, requires_grad=False):
    if size in ((), ([],), ((),)):
        return _Drawn()
    return empty(*size, dtype=dtype, device=device, requires_grad=requires_grad)


def randn(*size, generator=None, dtype=None, device=None, requires_grad=False):
    return empty(*size, dtype=dtype, device=device, requires_grad=requires_grad)


def randint(low, high=None, size=None, *, generator=None, dtype=None, device=None):
    return empty(size if size is not None else high, dtype=dtype or int64, device=device)


def normal(mean, std=1.0, size=None, *, generator=None, dtype=None, device=None):
    return empty_like(mean if is_tensor(mean) else std) if size is None else empty(size, dtype=dtype, device=device)


def randperm(n, *, generator=None, dtype=None, device=None):
    return empty(n, dtype=dtype or int64, device=device)


def rand_like(input, *, dtype=None, device=None, memory_format=None):
    return empty_like(input, dtype=dtype, device=device)


randn_like = rand_like


def bernoulli(input, *, generator=None):
    return empty_like(input)


def eye(n, m=None, *, dtype=None, device=None):
    return zeros(n, n if m is None else m, dtype=dtype, device=device)


def as_tensor(data, dtype=None, device=None):
    return data.to(device or data.device, dtype or data.dtype) if is_tensor(data) else tensor(data, dtype=dtype, device=device)


def minimum(input, other):
    return min(input, other)


def maximum(input, other):
    return max(input, other)


def concatenate(tensors, dim=0):
    return cat(tensors, dim)


def hstack(tensors):
    return cat(tensors, 0 if tensors[0].dim() == 1 else 1)


def column_stack(tensors):
    return hstack([t if t.dim() > 1 else t.unsqueeze(1) for t in tensors])


def dstack(tensors):
    return cat([t.unsqueeze(2) if t.dim() == 2 else t for t in tensors], 2)


def vstack(tensors):
    return cat([t if t.dim() > 1 else t.unsqueeze(0) for t in tensors], 0)


def clone(input, *, memory_format=None):
    return input.clone()


def numel(input):
    return input.numel()


def true_divide(input, other):
    return input / other


def broadcast_to(input, size):
    return input.expand(size)


def broadcast_tensors(*tensors):
    sizes = [1] * _highest([t.dim() for t in tensors])
    for t in tensors:
        for i, n in enumerate(reversed(t.shape)):
            if n != 1:
                sizes[-1 - i] = n
    return tuple(t.expand(sizes) for t in tensors)


def _highest(numbers):
    most = 0
    for n in numbers:
        most = n if n > most else most
    return most


def eq(input, other):
    return input == other


def ne(input, other):
    return input != other


def lt(input, other):
    return input < other


def le(input, other):
    return input <= other


def gt(input, other):
    return input > other


def ge(input, other):
    return input >= other


not_equal, less, less_equal, greater, greater_equal = ne, lt, le, gt, ge


def logical_and(input, other):
    return input & other


def logical_or(input, other):
    return input | other


def triu_indices(row, col, offset=0, *, dtype=None, device=None):
    n = 0
    for i in range(row):
        n += col - _highest([i + offset, 0]) if col > i + offset else 0
    return empty(2, n, dtype=dtype or int64, device=device)


def tril_indices(row, col, offset=0, *, dtype=None, device=None):
    n = 0
    for i in range(row):
        wide = i + offset + 1
        n += 0 if wide < 0 else col if wide > col else wide
    return empty(2, n, dtype=dtype or int64, device=device)


def diag(input, diagonal=0):
    """TensorShape.cpp: diag_embed(), diagonal_copy()"""
    _no_gradient("diag", input)
    beside = _highest([diagonal, -diagonal])
    if input.dim() == 1:
        sizes = [input.shape[0] + beside] * 2
    else:
        rows, columns = [n - _highest([0, cut]) for n, cut in zip(input.shape, (-diagonal, diagonal))]
        sizes = [_highest([0, rows if rows < columns else columns])]
    return empty(sizes, dtype=input.dtype, device=input.device)


def mm(input, mat2, *, out=None):
    if input.dim() != 2 or mat2.dim() != 2:
        raise RuntimeError("self must be a matrix" if input.dim() != 2 else "mat2 must be a matrix")
    if out is None:
        return input @ mat2
    if is_grad_enabled() and (input.requires_grad or mat2.requires_grad or out.requires_grad):
        raise RuntimeError("mm(): functions with out=... arguments don't support automatic differentiation, but one of the arguments requires grad.")
    if out.shape != (input.shape[0], mat2.shape[1]) or out.dtype != input.dtype:
        leave("torch.mm() into a tensor of another shape or dtype")
    return mm_into(out, input, mat2)


def t(input):
    return input.t()


def is_floating_point(input):
    return input.is_floating_point()


def is_complex(input):
    return input.is_complex()


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    return import_by_name("torch.nn.functional").layer_norm(input, normalized_shape, weight, bias, eps)


def dropout(input, p, train):
    return import_by_name("torch.nn.functional").dropout(input, p, train)


def embedding(weight, indices, padding_idx=-1):
    return import_by_name("torch.nn.functional").embedding(indices, weight)


def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    return _more().cosine_similarity(x1, x2, dim, eps)


def tensordot(a, b, dims=2, out=None):
    """Linear.cpp: one product of matrices; autocast brings both to the wider type, and ends there"""
    if is_autocast_enabled("cuda"):
        a, b = _more()._widest(a, b)
        with import_by_name("torch").autocast("cuda", enabled=False):
            return tensordot(a, b, dims)
    if isinstance(dims, (list, tuple)):
        mine, theirs = [[d % x.dim() for d in (which if isinstance(which, (list, tuple)) else [which])] for x, which in zip((a, b), dims)]
    else:
        mine, theirs = list(range(a.dim() - dims, a.dim())), list(range(dims))
    rest_a, rest_b = [i for i in range(a.dim()) if i not in mine], [i for i in range(b.dim()) if i not in theirs]
    inner = _numbers([a.shape[i] for i in mine])
    left = a.permute(rest_a + mine).reshape(_numbers([a.shape[i] for i in rest_a]), inner)
    right = b.permute(theirs + rest_b).reshape(inner, _numbers([b.shape[i] for i in rest_b]))
    return (left @ right).reshape([a.shape[i] for i in rest_a] + [b.shape[i] for i in rest_b])


def _numbers(sizes):
    n = 1
    for size in sizes:
        n *= size
    return n


def set_float32_matmul_precision(precision):
    pass


def get_float32_matmul_precision():
    return "highest"


def LongTensor(data):
    return tensor(data, dtype=int64)


def FloatTensor(data):
    return tensor(data, dtype=float32)


Size = tuple


class iinfo:
    def __init__(self, dtype):
        bits = 8 if dtype is uint8 else 31 if dtype is int32 else 63
        self.max = (1 << bits - 1) - 1 + (1 << bits - 1)
        self.min = 0 if dtype is uint8 else -self.max - 1


_METHODS = ("swapaxes", "swapdims", "movedim", "moveaxis", "narrow", "select", "ravel", "tile", "clip", "unflatten", "argmax", "argmin",
            "isnan", "isinf", "isfinite", "masked_select", "atleast_2d", "view_as_real", "logical_xor", "count_nonzero",
            "take_along_dim", "clamp_min", "clamp_max", "remainder", "floor_divide", "fliplr", "flipud", "dot", "hsplit", "vsplit")
_FORMULAS = ("std", "var", "norm", "log1p", "expm1", "exp2", "log2", "log10", "reciprocal", "round", "floor", "ceil", "trunc", "sign",
             "sgn", "amax", "amin", "addcmul", "addcdiv", "lerp", "scatter", "scatter_add", "index_add", "index_copy", "index_fill",
             "nan_to_num", "mv", "erfinv", "logcumsumexp", "logaddexp", "cumprod", "prod", "cummax", "cummin", "median", "kthvalue", "aminmax", "nansum",
             "var_mean", "std_mean", "diagonal", "diag_embed", "prelu", "tan", "atan", "arctan", "asin", "acos", "arcsin", "arccos", "sinh", "cosh", "erfc",
             "frac", "fmod", "atan2", "arctan2", "xlogy", "hardshrink", "softshrink", "threshold", "alpha_dropout", "feature_dropout")


_ALSO = {"multiply": "mul", "subtract": "sub", "divide": "div", "negative": "neg", "absolute": "abs"}


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    if name in _ALSO:
        return getattr(import_by_name("torch"), _ALSO[name])
    if name in _modules or name == "_higher_order_ops":
        return import_by_name("torch." + name)
    if name in _FORMULAS:
        return getattr(_more(), name)
    if name in _METHODS:
        return lambda input, *args, **kwargs: getattr(input, name)(*args, **kwargs)
    return _Refused("torch." + name)


def broadcast_to(input, size):
    return input.expand(size)
