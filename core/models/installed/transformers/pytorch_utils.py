"""What stands beside Conv1D, which is native."""
from json import _Refused

from torch import nn

from transformers.utils.import_utils import is_torch_greater_or_equal

ALL_LAYERNORM_LAYERS = [nn.LayerNorm]


def apply_chunking_to_forward(forward_fn, chunk_size, chunk_dim, *input_tensors):
    if chunk_size > 0:
        from _script import leave

        leave("a forward in chunks")
    return forward_fn(*input_tensors)


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    for prefix in ("is_torch_greater_or_equal_than_", "is_torch_less_than_"):
        if name.startswith(prefix):
            there = is_torch_greater_or_equal(name[len(prefix):].replace("_", "."))
            return there if "greater" in prefix else not there
    return _Refused("transformers.pytorch_utils." + name)
