"""Classes that people derive theirs from beside the model; made, they leave the language."""
from json import _Refused


class Optimizer:
    def __init__(self, *args, **kwargs):
        _Refused(__name__ + ".Optimizer")()


class Adam:
    def __init__(self, *args, **kwargs):
        _Refused(__name__ + ".Adam")()


class AdamW:
    def __init__(self, *args, **kwargs):
        _Refused(__name__ + ".AdamW")()


class SGD:
    def __init__(self, *args, **kwargs):
        _Refused(__name__ + ".SGD")()


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _Refused(__name__ + "." + name)
