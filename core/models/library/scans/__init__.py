"""Host code of causal-conv1d, mamba-ssm and flash-linear-attention, what each keeps, makes and returns. A launch allocates nothing."""
from functools import wraps

import torch
from torch._switches import enter_autocast, leave_autocast
from triton import launch

MEASURED = set()  # of this run


def tuned(kernel, *tensors, key=()):
    """triton/runtime/autotuner.py: the first launch of a kernel for a key is measured beside a buffer of 256 MiB, testing.py do_bench()"""
    key = (kernel, *key, *[x.dtype for x in tensors if x is not None])
    if key not in MEASURED:
        MEASURED.add(key)
        cache = torch.empty(256 * 1024 * 1024 // 4, dtype=torch.int32, device=tensors[0].device)
        launch((cache,), (cache,))


def custom_fwd(fwd):
    """torch/amp/autocast_mode.py: backward runs under the autocast of forward"""

    @wraps(fwd)
    def decorate_fwd(*args):
        args[0].used_autocast = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled() else None
        return fwd(*args)

    return decorate_fwd


def custom_bwd(bwd):
    @wraps(bwd)
    def decorate_bwd(*args):
        half = args[0].used_autocast
        if half is None:
            return bwd(*args)
        enter_autocast(half)
        gradients = bwd(*args)
        leave_autocast()
        return gradients

    return decorate_bwd
