"""Configs whose layers differ by per_layer_config leave the language."""
from json import _Refused


class HeterogeneousConfigMixin:
    is_heterogeneous = False
    per_layer_config = None
    per_layer_attributes = None


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _Refused(__name__ + "." + name)
