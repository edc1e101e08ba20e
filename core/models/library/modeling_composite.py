"""Models of several modalities, of which text is trained: towers are held as their modules make them; transformers has no such file."""
from torch import nn

from transformers.modeling_decoder import CausalLM
from transformers.modeling_utils import PreTrainedModel
from transformers.utils.generic import can_return_tuple


class Tower(nn.Module):
    """What has weights and, of text alone, no forward: nothing comes by here."""


class CompositePreTrainedModel(PreTrainedModel):
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _supports_flash_attn = _supports_sdpa = True

    def stage_gap(self, first, end):
        return "which stage has the towers, and what crosses of them, is its author's choice; the text model alone is answered"


class CompositeModel(CompositePreTrainedModel):
    """`parts`: a class for each of the config's, in the order in which they are made; the one of text is language_model."""

    parts = {}

    def __init__(self, config):
        super().__init__(config)
        for (name, part), one in zip(self.parts.items(), config.sub_configs):
            setattr(self, name, part(getattr(config, one)))
        self.post_init()

    def get_input_embeddings(self):
        return self.language_model.get_input_embeddings()

    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, inputs_embeds=None, use_cache=None, **kwargs):
        if inputs_embeds is None:
            inputs_embeds = self.get_input_embeddings()(input_ids)
        return self.language_model(input_ids=None, position_ids=position_ids, attention_mask=attention_mask, past_key_values=past_key_values,
                                   inputs_embeds=inputs_embeds, use_cache=use_cache, **kwargs)


class CompositeForConditionalGeneration(CausalLM, CompositePreTrainedModel):
    _tied_weights_keys = {"lm_head.weight": "model.language_model.embed_tokens.weight"}
    _tp_plan, items_are_not_taken, composed = {"lm_head": "colwise_gather_output"}, True, None  # accepts_loss_kwargs = False

    def decoder(self, config):
        return self.composed(config)

    @staticmethod
    def text_of(config):
        return config.text_config
