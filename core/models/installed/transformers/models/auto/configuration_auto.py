"""Configs that name others by their type: module and class are those of the release's own tables (model_type_to_module_name, CONFIG_MAPPING)."""
from _script import import_by_name, leave


class _Mapping:
    """_LazyConfigMapping"""

    def __getitem__(self, model_type):
        try:
            folder = import_by_name(f"_auto:SPECIAL_MODEL_TYPE_TO_MODULE_NAME:{model_type}").name or model_type.replace("-", "_")
            name = import_by_name(f"_auto:CONFIG_MAPPING_NAMES:{model_type}").name
            return import_by_name(f"transformers.models.{folder}.configuration_{folder}").__dict__[name]
        except ImportError:
            raise KeyError(model_type)

    def __contains__(self, model_type):
        try:
            return import_by_name(f"_auto:CONFIG_MAPPING_NAMES:{model_type}").name is not None
        except ImportError:
            return False


CONFIG_MAPPING = _Mapping()
CONFIG_MAPPING_NAMES = {}


class AutoConfig:
    @classmethod
    def for_model(cls, model_type, *args, **kwargs):
        try:
            found = CONFIG_MAPPING[model_type]
        except KeyError:
            leave(f"AutoConfig.for_model({model_type!r})")
        return found(*args, **kwargs)

    @classmethod
    def register(cls, *args, **kwargs):
        pass
