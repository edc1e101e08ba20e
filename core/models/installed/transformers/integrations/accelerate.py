"""No hook of accelerate's hangs on a module: what is left of the wrapper is its frame."""
from functools import wraps


def force_accelerate_hooks(child_module_names):
    names = [child_module_names] if isinstance(child_module_names, str) else child_module_names

    def decorator(forward_func):
        @wraps(forward_func)
        def wrapped(self, *args, **kwargs):
            hooked_modules = [(getattr(self, name), None) for name in names]
            output = forward_func(self, *args, **kwargs)
            return output

        return wrapped

    return decorator


def init_empty_weights(*args, **kwargs):
    from contextlib import nullcontext

    return nullcontext()
