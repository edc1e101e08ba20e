# A module that reaches out of the program: it can be imported, using it leaves the language.
from _script import leave


class _Refused:
    def __init__(self, name):
        self.__dict__["_name"] = name

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Refused(self._name + "." + name)

    def __setattr__(self, name, value):
        leave(self._name + "." + name)

    def __call__(self, *args, **kwargs):
        leave(self._name + "()")

    def __getitem__(self, key):
        leave(self._name + "[]")

    def __iter__(self):
        leave(self._name)

    def __bool__(self):
        leave(self._name)

    def __enter__(self):
        leave(self._name)

    def __exit__(self, *exc):
        pass

    def __mro_entries__(self, bases):
        name = self._name

        class base:
            def __init__(self, *args, **kwargs):
                leave(name + "()")

        return (base,)

    def __instancecheck__(self, obj):
        return False

    def __subclasscheck__(self, cls):
        return False

    def __or__(self, other):
        return self

    def __ror__(self, other):
        return self


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _Refused(__name__ + "." + name)
