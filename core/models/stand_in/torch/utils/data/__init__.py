"""Classes that people derive theirs from beside the model; made, they leave the language."""
from json import _Refused


class Dataset:
    def __init__(self, *args, **kwargs):
        _Refused(__name__ + ".Dataset")()


class IterableDataset:
    def __init__(self, *args, **kwargs):
        _Refused(__name__ + ".IterableDataset")()


class DataLoader:
    def __init__(self, *args, **kwargs):
        _Refused(__name__ + ".DataLoader")()


class Sampler:
    def __init__(self, *args, **kwargs):
        _Refused(__name__ + ".Sampler")()


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _Refused(__name__ + "." + name)
