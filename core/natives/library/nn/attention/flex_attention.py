"""torch/nn/attention/flex_attention.py: a mask by blocks of 128 queries and keys, and what making it allocates where Inductor compiled that."""
from json import _Refused

from torch import arange, empty, int32, int64
from triton import cdiv, launch

_DEFAULT_SPARSE_BLOCK_SIZE = 128
_UNROLLED = 8  # torch/_inductor/config.py unroll_reductions_threshold: shorter sums are no kernels of their own, which moves what is around them


class BlockMask:
    def __init__(self, causal, by_rows, by_columns, captured):
        self.causal = causal
        self.by_rows, self.by_columns = by_rows, by_columns
        self.captured = captured

    def tensors(self):
        return (*self.by_rows, *self.by_columns, *self.captured)


def _sorted(counts):
    """sort() along rows that are short: cuda/Sort.cpp"""
    values, indices = empty(counts.shape, dtype=int32, device=counts.device), empty(counts.shape, dtype=int64, device=counts.device)
    places = arange(counts.shape[-1], device=counts.device)
    launch((counts, places), (values, indices))
    del places, values
    return indices


def create_block_mask(B, Q_LEN, KV_LEN, device, causal, captured):
    """Of blocks that are masked in part, then of those that are not at all: how many are in each row and each column, and where."""
    queries, keys = cdiv(Q_LEN, _DEFAULT_SPARSE_BLOCK_SIZE), cdiv(KV_LEN, _DEFAULT_SPARSE_BLOCK_SIZE)
    spread = [empty(B, 1, queries, keys + 1, dtype=int32, device=device) for _ in range(2)]
    counts = [empty(B, 1, queries, keys, dtype=int32, device=device) for _ in range(2)]
    launch(captured, (*counts, *spread))
    made = (_unrolled if keys < _UNROLLED else _reduced)(spread, counts, queries, keys)
    return BlockMask(causal, *made, captured)


def _unrolled(spread, counts, queries, keys):
    B, device = counts[0].shape[0], counts[0].device
    in_row = [empty(B, 1, queries, dtype=int32, device=device) for _ in range(2)]
    in_column, turned = [], []
    for part in counts:
        indices = _sorted(part)
        del indices  # written over `part`
        turned.append(empty(B, 1, keys, queries, dtype=int32, device=device))
        del spread[0]
        in_column.append(empty(B, 1, keys, dtype=int32, device=device))
    for part in turned:
        _sorted(part)
    return (*in_row, *counts), (*in_column, *turned)


def _reduced(spread, counts, queries, keys):
    B, device = counts[0].shape[0], counts[0].device
    in_row, in_column, rows = [], [], []
    for part in counts:
        indices = _sorted(part)
        in_row.append(empty(B, 1, queries, dtype=int32, device=device))
        rows.append(empty(B, 1, queries, keys, dtype=int32, device=device))
        del indices
        in_column.append(empty(B, 1, keys, dtype=int32, device=device))
        del spread[0]
        _sorted(part)  # written over `part`
    return (*in_row, *rows), (*in_column, *counts)


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _Refused("torch.nn.attention.flex_attention." + name)
