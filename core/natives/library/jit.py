"""Nothing is traced or scripted: what is decorated runs as it stands."""


def is_tracing():
    return False


is_scripting = is_tracing


def script(fn=None, **kwargs):
    return fn


ignore = unused = export = script_if_tracing = script


class Final:
    pass
