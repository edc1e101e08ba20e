"""A training step generates nothing."""
from json import _Refused

from transformers.generation.configuration_utils import GenerationConfig


class GenerationMixin:
    def prepare_inputs_for_generation(self, *args, **kwargs):
        raise NotImplementedError("a training step generates nothing")


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _Refused(__name__ + "." + name)
