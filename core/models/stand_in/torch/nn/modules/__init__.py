"""torch.nn by another name."""
from _script import import_by_name


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(import_by_name("torch.nn"), name)
