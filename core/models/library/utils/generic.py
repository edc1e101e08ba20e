"""What wraps a model's forward, and what it returns: utils/generic of transformers 5. The wrappers' frames hold the arguments."""
from collections import OrderedDict
from dataclasses import fields
from functools import wraps


class GeneralInterface:
    """A mapping of names to functions with a class-wide table and one of the instance."""

    _global_mapping = {}

    def __init__(self):
        self._local_mapping = {}

    def __getitem__(self, key):
        if key in self._local_mapping:
            return self._local_mapping[key]
        return self._global_mapping[key]

    def __contains__(self, key):
        return key in self._local_mapping or key in self._global_mapping

    def get(self, key, default=None):
        return self[key] if key in self else default


class ModelOutput(OrderedDict):
    def __post_init__(self):
        first = getattr(self, next(iter(self.__dataclass_fields__)))
        if not isinstance(first, dict):  # the others are items since they were set
            return
        names = [field.name for field in fields(self)]
        if all(getattr(self, name) is None for name in names[1:]):
            setattr(self, names[0], None)
            super().__delitem__(names[0])
            for name, value in first.items():
                setattr(self, name, value)

    def __getitem__(self, key):
        if isinstance(key, str):
            return dict(self.items())[key]
        return self.to_tuple()[key]

    def __setattr__(self, name, value):
        if value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def to_tuple(self):
        return tuple(self[key] for key in self.keys())


def can_return_tuple(forward):
    @wraps(forward)
    def wrapper(self, *args, **kwargs):
        return_dict = getattr(self.config, "return_dict", True)
        asked = kwargs.pop("return_dict", return_dict)
        if asked is not None:
            return_dict = asked
        output = forward(self, *args, **kwargs)
        if not return_dict and not isinstance(output, tuple):
            output = output.to_tuple()
        return output

    return wrapper


def merge_with_config_defaults(forward):
    @wraps(forward)
    def wrapper(self, *args, **kwargs):
        if kwargs.get("use_cache") is None:
            use_cache = getattr(self.config, "use_cache", None)
            if use_cache is not None:
                kwargs["use_cache"] = use_cache
        if kwargs.get("use_cache") and getattr(self, "gradient_checkpointing", False) and self.training:
            kwargs["use_cache"] = False
        output = forward(self, *args, **kwargs)
        return output

    return wrapper
