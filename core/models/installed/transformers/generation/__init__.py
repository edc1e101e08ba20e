"""A training step generates nothing."""
from json import _Refused

from transformers.generation.configuration_utils import GenerationConfig


class GenerationMixin:
    pass


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _Refused(__name__ + "." + name)
