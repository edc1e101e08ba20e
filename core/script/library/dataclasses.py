# dataclasses. The __init__ is one function that knows the fields; CPython writes its text: both hold their arguments until they return.


class _Missing:
    def __repr__(self):
        return "<dataclasses._MISSING_TYPE object>"


class FrozenInstanceError(AttributeError):
    pass


MISSING = _Missing()


class KW_ONLY:
    pass


class InitVar:
    def __class_getitem__(cls, tp):
        return cls


class Field:
    def __init__(self, default, default_factory, init, repr, hash, compare, metadata, kw_only):
        self.name = None
        self.type = None
        self.default = default
        self.default_factory = default_factory
        self.init = init
        self.repr = repr
        self.hash = hash
        self.compare = compare
        self.metadata = {} if metadata is None else metadata
        self.kw_only = kw_only
        self.init_var = False


def field(*, default=MISSING, default_factory=MISSING, init=True, repr=True, hash=None, compare=True, metadata=None, kw_only=MISSING):
    if default is not MISSING and default_factory is not MISSING:
        raise ValueError("cannot specify both default and default_factory")
    return Field(default, default_factory, init, repr, hash, compare, metadata, kw_only)


def fields(class_or_instance):
    found = getattr(class_or_instance, "__dataclass_fields__", None)
    if found is None:
        raise TypeError("must be called with a dataclass type or instance")
    return tuple([f for f in found.values() if not f.init_var])


def is_dataclass(obj):
    return hasattr(obj if isinstance(obj, type) else type(obj), "__dataclass_fields__")


def _collect(cls, kw_only):
    found = {}
    for base in cls.__mro__[-1:0:-1]:
        inherited = base.__dict__.get("__dataclass_fields__")
        if inherited is not None:
            found.update(inherited)
    for name, tp in cls.__dict__.get("__annotations__", {}).items():
        text = tp if isinstance(tp, str) else getattr(tp, "__name__", "")
        if text.startswith(("ClassVar", "typing.ClassVar")):
            continue
        if text in ("KW_ONLY", "dataclasses.KW_ONLY", "_"):
            kw_only = True
            continue
        default = cls.__dict__.get(name, MISSING)
        if isinstance(default, Field):
            one = default
            if one.default is not MISSING:
                setattr(cls, name, one.default)
            elif name in cls.__dict__:
                delattr(cls, name)
        else:
            if isinstance(default, (list, dict, set)):
                raise ValueError(f"mutable default {type(default)} for field {name} is not allowed: use default_factory")
            one = field(default=default)
        one.name = name
        one.type = tp
        one.init_var = text.startswith(("InitVar", "dataclasses.InitVar"))
        if one.kw_only is MISSING:
            one.kw_only = kw_only
        found[name] = one
    return found


def _make_init(cls, found, frozen):
    positional = tuple([f.name for f in found.values() if f.init and not f.kw_only])
    simple = not frozen and all([f.init and not f.init_var and f.default is not MISSING for f in found.values()])
    plain = tuple([(f.name, f.default) for f in found.values()]) if simple else ()
    listed = () if simple else tuple(found.values())  # all of them, or none
    init_vars = tuple([f.name for f in found.values() if f.init_var])
    has_post = hasattr(cls, "__post_init__")
    plain_set = object.__setattr__

    def set_listed(self, given):
        missing = [f.name for f in listed if f.init and f.default is MISSING and f.default_factory is MISSING and f.name not in given]
        if missing:
            raise TypeError(f"{type(self).__name__}.__init__() missing {len(missing)} required argument{'s' if len(missing) > 1 else ''}: {missing!r}")
        rest = {}
        for f in listed:
            name = f.name
            if f.init and name in given:
                value = given[name]
            elif f.default_factory is not MISSING:
                value = f.default_factory()
            elif f.default is not MISSING:
                if not f.init:
                    continue
                value = f.default
            else:
                continue
            if f.init_var:
                rest[name] = value
            elif frozen:
                plain_set(self, name, value)
            else:
                setattr(self, name, value)
        return [rest[name] for name in init_vars]

    def __init__(self, *args, **kwargs):
        if len(args) > len(positional):
            raise TypeError(f"{type(self).__name__}.__init__() takes {len(positional) + 1} positional arguments but {len(args) + 1} were given")
        given = dict(zip(positional, args)) if args else kwargs
        for name in kwargs:
            if args and name in given:
                raise TypeError(f"{type(self).__name__}.__init__() got multiple values for argument '{name}'")
            if name not in found or not found[name].init:
                raise TypeError(f"{type(self).__name__}.__init__() got an unexpected keyword argument '{name}'")
        if args:
            given.update(kwargs)
        for name, default in plain:
            setattr(self, name, given[name] if name in given else default)
        rest = set_listed(self, given) if listed else ()
        if has_post:
            self.__post_init__(*rest)

    __init__._fields = found  # inspect.signature()
    return __init__


def _process(cls, init, repr, eq, order, unsafe_hash, frozen, kw_only):
    found = _collect(cls, kw_only)
    cls.__dataclass_fields__ = found
    shown = tuple([f.name for f in found.values() if f.repr and not f.init_var])
    compared = tuple([f.name for f in found.values() if f.compare and not f.init_var])
    own = cls.__dict__
    if init:
        cls.__init__ = _make_init(cls, found, frozen)
    if "__match_args__" not in own:
        cls.__match_args__ = tuple([f.name for f in found.values() if f.init and not f.kw_only])
    if repr and "__repr__" not in own:
        def __repr__(self):
            return type(self).__qualname__ + "(" + ", ".join([f"{name}={getattr(self, name)!r}" for name in shown]) + ")"
        cls.__repr__ = __repr__
    if eq and "__eq__" not in own:
        def __eq__(self, other):
            if other.__class__ is not self.__class__:
                return NotImplemented
            return tuple([getattr(self, name) for name in compared]) == tuple([getattr(other, name) for name in compared])
        cls.__eq__ = __eq__
        if "__hash__" not in own:
            if frozen or unsafe_hash:
                def __hash__(self):
                    return hash(tuple([getattr(self, name) for name in compared]))
                cls.__hash__ = __hash__
            else:
                cls.__hash__ = None
    if order:
        def __lt__(self, other):
            return tuple([getattr(self, name) for name in compared]) < tuple([getattr(other, name) for name in compared])
        cls.__lt__ = __lt__
    if frozen:
        def __setattr__(self, name, value):
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        cls.__setattr__ = __setattr__
    return cls


def dataclass(cls=None, /, *, init=True, repr=True, eq=True, order=False, unsafe_hash=False, frozen=False, match_args=True, kw_only=False,
              slots=False, weakref_slot=False):
    if cls is None:
        return lambda cls: _process(cls, init, repr, eq, order, unsafe_hash, frozen, kw_only)
    return _process(cls, init, repr, eq, order, unsafe_hash, frozen, kw_only)


def _plain(value, dict_factory):
    if is_dataclass(value) and not isinstance(value, type):
        return dict_factory([(f.name, _plain(getattr(value, f.name), dict_factory)) for f in fields(value)])
    if isinstance(value, (list, tuple)):
        return type(value)([_plain(v, dict_factory) for v in value])
    if isinstance(value, dict):
        return type(value)([(_plain(k, dict_factory), _plain(v, dict_factory)) for k, v in value.items()])
    return value


def asdict(obj, *, dict_factory=dict):
    return _plain(obj, dict_factory)


def astuple(obj):
    return tuple([getattr(obj, f.name) for f in fields(obj)])


def replace(obj, /, **changes):
    for f in fields(obj):
        if f.init and f.name not in changes:
            changes[f.name] = getattr(obj, f.name)
    return type(obj)(**changes)
