"""Models that make others by their config: the class is what the release's own table has for the type, else the one that is named like the config."""
from _script import import_by_name, leave


class AutoModel:
    _kind = "Model"
    _table = "MODEL_MAPPING_NAMES"

    @classmethod
    def from_config(cls, config, **kwargs):
        name = import_by_name(f"_auto:{cls._table}:{config.model_type}").name or type(config).__name__.removesuffix("Config") + cls._kind
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
    _table = "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES"


class AutoModelForSeq2SeqLM(AutoModel):
    _kind = "ForConditionalGeneration"
    _table = "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES"


class AutoModelForTextEncoding(AutoModel):
    _kind = "ForTextEncoding"
    _table = "MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES"


MODEL_FOR_CAUSAL_LM_MAPPING_NAMES = {}
