"""Nothing is compiled."""


def disable(fn=None, recursive=True):
    return fn if fn is not None else lambda fn: fn


def is_compiling():
    return False


def assume_constant_result(fn):
    return fn


def mark_static_address(t, guard=True):
    pass
