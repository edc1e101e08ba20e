"""What else torch has can be named, but not used."""
from json import _Refused

from _script import import_by_name

_modules = ("nn", "autograd", "utils", "compiler", "cuda", "jit", "distributed", "library", "backends", "_dynamo", "amp", "version", "fx", "overrides")


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    if name in _modules:
        return import_by_name("torch." + name)
    return _Refused("torch." + name)
