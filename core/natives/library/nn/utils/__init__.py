"""torch.nn.utils: weights come from a file, so nobody draws them."""
from json import _Refused


def skip_init(module_cls, *args, **kwargs):
    return module_cls(*args, **kwargs)


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _Refused("torch.nn.utils." + name)
