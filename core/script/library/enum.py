# enum


class auto:
    pass


def _is_member(name, value):
    return not name.startswith("_") and not isinstance(value, (property, staticmethod, classmethod, type)) and not callable(value) \
        and not hasattr(value, "__get__")


class EnumMeta(type):
    def __new__(mcls, name, bases, namespace, **kwargs):
        values = {k: v for k, v in namespace.items() if _is_member(k, v)}
        rest = {k: v for k, v in namespace.items() if k not in values}
        cls = super().__new__(mcls, name, bases, rest, **kwargs)
        data = None
        for base in cls.__mro__:
            if base in (str, int, float):
                data = base
                break
        members = {}
        by_value = {}
        last = 0
        for key, value in values.items():
            if isinstance(value, auto):
                value = key.lower() if data is str else last + 1
            if isinstance(value, int):
                last = value
            member = None
            for other in by_value.values():
                if other._value_ == value:
                    member = other
            if member is None:
                member = object.__new__(cls) if data is None else data.__new__(cls, value)
                member._name_ = key
                member._value_ = value
                by_value[key] = member
            members[key] = member
            type.__setattr__(cls, key, member)
        type.__setattr__(cls, "_members_", members)
        type.__setattr__(cls, "_member_names_", list(by_value))
        return cls

    def __call__(cls, value, *args, **kwargs):
        for member in cls._members_.values():
            if member._value_ == value:
                return member
        if isinstance(value, cls):
            return value
        found = cls._missing_(value)
        if found is None:
            raise ValueError(f"{value!r} is not a valid {cls.__qualname__}")
        return found

    def __iter__(cls):
        return iter([cls._members_[name] for name in cls._member_names_])

    def __len__(cls):
        return len(cls._member_names_)

    def __getitem__(cls, name):
        return cls._members_[name]

    def __contains__(cls, value):
        for member in cls._members_.values():
            if member is value or member._value_ == value:
                return True
        return False

    @property
    def __members__(cls):
        return dict(cls._members_)


EnumType = EnumMeta


class Enum(metaclass=EnumMeta):
    @property
    def name(self):
        return self._name_

    @property
    def value(self):
        return self._value_

    @classmethod
    def _missing_(cls, value):
        return None

    def __repr__(self):
        return f"<{type(self).__name__}.{self._name_}: {self._value_!r}>"

    def __str__(self):
        return f"{type(self).__name__}.{self._name_}"

    def __hash__(self):
        return hash(self._name_)

    def __eq__(self, other):
        if self is other:
            return True
        if isinstance(self, (str, int, float)) and not isinstance(other, Enum):
            return self._value_ == other
        return NotImplemented

    def __deepcopy__(self, memo):
        return self

    def __copy__(self):
        return self


class IntEnum(int, Enum):
    def __str__(self):
        return str(self._value_)


class StrEnum(str, Enum):
    def __str__(self):
        return self._value_


Flag = IntFlag = Enum


def unique(cls):
    return cls
