"""Methods of tensors that are shorter in the language: the tensor is their first argument."""
from torch import bernoulli, eq, flip, float64, ge, greater, greater_equal, gt, le, less, less_equal, logical_and, logical_or, lt, maximum, minimum
from torch import nonzero, not_equal, outer, roll, true_divide
from torch import absolute, divide, multiply, subtract  # noqa: F401: other names
from math import inf
from torch import empty_like as _empty_like, is_grad_enabled as _is_grad_enabled, mm as _mm, tensor as _tensor, where as _where
from torch._switches import addmm_into as _addmm_into
from _script import import_by_name, leave

_FORMULAS = ("std", "var", "norm", "log1p", "expm1", "exp2", "log2", "log10", "reciprocal", "round", "floor", "ceil", "trunc",
             "sign", "sgn", "amax", "amin", "argmax", "argmin", "addcmul", "addcdiv", "lerp", "scatter", "scatter_add", "index_add", "index_copy", "index_fill",
             "nan_to_num", "mv", "erfinv", "logcumsumexp", "logaddexp", "cumprod", "prod", "cummax", "cummin", "median", "kthvalue", "aminmax", "nansum",
             "unfold", "diagonal", "diag_embed", "prelu", "tan", "atan", "arctan", "asin", "acos", "arcsin", "arccos", "sinh", "cosh", "erfc", "frac", "fmod",
             "atan2", "arctan2", "xlogy", "hardshrink")


def expand_as(self, other):
    return self.expand(other.size())


def view_as(self, other):
    return self.view(other.size())


def reshape_as(self, other):
    return self.reshape(other.size())


def unflatten(self, dim, sizes):
    """TensorShape.cpp"""
    at = dim % self.dim()
    return self.view(*self.shape[:at], *sizes, *self.shape[at + 1 :])


def ndimension(self):
    return self.dim()


def clamp_min(self, min):
    return self.clamp(min=min)


def clamp_max(self, max):
    return self.clamp(max=max)


def cuda(self, device=None, non_blocking=False):
    return self.to("cuda")


def clamp_min_(self, min):
    return self.clamp_(min=min)


def clamp_max_(self, max):
    return self.clamp_(max=max)


def clip_(self, min=None, max=None):
    return self.clamp_(min, max)


def pow_(self, exponent):
    """at.p of PowBackward0 is 2 in place"""
    if exponent != 2:
        leave("pow_() but of 2")
    return self.square_()


def masked_select(self, mask):
    """cuda/IndexKernel.cpp masked_select_out_cuda_impl: an index by the mask"""
    return import_by_name("torch._windows").masked_select(self, mask)


def fliplr(self):
    return self.flip(1)


def flipud(self):
    return self.flip(0)


def dot(self, tensor):
    return import_by_name("torch._windows").dot(self, tensor)


def hsplit(self, indices_or_sections):
    return tensor_split(self, indices_or_sections, 0 if self.dim() == 1 else 1)


def vsplit(self, indices_or_sections):
    return tensor_split(self, indices_or_sections, 0)


def clip(self, min=None, max=None):
    return self.clamp(min, max)


def swapdims(self, dim0, dim1):
    return self.transpose(dim0, dim1)


def movedim(self, source, destination):
    order = list(range(self.dim()))
    if isinstance(source, int):
        source, destination = (source,), (destination,)
    n = self.dim()
    rest = [i for i in order if i not in [s % n for s in source]]
    for at, which in sorted((d % n, s % n) for s, d in zip(source, destination)):
        rest.insert(at, which)
    return self.permute(*rest)


moveaxis = movedim


def narrow(self, dim, start, length):
    index = [slice(None)] * self.dim()
    index[dim] = slice(start, start + length)
    return self[tuple(index)]


def tensor_split(self, indices_or_sections, dim=0):
    """TensorShape.cpp: slices, of which the first are longer by one"""
    n, at = self.size(dim), indices_or_sections
    if isinstance(at, int):
        least, longer = n // at, n % at
        at = [i * least + min(i, longer) for i in range(1, at)]
    ends = [*at, n]
    return tuple([narrow(self, dim, start, end - start) for start, end in zip([0, *at], ends)])


def select(self, dim, index):
    at = [slice(None)] * self.dim()
    at[dim] = index
    return self[tuple(at)]


def ravel(self):
    return self.contiguous().view(-1)


def tile(self, *dims):
    dims = dims[0] if dims and isinstance(dims[0], (list, tuple)) else dims
    return self.repeat(*([1] * (self.dim() - len(dims)) + list(dims)))


def broadcast_to(self, size):
    return self.expand(size)


def double(self):
    return self.to(float64)


def new_tensor(self, data, *, dtype=None, device=None):
    return _tensor(data, dtype=dtype or self.dtype, device=device or self.device)


def element_size(self):
    return {"float64": 8, "int64": 8, "float32": 4, "int32": 4}.get(str(self.dtype).split(".")[-1], 1 if str(self.dtype).split(".")[-1] in ("bool", "uint8") else 2)


def is_complex(self):
    return str(self.dtype) == "torch.complex64"


def mm(self, mat2):
    return _mm(self, mat2)


def addmm_(self, mat1, mat2, *, beta=1, alpha=1):
    """LinearAlgebra.cpp: one product, written where the matrix stands"""
    if _is_grad_enabled() and (self.requires_grad or mat1.requires_grad or mat2.requires_grad):
        leave("addmm_() where a gradient passes")
    return _addmm_into(self, mat1, mat2)


def where(self, condition, other):
    return _where(condition, self, other)


def remainder(self, other):
    if self.requires_grad and self.is_cuda:
        return import_by_name("torch._formulas").remainder(self, other)
    return self % other


def floor_divide(self, other):
    return self // other


def count_nonzero(self, dim=None):
    there = self if str(self.dtype) == "torch.bool" else self != 0
    return there.sum() if dim is None else there.sum(dim)


def take_along_dim(self, indices, dim=None):
    """TensorAdvancedIndexing.cpp: both are spread over each other's dimensions but this"""
    if dim is None:
        return self.view(-1).gather(0, indices.view(-1))
    at = dim % self.dim()
    sizes = [n if i == at else max(n, m) for i, (n, m) in enumerate(zip(self.shape, indices.shape))]
    mine = [self.shape[at] if i == at else n for i, n in enumerate(sizes)]
    theirs = [indices.shape[at] if i == at else n for i, n in enumerate(sizes)]
    return self.expand(mine).gather(at, indices.expand(theirs) % self.shape[at])


def is_inference(self):
    return False


def is_same_size(self, other):
    return self.shape == other.shape


def isnan(self):
    return self != self


def isinf(self):
    return self.abs() == inf


def isfinite(self):
    """TensorCompare.cpp; the right factor is made first"""
    size = self.abs()
    below = size != inf
    return (self == self) * below


def __getattr__(name):
    if name in _FORMULAS:
        return getattr(import_by_name("torch._formulas"), name)
    raise AttributeError(name)
