"""deprecate_kwarg: nobody gives the old names here, the wrapper's frame holds the arguments all the same."""
from functools import wraps


def deprecate_kwarg(old_name, version=None, new_name=None, **options):
    def wrapper(func):
        @wraps(func)
        def wrapped_func(*args, **kwargs):
            return func(*args, **kwargs)

        return wrapped_func

    return wrapper
