"""The package: what files take from it by name lies in its modules."""
from json import _Refused

from _script import import_by_name
from transformers.releases import quirks

__version__ = "4.57.6" if quirks.generation_in_config else "5.23.0"

_modules = {
    "activations": ("ACT2FN",),
    "cache_utils": ("Cache", "DynamicCache", "EncoderDecoderCache"),
    "configuration_utils": ("PreTrainedConfig", "PretrainedConfig"),
    "generation": ("GenerationConfig", "GenerationMixin"),
    "masking_utils": ("AttentionMaskInterface",),
    "modeling_layers": ("GradientCheckpointingLayer",),
    "modeling_rope_utils": ("ROPE_INIT_FUNCTIONS", "dynamic_rope_update"),
    "modeling_utils": ("AttentionInterface", "PreTrainedModel"),
    "models.auto.configuration_auto": ("AutoConfig", "CONFIG_MAPPING"),
    "models.auto.modeling_auto": ("AutoModel", "AutoModelForCausalLM"),
    "pytorch_utils": ("Conv1D",),
    "utils": ("logging",),
}
_where = {name: module for module, names in _modules.items() for name in names}


def __getattr__(name):
    if name in _where:
        return getattr(import_by_name("transformers." + _where[name]), name)
    for end in ("Config", "PreTrainedModel", "ForCausalLM", "LMHeadModel", "Model"):
        if name.endswith(end) and name != end:
            kind = name.removesuffix(end).lower()
            try:
                return getattr(import_by_name(f"transformers.models.{kind}.modeling_{kind}"), name)
            except ModuleNotFoundError:
                break
    if name.startswith("__"):
        raise AttributeError(name)
    try:
        if not name[0].isupper():  # a class that no file here has, AutoTokenizer, may be derived from
            return import_by_name("transformers." + name)
    except ImportError:
        pass
    return _Refused("transformers." + name)
