"""Which class a config is of is told by whoever asks; models that make others by their config leave the language."""
from _script import leave


class AutoModel:
    @classmethod
    def from_config(cls, config, **kwargs):
        leave(f"{cls.__name__}.from_config() of {config.model_type}")

    @classmethod
    def register(cls, *args, **kwargs):
        pass


class AutoModelForCausalLM(AutoModel):
    pass


class AutoModelForSeq2SeqLM(AutoModel):
    pass


class AutoModelForTextEncoding(AutoModel):
    pass


MODEL_FOR_CAUSAL_LM_MAPPING_NAMES = {}
