"""The core of config classes: annotated members with defaults (5.x) or an __init__ of the class's own (before), config.json's values over them."""
from copy import copy
from dataclasses import MISSING, dataclass, fields
from functools import wraps

from huggingface_hub.dataclasses import strict
from transformers import __version__
from transformers.generation.configuration_utils import GenerationConfig

try:
    import transformers.modeling_rope_utils as _rope
except ImportError:
    _rope = None
_release, _minor = [int(n) for n in __version__.split(".")[:2]]
_OLD_NAMES = {
    "mamba": "linear_attention", "attention": "full_attention", "deepseek_sparse_attention": "indexed_attention",
    "qwen_sparse_attention": "indexed_attention",
}
ALLOWED_LAYER_TYPES = ALLOWED_ATTN_LAYER_TYPES = ALLOWED_MLP_LAYER_TYPES = ()


def layer_type_validation(layer_types, num_hidden_layers=None, attention=True):
    if num_hidden_layers is not None and num_hidden_layers != len(layer_types):
        raise ValueError(f"`num_hidden_layers` ({num_hidden_layers}) must be equal to the number of layer types ({len(layer_types)})")


def remap_legacy_layer_types(layer_types=None, config=None):
    if layer_types is not None:
        return [_OLD_NAMES.get(t, t) for t in layer_types]
    for name in ("layer_types", "mtp_layer_types"):
        if getattr(config, name, None) is not None and (new := remap_legacy_layer_types(getattr(config, name))) != getattr(config, name):
            setattr(config, name, new)


def wrap_init_to_accept_kwargs(cls):
    original_init = cls.__init__

    @wraps(original_init)
    def __init__(self, **kwargs):
        _fill(self, cls, kwargs)

    cls.__init__ = __init__
    return cls


def _fill(self, cls, kwargs):
    for f in fields(cls):
        if f.name in kwargs:
            setattr(self, f.name, kwargs.pop(f.name))
        elif f.default is not MISSING:
            setattr(self, f.name, f.default)
        elif f.default_factory is not MISSING:
            setattr(self, f.name, f.default_factory())
        else:
            raise TypeError(f"Missing required field - '{f.name}'")
    self.__post_init__(**kwargs)


class SubConfigSpec:
    def __init__(self, config_class, model_type=None, init_kwargs=None, optional=False):
        self.init_kwargs = init_kwargs if init_kwargs is not None else {}
        self.config_class = config_class
        self.optional = optional
        self.model_type = model_type

    def create_subconfig(self, key, subconfig=None, **kwargs):
        if isinstance(subconfig, PreTrainedConfig):
            return subconfig, kwargs
        given = {k: v for k, v in (self.init_kwargs if subconfig is None else subconfig).items() if k != "model_type"}
        if not issubclass(self.config_class, PreTrainedConfig):
            return self.config_class.for_model((subconfig or {}).get("model_type", self.model_type), **given), kwargs
        return self.config_class(**given), kwargs


class _classproperty:
    def __init__(self, function):
        self.function = function

    def __get__(self, instance, owner):
        return self.function(owner)


class _Layers:
    """integrations/heterogeneity: the config of each layer, by its index or by its kind."""

    def __init__(self, config):
        self._config = config

    def __len__(self):
        return self._config.num_hidden_layers

    def __iter__(self):
        return iter([self[i] for i in range(len(self))])

    def __getitem__(self, index):
        config = self._config
        differ = config.__dict__.get("_per_layer")
        if differ is None:
            return config
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if isinstance(index, str):
            index = config.layer_types.index(index)
        made = copy(config)
        made.__dict__.pop("_per_layer", None)
        for name, value in differ.get(index + len(self) if index < 0 else index, {}).items():
            setattr(made, name, value)
        return made


class _PreTrainedConfigCore(getattr(_rope, "RotaryEmbeddingConfigMixin", object)):
    model_type = ""
    attribute_map = {}
    base_config_key = ""
    base_model_tp_plan = None
    base_model_pp_plan = None
    base_model_ep_plan = None
    keys_to_ignore_at_inference = []
    sub_configs_defaults = {}
    has_no_defaults_at_init = False
    is_composition = False
    _auto_class = None
    _attn_implementation_internal = None
    _experts_implementation = None

    def __post_init__(self, **kwargs):
        for key, spec in (self.sub_configs_defaults or {}).items():
            if (subconfig := getattr(self, key)) is None and spec.optional:
                continue
            subconfig, kwargs = spec.create_subconfig(key, subconfig, **kwargs)
            setattr(self, key, subconfig)
        dtype = kwargs.pop("torch_dtype", None)
        self.dtype = self.dtype if self.dtype is not None else dtype
        if isinstance(self.dtype, str):
            import torch

            self.dtype = getattr(torch, self.dtype.removeprefix("torch."))
        if self.id2label is None:
            self.num_labels = kwargs.pop("num_labels", 2)
        else:
            self.id2label = {int(key): value for key, value in self.id2label.items()}
        if hasattr(self, "rope_parameters"):
            kwargs = self.convert_rope_params_to_dict(**kwargs)
        if _release < 5:
            self._of_earlier_releases(kwargs)
        else:
            for name in GenerationConfig._get_default_generation_params():
                kwargs.pop(name, None)
        for name in ("name_or_path", "_commit_hash"):
            kwargs.pop(name, None)
        self._output_attentions = kwargs.pop("output_attentions", False)
        self._attn_implementation = kwargs.pop("attn_implementation", None)
        self._experts_implementation = kwargs.pop("experts_implementation", None)
        layers = kwargs.pop("per_layer_config", None)
        for name, value in kwargs.items():
            if name not in ("_attn_implementation_internal", "_experts_implementation_internal"):
                setattr(self, name, value)
        if _release > 5 or (_release == 5 and _minor >= 13):
            remap_legacy_layer_types(config=self)
        if layers is not None:
            self.per_layer_config = layers

    def _of_earlier_releases(self, kwargs):
        for name, value in GenerationConfig._get_default_generation_params().items():
            setattr(self, name, kwargs.pop(name, value))
        for name in ("tokenizer_class", "prefix", "bos_token_id", "pad_token_id", "eos_token_id", "sep_token_id", "decoder_start_token_id",
                     "task_specific_params", "cross_attention_hidden_size", "finetuning_task"):
            setattr(self, name, kwargs.pop(name, None))
        for name in ("torchscript", "use_bfloat16", "tf_legacy_loss", "is_decoder", "add_cross_attention", "tie_encoder_decoder"):
            setattr(self, name, kwargs.pop(name, False))
        self.pruned_heads = kwargs.pop("pruned_heads", {})
        self.tie_word_embeddings = kwargs.pop("tie_word_embeddings", True)

    def __init_subclass__(cls, *args, **kwargs):
        super().__init_subclass__(*args, **kwargs)
        if (defaults := cls.__dict__.get("sub_configs_defaults")) is not None:
            cls.sub_configs_defaults = {k: v if isinstance(v, SubConfigSpec) else SubConfigSpec(v) for k, v in defaults.items()}
        has_own = "__init__" in cls.__dict__
        own = cls.__dict__.get("__init__")
        cls = dataclass(cls, repr=False, eq=False, kw_only=True)
        for name in cls.attribute_map:  # a default of a name that stands for another is that other's: __getattribute__
            if name in cls.__dict__ and not isinstance(cls.__dict__[name], property):
                delattr(cls, name)
        if has_own:
            cls.__init__ = own
        else:
            wrap_init_to_accept_kwargs(cls)

    def validate_architecture(self):
        pass

    validate_layer_type = validate_token_ids = validate_output_attentions = validate_architecture

    @_classproperty
    def sub_configs(cls):
        return {key: spec.config_class for key, spec in (cls.sub_configs_defaults or {}).items()}

    @property
    def _attn_implementation(self):
        return self._attn_implementation_internal

    @_attn_implementation.setter
    def _attn_implementation(self, value):
        self._attn_implementation_internal = value

    @property
    def is_heterogeneous(self):
        return "_per_layer" in self.__dict__

    @property
    def per_layer_config(self):
        return _Layers(self)

    @per_layer_config.setter
    def per_layer_config(self, differ):
        if differ is not None:
            self.__dict__["_per_layer"] = {int(i): values for i, values in differ.items()}

    @property
    def num_labels(self):
        return len(self.id2label) if self.id2label is not None else None

    @num_labels.setter
    def num_labels(self, num_labels):
        if self.id2label is None or self.num_labels != num_labels:
            self.id2label = {i: f"LABEL_{i}" for i in range(num_labels)}

    @property
    def output_attentions(self):
        return self._output_attentions

    @output_attentions.setter
    def output_attentions(self, value):
        self._output_attentions = value

    @property
    def use_return_dict(self):
        return self.return_dict

    @property
    def torch_dtype(self):
        return self.dtype

    @torch_dtype.setter
    def torch_dtype(self, value):
        self.dtype = value

    @property
    def name_or_path(self):
        return ""

    def __setattr__(self, key, value):
        key = type(self).attribute_map.get(key, key)
        super().__setattr__(key, value)
        if key in ("_attn_implementation", "_experts_implementation"):
            for name in self.sub_configs:
                if (sub := getattr(self, name, None)) is not None:
                    setattr(sub, key, value)

    def __getattr__(self, name):
        """The names of attribute_map are others for the same member."""
        if name in type(self).attribute_map:
            return getattr(self, type(self).attribute_map[name])
        if name == "rope_scaling" and _release >= 5:
            return self.rope_parameters
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def get_text_config(self, decoder=None, encoder=None):
        names = ("decoder", "generator", "text_config") if decoder != encoder and decoder else ("text_encoder", "decoder", "generator", "text_config")
        for name in names:
            if (found := self.__dict__.get(name)) is not None:
                return found
        return self

    @classmethod
    def register_for_auto_class(cls, auto_class="AutoConfig"):
        cls._auto_class = auto_class

    def to_dict(self):
        return dict(self.__dict__)

    def __iter__(self):
        return iter(self.__dict__)


@strict
class PreTrainedConfig(_PreTrainedConfigCore):
    transformers_version: str | None = None
    architectures: list[str] | None = None
    output_hidden_states: bool | None = False
    return_dict: bool | None = True
    dtype: str | None = None
    chunk_size_feed_forward: int = 0
    is_encoder_decoder: bool = False
    id2label: dict | None = None
    label2id: dict | None = None
    problem_type: str | None = None


PretrainedConfig = PreTrainedConfig


def of_model(config, model_class):
    """AutoModelForCausalLM.from_config: a class of the text alone gets the text's config."""
    text = type(config).sub_configs.get("text_config")
    own = getattr(model_class, "config_class", None)
    for c in model_class.__mro__ if own is None else ():
        if (own := c.__dict__.get("__annotations__", {}).get("config")) is not None:
            break
    return config.get_text_config() if text is not None and own in (text, text.__name__) and text is not type(config) else config
