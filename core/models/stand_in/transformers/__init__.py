"""Names that files import of an installed package itself: modules of it, and what a training step has no use for."""
from json import _Refused

from _installed import __version__
from _script import import_by_name


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    for part in ("modeling_utils", "configuration_utils") if name[0].isupper() else ():
        if name in (found := import_by_name("transformers." + part).__dict__):
            return found[name]
    try:
        return import_by_name("transformers." + name)
    except ImportError:
        return _Refused("transformers." + name)
