"""What else files take from here can be named, but not used."""
from json import _Refused

from transformers.generation.configuration_utils import GenerationConfig


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _Refused("transformers.generation.utils." + name)
