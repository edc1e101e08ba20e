# os: an environment without variables; whatever else reaches out of the program leaves the language
from json import _Refused

environ = {}


def getenv(key, default=None):
    return default


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _Refused("os." + name)
