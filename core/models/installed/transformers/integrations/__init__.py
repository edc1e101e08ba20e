"""Kernels of the hub are not fetched: the decorators give back what they are given."""
from json import _Refused

from transformers.integrations.hub_kernels import *


def is_deepspeed_zero3_enabled():
    return False


def is_fsdp_managed_module(module):
    return False


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    if name == "use_experts_implementation":
        from transformers.integrations.moe import use_experts_implementation

        return use_experts_implementation
    return _Refused(__name__ + "." + name)
