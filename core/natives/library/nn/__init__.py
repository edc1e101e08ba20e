"""What else torch.nn has can be named, but not used."""
from json import _Refused

from _script import import_by_name


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    if name in ("init", "functional"):
        return import_by_name("torch.nn." + name)
    return _Refused("torch.nn." + name)
