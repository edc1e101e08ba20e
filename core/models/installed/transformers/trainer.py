"""Trainer.__init__: whether the loop hands num_items_in_batch to a forward."""
import inspect


def accepts_loss_kwargs(cls):
    """Since 4.47; before, a parameter of just that name."""
    if hasattr(cls, "accepts_loss_kwargs"):
        return cls.accepts_loss_kwargs
    return any(p.kind == inspect.Parameter.VAR_KEYWORD for p in inspect.signature(cls.forward).parameters.values())


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    from json import _Refused

    return _Refused("transformers.trainer." + name)
