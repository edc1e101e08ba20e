"""A model's package says what lies in it lazily: a name is looked for in its configuration and modelling."""
from _script import import_by_name


def __getattr__(name):
    if not name.startswith("__"):
        for part in ("configuration_", "modeling_", ""):
            try:
                module = import_by_name(__name__ + "." + (part + __name__.split(".")[-1] if part else name))
            except ImportError:
                continue
            if not part:
                return module
            if name in module.__dict__:
                return module.__dict__[name]
    raise AttributeError(name)
