"""Kernels of the hub are not fetched, the packages behind them are not installed: what PyTorch does instead runs, in the wrapper's frame."""
import inspect
from functools import wraps

ALLOW_ALL_KERNELS = False


def use_kernel_forward_from_hub(layer_name):
    def decorated(cls):
        return cls

    return decorated


def use_kernelized_func(module_names):
    def decorated(cls):
        return cls

    return decorated


def use_kernel_func_from_hub(func_name):
    def decorated(func):
        return func

    return decorated


def use_kernel_func_from_hub_with_fallback(func_name, package=None, internal_path=None):
    def decorator(torch_function):
        applicable_params = tuple(inspect.signature(torch_function).parameters)

        @wraps(torch_function)
        def wrapped(*args, **kwargs):
            kwargs = {k: v for k, v in kwargs.items() if k in applicable_params}
            return torch_function(*args, **kwargs)

        return wrapped

    return decorator


def lazy_load_kernel(kernel_name, mapping=None):
    return None


def is_kernel(name):
    return False
