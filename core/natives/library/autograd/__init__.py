"""torch.autograd beside Function."""
from json import _Refused


class Variable:
    """python_legacy_variable.cpp: the tensor, detached"""

    def __new__(cls, data, requires_grad=False, volatile=False):
        out = data.detach()
        return out.requires_grad_() if requires_grad else out


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _Refused("torch.autograd." + name)
