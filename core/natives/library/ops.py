"""torch.ops.NAMESPACE.NAME: what torch.library registered by that name."""
from json import _Refused

from torch.library import _ops


class _Namespace:
    def __init__(self, name):
        self._name = name

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        found = _ops.get(self._name + "::" + name)
        return found if found is not None else _Refused("torch.ops." + self._name + "." + name)


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _Namespace(name)
