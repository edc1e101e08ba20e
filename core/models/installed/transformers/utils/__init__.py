"""What transformers.utils gives: names of its modules, guards for packages, decorators that write documentation."""
from transformers.utils import logging
from transformers.utils.doc import *
from transformers.utils.import_utils import *
from transformers.utils.import_utils import __getattr__ as _guard

CONFIG_NAME = "config.json"
WEIGHTS_NAME = "pytorch_model.bin"
ENV_VARS_TRUE_VALUES = {"1", "ON", "YES", "TRUE"}
DUMMY_INPUTS = [[7, 6, 0, 0, 1], [1, 2, 3, 0, 0], [0, 0, 0, 4, 5]]


class PushToHubMixin:
    pass


class TransformersKwargs(dict):
    pass


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    if name.startswith("is_"):
        return _guard(name)
    import transformers.utils.generic as generic

    if name in generic.__dict__:
        return generic.__dict__[name]
    return _guard(name)
