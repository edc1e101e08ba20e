# typing: names that annotations and base classes use. Annotations are text, nobody evaluates them.
from _script import leave, make_alias, type_of_kind
from collections.abc import (
    Callable, Collection, Container, Generator, Hashable, Iterable, Iterator, Mapping, MutableMapping, MutableSequence, Sequence, Sized,
)

TYPE_CHECKING = False
_Union = type_of_kind("UnionType")


class _Form:
    def __init__(self, name):
        self._name = name

    def __getitem__(self, args):
        return make_alias(self, args if isinstance(args, tuple) else (args,))

    def __call__(self, *args, **kwargs):
        return self

    def __or__(self, other):
        return self

    def __ror__(self, other):
        return self

    def __repr__(self):
        return "typing." + self._name

    def __mro_entries__(self, bases):
        return ()


class _OptionalForm(_Form):
    def __getitem__(self, arg):
        return arg | None


class _UnionForm(_Form):
    def __getitem__(self, args):
        if not isinstance(args, tuple):
            return args
        result = args[0]
        for arg in args[1:]:
            result = result | arg
        return result


Any = _Form("Any")
Match, Pattern = _Form("Match"), _Form("Pattern")
Literal = _Form("Literal")
LiteralString = str
ClassVar = _Form("ClassVar")
Final = _Form("Final")
Annotated = _Form("Annotated")
Unpack = _Form("Unpack")
Required = _Form("Required")
NotRequired = _Form("NotRequired")
Concatenate = _Form("Concatenate")
TypeAlias = _Form("TypeAlias")
TypeGuard = _Form("TypeGuard")
NoReturn = _Form("NoReturn")
Never = _Form("Never")
Self = _Form("Self")
Optional = _OptionalForm("Optional")
Union = _UnionForm("Union")
List, Dict, Tuple, Set, FrozenSet, Type, Text = list, dict, tuple, set, frozenset, type, str
from collections import OrderedDict, defaultdict, deque
DefaultDict, Deque = defaultdict, deque
AnyStr = str


class TypeVar:
    def __init__(self, name, *constraints, bound=None, covariant=False, contravariant=False, default=None):
        self.__name__ = name
        self.__bound__ = bound

    def __or__(self, other):
        return self

    def __ror__(self, other):
        return self


class ParamSpec(TypeVar):
    args = None
    kwargs = None


class TypeVarTuple(TypeVar):
    pass


def NewType(name, tp):
    return lambda x: x


class Generic:
    def __class_getitem__(cls, args):
        return cls


class Protocol:
    def __class_getitem__(cls, args):
        return cls


class ContextManager(Protocol):
    pass


class AsyncContextManager(Protocol):
    pass


class SupportsInt(Protocol):
    pass


class SupportsIndex(Protocol):
    pass


class SupportsFloat(Protocol):
    pass


class TypedDict(dict):
    def __init_subclass__(cls, total=True, **kwargs):
        names = {}
        for base in reversed(cls.__mro__):
            names.update(base.__dict__.get("__annotations__", {}))
        cls.__annotations__ = names
        cls.__total__ = total


class NamedTuple(tuple):
    def __init_subclass__(cls, **kwargs):
        from collections import _field
        names = list(cls.__dict__.get("__annotations__", {}))
        defaults = {name: cls.__dict__[name] for name in names if name in cls.__dict__}
        cls._fields = tuple(names)
        cls._field_defaults = defaults
        for i, name in enumerate(names):
            setattr(cls, name, _field(i))

    def __new__(cls, *args, **kwargs):
        from collections import _named
        return tuple.__new__(cls, _named(cls.__name__, cls._fields, cls._field_defaults, args, kwargs))

    def __repr__(self):
        return type(self).__name__ + "(" + ", ".join([f"{n}={v!r}" for n, v in zip(self._fields, self)]) + ")"

    def _asdict(self):
        return dict(zip(self._fields, self))

    def _replace(self, **kwargs):
        return type(self)(*[kwargs.pop(n, v) for n, v in zip(self._fields, self)])


def cast(tp, value):
    return value


def overload(function):
    return function


def final(thing):
    return thing


def runtime_checkable(cls):
    return cls


def no_type_check(thing):
    return thing


def override(function):
    return function


def dataclass_transform(**kwargs):
    return lambda thing: thing


def get_origin(tp):
    return getattr(tp, "__origin__", None)


def get_args(tp):
    return getattr(tp, "__args__", ())


def get_type_hints(obj, globalns=None, localns=None, include_extras=False):
    hints = {}
    for cls in reversed(getattr(obj, "__mro__", (obj,))):
        hints.update(cls.__dict__.get("__annotations__", {}) if isinstance(cls, type) else getattr(cls, "__annotations__", {}))
    return hints
