# warnings: nobody reads them here
def warn(message, category=None, stacklevel=1, source=None): pass
def simplefilter(action, category=None, lineno=0, append=False): pass
def filterwarnings(action, message="", category=None, module="", lineno=0, append=False): pass


class catch_warnings:
    def __init__(self, *, record=False, module=None): pass
    def __enter__(self): return []
    def __exit__(self, *exc): pass


def deprecated(message, /, *, category=None, stacklevel=1):
    return lambda thing: thing
