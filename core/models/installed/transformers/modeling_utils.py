"""PreTrainedModel as far as a training step sees it, and the attention functions by name."""
import inspect
import sys

import torch
from torch import nn
from torch._switches import finds_output_embeddings

from transformers.configuration_utils import PreTrainedConfig, _release
from transformers.integrations.flash_attention import flash_attention_forward

try:
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
except ImportError:  # before 4.48: a class of its own for each kernel
    sdpa_attention_forward = None
try:
    from transformers.loss.loss_utils import LOSS_MAPPING
except ImportError:  # before 4.46: losses in each model
    LOSS_MAPPING = {}
try:
    from transformers.utils.output_capturing import _CAN_RECORD_REGISTRY
except ImportError:  # 4.54 to 5.1: of utils/generic.py; before: layers hand on what is asked of them
    try:
        from transformers.utils.generic import _CAN_RECORD_REGISTRY
    except ImportError:
        _CAN_RECORD_REGISTRY = {}
try:
    from transformers.utils.generic import GeneralInterface
except ImportError:  # before 4.53: the mapping alone

    class GeneralInterface:
        _global_mapping = {}

        def __getitem__(self, key):
            return self._global_mapping[key]

        def __contains__(self, key):
            return key in self._global_mapping

        def get(self, key, default=None):
            return self._global_mapping.get(key, default)


class AttentionInterface(GeneralInterface):
    _global_mapping = {
        "flash_attention_3": flash_attention_forward, "flash_attention_2": flash_attention_forward, "sdpa": sdpa_attention_forward,
    }

    def get_interface(self, attn_implementation, default):
        if attn_implementation != "eager" and attn_implementation not in self:
            raise KeyError(f"`{attn_implementation}` is not a valid attention implementation registered in the `AttentionInterface`")
        return super().get(attn_implementation, default)


ALL_ATTENTION_FUNCTIONS = AttentionInterface()


def slice_logits_to_keep(hidden_states, logits_to_keep):
    slice_indices = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
    return hidden_states[:, slice_indices, :]


class PreTrainedModel(nn.Module):
    config_class = None
    base_model_prefix = ""
    main_input_name = "input_ids"
    input_modalities = "text"
    supports_gradient_checkpointing = False
    is_parallelizable = False
    _is_stateful = False
    _input_embed_layer = "embed_tokens"
    _no_split_modules = None
    _skip_keys_device_placement = None
    _keep_in_fp32_modules = None
    _keep_in_fp32_modules_strict = None
    _tied_weights_keys = None
    _tp_plan = None
    _pp_plan = None
    _supports_sdpa = False
    _supports_flash_attn = False
    _supports_flex_attn = False
    _supports_attention_backend = False
    _supports_context_parallel = True
    _can_compile_fullgraph = False
    _can_record_outputs = None

    def __init__(self, config, *inputs, **kwargs):
        super().__init__()
        self.config = config
        self.name_or_path = ""
        self.warnings_issued = {}
        if config._attn_implementation == "sdpa" and not type(self)._supports_sdpa:  # what nobody asked for by name falls back
            config._attn_implementation = "eager"
        if getattr(config, "_experts_implementation", None) is None:
            config._experts_implementation = "grouped_mm"
        name = self.__class__.__name__
        _CAN_RECORD_REGISTRY[str(self.__class__) if type(_CAN_RECORD_REGISTRY) is dict else self] = self._can_record_outputs
        named = [loss for loss in LOSS_MAPPING if loss in name]
        self.loss_type = name if name in LOSS_MAPPING else named[0] if named else None

    def post_init(self):
        pass

    def tied_within(self):
        """{target: source} of the models within this one, as get_expanded_tied_weights_keys() finds them: parameters below a module take those below
        another in the order of their names, again and again."""
        found = {}
        for name, model in self.named_children():
            if not isinstance(model, PreTrainedModel):
                continue
            for target, source in model.tied_within().items():
                found[f"{name}.{target}"] = f"{name}.{source}"
            keys = model._tied_weights_keys if getattr(model.config, "tie_word_embeddings", False) else None
            if isinstance(keys, dict) and keys:
                below = sorted([n for n, _ in model.named_parameters(remove_duplicate=False)])
                for target, source in keys.items():
                    targets, sources = [[n for n in below if n.startswith(prefix)] for prefix in (target, source)]
                    if not targets or not sources or len(targets) % len(sources):
                        raise ValueError(f"_tied_weights_keys: parameters of {source} do not tie those of {target}")
                    for i, n in enumerate(targets):
                        of = f"{name}.{sources[i % len(sources)]}"
                        found[f"{name}.{n}"] = found.get(of, of)
        return found

    def init_weights(self):
        pass

    def _init_weights(self, module):
        pass

    @classmethod
    def _from_config(cls, config, **kwargs):
        return cls(config)

    @classmethod
    def register_for_auto_class(cls, auto_class="AutoModel"):
        cls._auto_class = auto_class

    @property
    def can_record_outputs(self):
        return self._can_record_outputs or {}

    @property
    def base_model(self):
        return getattr(self, self.base_model_prefix, self)

    @property
    def is_gradient_checkpointing(self):
        return any(getattr(m, "gradient_checkpointing", False) for m in self.modules())

    @property
    def loss_function(self):
        if hasattr(self, "_loss_function"):
            return self._loss_function
        loss_type = getattr(self, "loss_type", None)
        if loss_type is None or loss_type not in LOSS_MAPPING:
            loss_type = "ForCausalLM"
        return LOSS_MAPPING[loss_type]

    @loss_function.setter
    def loss_function(self, value):
        self._loss_function = value

    @property
    def dtype(self):
        return next(p.dtype for p in self.parameters() if p.is_floating_point())

    @property
    def device(self):
        return next(self.parameters()).device

    def get_parameter_or_buffer(self, target):
        leaf = self
        for name in target.split("."):
            leaf = getattr(leaf, name)
        return leaf

    def get_input_embeddings(self):
        name = getattr(self, "_input_embed_layer", "embed_tokens")
        if (found := getattr(self, name, None)) is not None:
            return found
        embeddings = getattr(self, "embeddings", None)
        if embeddings is not None and hasattr(embeddings, name):
            return getattr(embeddings, name)
        model = getattr(self, "model", None)
        if model is not None and hasattr(model, name):
            return getattr(model, name)
        language_model = getattr(self, "language_model", None)
        if language_model is not None and language_model is not self and hasattr(language_model, "get_input_embeddings"):
            return language_model.get_input_embeddings()
        base_model = getattr(self, "base_model", None)
        if base_model is not None and base_model is not self:
            return base_model.get_input_embeddings()
        raise NotImplementedError("get_input_embeddings")

    def scaled(self, inputs_embeds):
        """What builtin classes, that a request's are derived from, do with what they looked up."""
        return inputs_embeds

    def get_output_embeddings(self):
        if not finds_output_embeddings() or not hasattr(self, "lm_head"):  # a class says so, or has none
            return None
        try:
            self.get_input_embeddings()
        except NotImplementedError:
            return None
        return self.lm_head

    def get_extended_attention_mask(self, attention_mask, input_shape, device=None, dtype=None):
        """ModuleUtilsMixin's, of an encoder; the third was a device until 5.0"""
        if isinstance(device, torch.dtype):
            dtype = device
        if dtype is None:
            dtype = self.dtype
        if attention_mask.dim() == 2 and getattr(self.config, "is_decoder", None):
            from _script import leave

            leave("get_extended_attention_mask() of a decoder")
        extended_attention_mask = attention_mask[:, None, None, :] if attention_mask.dim() == 2 else attention_mask[:, None, :, :]
        extended_attention_mask = extended_attention_mask.to(dtype=dtype)
        extended_attention_mask = (1.0 - extended_attention_mask) * torch.finfo(dtype).min
        return extended_attention_mask

    if _release < 5:

        def get_head_mask(self, head_mask, num_hidden_layers, is_attention_chunked=False):
            return [None] * num_hidden_layers

    def warn_if_padding_and_no_attention_mask(self, input_ids, attention_mask):
        pass


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    from json import _Refused

    return _Refused(__name__ + "." + name)
