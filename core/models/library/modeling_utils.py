"""PreTrainedModel as far as a training step sees it, and the attention functions by name."""
from torch import nn

from transformers.integrations.flash_attention import flash_attention_forward
from transformers.integrations.flex_attention import flex_attention_forward
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.loss.loss_utils import LOSS_MAPPING
from transformers.utils.generic import GeneralInterface


class AttentionInterface(GeneralInterface):
    _global_mapping = {
        "flash_attention_3": flash_attention_forward, "flash_attention_2": flash_attention_forward, "sdpa": sdpa_attention_forward,
        "flex_attention": flex_attention_forward,
    }

    def get_interface(self, name, default):
        return self._local_mapping.get(name) or self._global_mapping.get(name, default)


ALL_ATTENTION_FUNCTIONS = AttentionInterface()


def slice_logits_to_keep(hidden_states, logits_to_keep):
    if isinstance(logits_to_keep, int):
        logits_to_keep = slice(-logits_to_keep, None)
    return hidden_states[:, logits_to_keep, :]


class PreTrainedModel(nn.Module):
    config_class = None
    base_model_prefix = ""
    supports_gradient_checkpointing = False
    _no_split_modules = None
    _tied_weights_keys = None
    _tp_plan = None
    _pp_plan = None
    _supports_sdpa = False
    _supports_flash_attn = False
    _input_embed_layer = "embed_tokens"
    takes_positions = True  # forward of the causal model has position_ids, which generate() then makes
    positions_of_grids = False  # of three grids behind those of text: _prepare_position_ids_for_generation() of the class itself

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.loss_type = "ForCausalLM"

    def post_init(self):
        pass

    @property
    def loss_function(self):
        return LOSS_MAPPING[self.loss_type]

    @property
    def dtype(self):
        return next(p.dtype for p in self.parameters() if p.is_floating_point())

    @property
    def device(self):
        return next(self.parameters()).device

    @property
    def base_model(self):
        return getattr(self, self.base_model_prefix, self)

    def get_input_embeddings(self):
        """EmbeddingAccessMixin: where most classes have them."""
        name = getattr(self, "_input_embed_layer", "embed_tokens")
        for holder in (self, getattr(self, "embeddings", None), getattr(self, "model", None)):
            if holder is not None and getattr(holder, name, None) is not None:
                return getattr(holder, name)
        for holder in (getattr(self, "language_model", None), self.base_model):
            if holder is not None and holder is not self and hasattr(holder, "get_input_embeddings"):
                return holder.get_input_embeddings()
        raise NotImplementedError(f"`get_input_embeddings` not auto-handled for {type(self).__name__}; please override in the subclass.")

    def scaled(self, inputs_embeds):
        """What a class does with what it looked up, at once."""
        return inputs_embeds

    def get_output_embeddings(self):
        return getattr(self, "lm_head", None)
