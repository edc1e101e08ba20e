from _script import import_by_name, leave

_FOLDERS = {"siglip_vision_model": "siglip", "clip_vision_model": "clip", "clip_text_model": "clip", "siglip2_vision_model": "siglip2"}


class AutoConfig:
    @classmethod
    def for_model(cls, model_type, *args, **kwargs):
        name = _FOLDERS.get(model_type, model_type).replace("-", "_")
        for folder in (name, name.rsplit("_", 1)[0]):
            try:
                module = import_by_name(f"transformers.models.{folder}.configuration_{folder}")
            except ImportError:
                continue
            for found in module.__dict__.values():
                if isinstance(found, type) and getattr(found, "model_type", None) == model_type:
                    return found(*args, **kwargs)
        leave(f"AutoConfig.for_model({model_type!r})")

    @classmethod
    def register(cls, *args, **kwargs):
        pass


CONFIG_MAPPING = {}
CONFIG_MAPPING_NAMES = {}
