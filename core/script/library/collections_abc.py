# collections.abc: by what an object offers
from _script import make_alias


class _ABCMeta(type):
    def __instancecheck__(cls, obj):
        if cls in type(obj).__mro__:
            return True
        needs = cls.__dict__.get("_needs")
        if needs is None:
            return False
        kinds = cls.__dict__.get("_kinds")
        if kinds is not None:
            return isinstance(obj, kinds)
        for name in needs:
            if not hasattr(type(obj), name):
                return False
        return True

    def __subclasscheck__(cls, sub):
        if cls in sub.__mro__:
            return True
        needs = cls.__dict__.get("_needs")
        kinds = cls.__dict__.get("_kinds")
        if needs is None:
            return False
        if kinds is not None:
            return issubclass(sub, kinds)
        for name in needs:
            if not hasattr(sub, name):
                return False
        return True


class _ABC(metaclass=_ABCMeta):
    def __class_getitem__(cls, args):
        return make_alias(cls, args if isinstance(args, tuple) else (args,))


class Callable(_ABC):
    _needs = ("__call__",)


class Hashable(_ABC):
    _needs = ("__hash__",)


class Sized(_ABC):
    _needs = ("__len__",)


class Container(_ABC):
    _needs = ("__contains__",)


class Iterable(_ABC):
    _needs = ("__iter__",)


class Iterator(Iterable):
    _needs = ("__next__",)


class Generator(Iterator):
    _needs = ("send",)


class Reversible(Iterable):
    _needs = ("__reversed__",)


class Collection(Sized, Iterable, Container):
    _needs = ("__len__", "__iter__", "__contains__")


class Sequence(Reversible, Collection):
    _needs = ()
    _kinds = (list, tuple, str, range)

    def __iter__(self):
        i = 0
        try:
            while True:
                yield self[i]
                i += 1
        except IndexError:
            return

    def __contains__(self, value):
        for v in self:
            if v is value or v == value:
                return True
        return False


class MutableSequence(Sequence):
    _needs = ()
    _kinds = (list,)


class Set(Collection):
    _needs = ()
    _kinds = (set, frozenset)


class MutableSet(Set):
    _needs = ()
    _kinds = (set,)


class Mapping(Collection):
    _needs = ()
    _kinds = (dict,)

    def get(self, key, default=None):
        try:
            return self[key]
        except KeyError:
            return default

    def __contains__(self, key):
        try:
            self[key]
        except KeyError:
            return False
        return True

    def keys(self):
        return list(self)

    def items(self):
        return [(key, self[key]) for key in self]

    def values(self):
        return [self[key] for key in self]

    def __eq__(self, other):
        return dict(self.items()) == dict(other.items())


class MutableMapping(Mapping):
    _needs = ()
    _kinds = (dict,)

    def pop(self, key, *default):
        try:
            value = self[key]
        except KeyError:
            if default:
                return default[0]
            raise
        else:
            del self[key]
            return value

    def update(self, other=(), /, **kwds):
        if isinstance(other, Mapping):
            for key in other:
                self[key] = other[key]
        else:
            for key, value in other:
                self[key] = value
        for key, value in kwds.items():
            self[key] = value

    def setdefault(self, key, default=None):
        try:
            return self[key]
        except KeyError:
            self[key] = default
        return default


class Awaitable(_ABC):
    _needs = ("__await__",)


class Coroutine(Awaitable):
    _needs = ("__await__",)


class KeysView(Set):
    pass


class ValuesView(Collection):
    pass


class ItemsView(Set):
    pass
