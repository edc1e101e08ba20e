"""Methods of tensors that are shorter in the language: the tensor is their first argument."""
from torch import flip, nonzero, outer, roll


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
