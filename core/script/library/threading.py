# threading: there is one thread, whose locks are free
class Lock:
    def acquire(self, blocking=True, timeout=-1):
        return True

    def release(self):
        pass

    def locked(self):
        return False

    def __enter__(self):
        return True

    def __exit__(self, *exception):
        pass


RLock = Lock


class local:
    pass


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    from json import _Refused

    return _Refused("threading." + name)
