"""Weights are initialised on the host, before the model is moved: nothing is born."""


def _nothing(*args, **kwargs):
    pass


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _nothing
