"""A module that training has no use for: it can be imported, and what it has leaves the language where that is used."""
from json import _Refused


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _Refused(__name__ + "." + name)
