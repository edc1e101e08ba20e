"""Which class a config is of is told by whoever asks; models that make others by their config have the class that is named like it."""
from _script import import_by_name, leave


class AutoModel:
    _kind = "Model"

    @classmethod
    def from_config(cls, config, **kwargs):
        name = type(config).__name__.removesuffix("Config") + cls._kind
        try:
            made = import_by_name(type(config).__module__.replace(".configuration_", ".modeling_")).__dict__.get(name)
        except ImportError:
            made = None
        if made is None:
            leave(f"{cls.__name__}.from_config() of {config.model_type}")
        return made(config)

    @classmethod
    def register(cls, *args, **kwargs):
        pass


class AutoModelForCausalLM(AutoModel):
    _kind = "ForCausalLM"


class AutoModelForSeq2SeqLM(AutoModel):
    _kind = "ForSeq2SeqLM"


class AutoModelForTextEncoding(AutoModel):
    _kind = "ForTextEncoding"


MODEL_FOR_CAUSAL_LM_MAPPING_NAMES = {}
