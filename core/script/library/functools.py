# functools: partial is native. Source: Lib/functools.py of CPython 3.11, whose frames hold what these hold.
from _script import type_of_kind

cached_property = type_of_kind("cached_property")
WRAPPER_ASSIGNMENTS = ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__")
WRAPPER_UPDATES = ("__dict__",)


def update_wrapper(wrapper, wrapped, assigned=WRAPPER_ASSIGNMENTS, updated=WRAPPER_UPDATES):
    for attr in assigned:
        try:
            value = getattr(wrapped, attr)
        except AttributeError:
            pass
        else:
            setattr(wrapper, attr, value)
    for attr in updated:
        getattr(wrapper, attr).update(getattr(wrapped, attr, {}))
    wrapper.__wrapped__ = wrapped
    return wrapper


def wraps(wrapped, assigned=WRAPPER_ASSIGNMENTS, updated=WRAPPER_UPDATES):
    return partial(update_wrapper, wrapped=wrapped, assigned=assigned, updated=updated)


class _Cached:
    def __init__(self, function, maxsize):
        self.function = function
        self.maxsize = maxsize
        self.kept = {}
        self.__wrapped__ = function

    def __call__(self, *args, **kwargs):
        key = (args, tuple(kwargs.items())) if kwargs else args
        kept = self.kept
        if key in kept:
            value = kept.pop(key)
        else:
            value = self.function(*args, **kwargs)
            if self.maxsize is not None and len(kept) >= self.maxsize:
                kept.pop(next(iter(kept)), None)
        kept[key] = value
        return value

    def __get__(self, obj, owner=None):
        return self if obj is None else partial(self, obj)

    def cache_clear(self):
        self.kept.clear()


def lru_cache(maxsize=128, typed=False):
    if callable(maxsize):
        return update_wrapper(_Cached(maxsize, 128), maxsize, updated=())
    return lambda function: update_wrapper(_Cached(function, maxsize), function, updated=())


def cache(function):
    return lru_cache(maxsize=None)(function)


def reduce(function, sequence, *initial):
    it = iter(sequence)
    if initial:
        value = initial[0]
    else:
        try:
            value = next(it)
        except StopIteration:
            raise TypeError("reduce() of empty iterable with no initial value") from None
    for element in it:
        value = function(value, element)
    return value


def total_ordering(cls):
    return cls
