"""Classes that people derive theirs from beside the model; made, they leave the language."""
from json import _Refused


class LRScheduler:
    def __init__(self, *args, **kwargs):
        _Refused(__name__ + ".LRScheduler")()


class _LRScheduler:
    def __init__(self, *args, **kwargs):
        _Refused(__name__ + "._LRScheduler")()


class LambdaLR:
    def __init__(self, *args, **kwargs):
        _Refused(__name__ + ".LambdaLR")()


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _Refused(__name__ + "." + name)
