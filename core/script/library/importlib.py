# importlib: its util by name; whatever else reaches out of the program leaves the language
from json import _Refused

from _script import import_by_name


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return import_by_name("importlib.util") if name == "util" else _Refused("importlib." + name)
