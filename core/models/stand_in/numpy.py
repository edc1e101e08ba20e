"""What models work numbers out with before there are tensors."""
from json import _Refused
from math import ceil, e, exp, floor, inf, log, log10, log2, nan, pi, prod, sqrt


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _Refused(__name__ + "." + name)
