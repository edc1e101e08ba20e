"""strict dataclasses: unknown keywords go to __post_init__, methods named validate_* run at the end of __init__. Types of fields are not checked."""
from dataclasses import MISSING, field, fields
from functools import wraps


def _takes_keywords(cls):
    original_init = cls.__init__

    @wraps(original_init)
    def __init__(self, *args, **kwargs):
        if args:
            raise ValueError(f"{cls.__name__} accepts only keyword arguments")
        known = {f.name for f in fields(cls)}
        for f in fields(cls):
            if f.name in kwargs:
                setattr(self, f.name, kwargs[f.name])
            elif f.default is not MISSING:
                setattr(self, f.name, f.default)
            elif f.default_factory is not MISSING:
                setattr(self, f.name, f.default_factory())
            else:
                raise TypeError(f"Missing required field - '{f.name}'")
        self.__post_init__(**{name: value for name, value in kwargs.items() if name not in known})

    cls.__init__ = __init__
    if not hasattr(cls, "__post_init__"):
        def __post_init__(self, **kwargs):
            for name, value in kwargs.items():
                setattr(self, name, value)

        cls.__post_init__ = __post_init__


def strict(cls=None, *, accept_kwargs=False):
    def wrap(cls):
        if accept_kwargs:
            _takes_keywords(cls)
        initial_init = cls.__init__

        @wraps(initial_init)
        def init_with_validate(self, *args, **kwargs):
            initial_init(self, *args, **kwargs)
            for name in ("validate_architecture", "validate_layer_type"):
                if hasattr(cls, name):
                    getattr(cls, name)(self)

        cls.__init__ = init_with_validate
        return cls

    return wrap(cls) if cls is not None else wrap


def validated_field(validator, default=MISSING, default_factory=MISSING, init=True, repr=True, hash=None, compare=True, metadata=None, **kwargs):
    return field(default=default, default_factory=default_factory, init=init, repr=repr, hash=hash, compare=compare, metadata=metadata)


def as_validated_field(validator):
    def made(default=MISSING, **kwargs):
        return field(default=default, **kwargs)

    return made


def validate_typed_dict(schema, data):
    pass
