from _script import leave


class AutoConfig:
    @classmethod
    def for_model(cls, model_type, *args, **kwargs):
        leave(f"AutoConfig.for_model({model_type!r})")

    @classmethod
    def register(cls, *args, **kwargs):
        pass


CONFIG_MAPPING = {}
CONFIG_MAPPING_NAMES = {}
