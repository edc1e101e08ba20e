import functools

import torch
from torch import autocast, float64, is_tensor
from torch._switches import enter_autocast, leave_autocast


def _cast(value, device_type, dtype):
    """torch/amp/autocast_mode.py"""
    if is_tensor(value):
        return value.to(dtype) if value.is_floating_point() and value.dtype is not float64 else value
    if isinstance(value, dict):
        return {_cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(v, device_type, dtype) for v in value)
    return value


def custom_fwd(fwd=None, *, device_type, cast_inputs=None):
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorate_fwd(*args, **kwargs):
        args[0]._dtype = torch.get_autocast_dtype(device_type)
        if cast_inputs is None:
            args[0]._fwd_used_autocast = torch.is_autocast_enabled(device_type)
            return fwd(*args, **kwargs)
        args[0]._fwd_used_autocast = False
        if torch.is_autocast_enabled(device_type):
            with autocast(device_type=device_type, enabled=False):
                return fwd(*_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))
        return fwd(*args, **kwargs)

    return decorate_fwd


class _Again:
    """Autocast as forward had it, while backward runs."""

    def __init__(self, enabled, dtype):
        self.enabled, self.dtype = enabled, dtype

    def __enter__(self):
        if self.enabled:
            enter_autocast(self.dtype)

    def __exit__(self, *exception):
        if self.enabled:
            leave_autocast()


def custom_bwd(bwd=None, *, device_type):
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorate_bwd(*args, **kwargs):
        with _Again(args[0]._fwd_used_autocast, args[0]._dtype):
            return bwd(*args, **kwargs)

    return decorate_bwd
