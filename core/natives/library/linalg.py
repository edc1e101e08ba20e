"""torch.linalg, as far as modelling code normalises with it."""
from json import _Refused

from torch._formulas import norm as _norm, solve_triangular as _solve_triangular, vector_norm


def norm(A, ord=None, dim=None, keepdim=False, *, dtype=None):
    if ord not in (None, 2):
        return _Refused("torch.linalg.norm")()
    return vector_norm(A, 2, dim, keepdim, dtype=dtype)


def solve_triangular(A, B, *, upper, left=True, unitriangular=False, out=None):
    if not left or A.shape[:-2] != B.shape[:-2]:
        return _Refused("torch.linalg.solve_triangular")()
    return _solve_triangular(A, B, upper, unitriangular)


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _Refused("torch.linalg." + name)
