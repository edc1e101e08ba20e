"""Registered nodes are walked by nobody here."""


def register_pytree_node(*args, **kwargs):
    pass


_register_pytree_node = register_pytree_node


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return register_pytree_node
