"""torch._C: switches of the scripting compiler, which compiles nothing here."""
from json import _Refused


def _nothing(*args, **kwargs):
    pass


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _nothing if name.startswith("_jit_") else _Refused("torch._C." + name)
