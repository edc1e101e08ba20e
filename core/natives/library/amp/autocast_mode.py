from torch import float64, is_tensor


def _cast(value, device_type, dtype):
    """torch/amp/autocast_mode.py"""
    if is_tensor(value):
        return value.to(dtype) if value.is_floating_point() and value.dtype is not float64 else value
    if isinstance(value, dict):
        return {_cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(v, device_type, dtype) for v in value)
    return value
