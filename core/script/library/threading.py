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
