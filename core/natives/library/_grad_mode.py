"""torch/autograd/grad_mode.py, torch/amp/autocast_mode.py: contexts that are decorators too."""
from functools import wraps

from torch._switches import set_autocast, set_grad_enabled as _set


class _Context:
    def __call__(self, function):
        @wraps(function)
        def decorated(*args, **kwargs):
            with self.clone():
                return function(*args, **kwargs)

        return decorated


class no_grad(_Context):
    on = False

    def __new__(cls, function=None):
        """_NoParamDecoratorContextManager: a decorator with and without brackets"""
        return super().__new__(cls) if function is None else cls()(function)

    def clone(self):
        return type(self)()

    def __enter__(self):
        self.was = _set(self.on)

    def __exit__(self, *exception):
        _set(self.was)


class enable_grad(no_grad):
    on = True


class inference_mode(no_grad):
    pass


class set_grad_enabled(no_grad):
    def __new__(cls, mode):
        return object.__new__(cls)

    def __init__(self, mode):
        self.on = mode
        self.was = _set(mode)

    def clone(self):
        return type(self)(self.on)

    def __enter__(self):
        pass


class autocast(_Context):
    def __init__(self, device_type=None, dtype=None, enabled=True, cache_enabled=None):
        self.enabled = enabled

    def clone(self):
        return type(self)(enabled=self.enabled)

    def __enter__(self):
        self.was = set_autocast(self.enabled)
        return self

    def __exit__(self, *exception):
        set_autocast(self.was)
