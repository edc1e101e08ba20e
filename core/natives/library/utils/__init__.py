"""torch.utils: its modules by name."""
from _script import import_by_name
import torch.utils.checkpoint


def __getattr__(name):
    if name != "_pytree":
        raise AttributeError(name)
    return import_by_name("torch.utils._pytree")
