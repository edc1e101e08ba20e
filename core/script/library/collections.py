# collections
from _script import caller_module


class OrderedDict(dict):
    def __class_getitem__(cls, args):
        return cls

    def __eq__(self, other):
        if isinstance(other, OrderedDict):
            return list(self.items()) == list(other.items())
        return dict(self) == dict(other) if isinstance(other, dict) else NotImplemented

    def __repr__(self):
        return "OrderedDict(" + (repr(list(self.items())) if self else "") + ")"


class defaultdict(dict):
    def __init__(self, default_factory=None, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.default_factory = default_factory

    def __missing__(self, key):
        if self.default_factory is None:
            raise KeyError(key)
        value = self[key] = self.default_factory()
        return value


class Counter(dict):
    def __init__(self, iterable=(), **kwargs):
        super().__init__()
        for item in iterable:
            self[item] = self.get(item, 0) + 1

    def __missing__(self, key):
        return 0

    def most_common(self, n=None):
        pairs = sorted(self.items(), key=lambda pair: pair[1], reverse=True)
        return pairs if n is None else pairs[:n]


class deque(list):
    def __init__(self, iterable=(), maxlen=None):
        super().__init__()
        self.maxlen = maxlen
        for item in iterable:
            self.append(item)

    def append(self, item):
        super().append(item)
        if self.maxlen is not None and len(self) > self.maxlen:
            del self[0]

    def appendleft(self, item):
        self.insert(0, item)

    def popleft(self):
        return self.pop(0)

    def extendleft(self, items):
        for item in items:
            self.insert(0, item)


class UserDict(dict):
    def __init__(self, dict=None, /, **kwargs):
        super().__init__()
        if dict is not None:
            self.update(dict)
        self.update(kwargs)

    def __class_getitem__(cls, args):
        return cls


class ChainMap(dict):
    def __init__(self, *maps):
        super().__init__()
        for one in reversed(maps):
            self.update(one)


def _field(i):
    return property(lambda self: tuple.__getitem__(self, i))


def _named(name, fields, defaults, args, kwargs):
    if len(args) > len(fields):
        raise TypeError(f"{name}.__new__() takes {len(fields) + 1} positional arguments but {len(args) + 1} were given")
    values = list(args)
    for field in fields[len(args):]:
        if field in kwargs:
            values.append(kwargs.pop(field))
        elif field in defaults:
            values.append(defaults[field])
        else:
            raise TypeError(f"{name}.__new__() missing 1 required positional argument: '{field}'")
    if kwargs:
        raise TypeError(f"{name}.__new__() got an unexpected keyword argument '{next(iter(kwargs))}'")
    return values


def namedtuple(typename, field_names, *, rename=False, defaults=None, module=None):
    if isinstance(field_names, str):
        field_names = field_names.replace(",", " ").split()
    fields = tuple(field_names)
    given = dict(zip(fields[len(fields) - len(defaults):], defaults)) if defaults else {}

    def __new__(cls, *args, **kwargs):
        return tuple.__new__(cls, _named(typename, fields, given, args, kwargs))

    def __repr__(self):
        return type(self).__name__ + "(" + ", ".join([f"{n}={v!r}" for n, v in zip(fields, self)]) + ")"

    def _asdict(self):
        return dict(zip(fields, self))

    def _replace(self, **kwargs):
        return type(self)(*[kwargs.pop(n, v) for n, v in zip(fields, self)])

    names = {"__new__": __new__, "__repr__": __repr__, "_asdict": _asdict, "_replace": _replace, "_fields": fields,
             "__match_args__": fields, "_field_defaults": given,
             "_make": classmethod(lambda cls, iterable: tuple.__new__(cls, iterable)), "__module__": caller_module().__name__}
    for i, name in enumerate(fields):
        names[name] = _field(i)
    return type(typename, (tuple,), names)
