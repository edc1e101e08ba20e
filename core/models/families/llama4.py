"""llama4: llama4_text, its head too, under a model that sees: of text alone its tower and its projector are held, and do nothing."""
from transformers.configuration_utils import CompositeConfig
from transformers.modeling_composite import CompositePreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.modeling_vision_llama4 import Llama4MultiModalProjector, Llama4VisionConfig, Llama4VisionModel
from transformers.models.llama4_text.modeling_llama4_text import Llama4ForCausalLM, Llama4TextConfig
from transformers.utils.generic import can_return_tuple


class Llama4Config(CompositeConfig):
    model_type, sub_configs = "llama4", {"vision_config": Llama4VisionConfig, "text_config": Llama4TextConfig}
    vision_config: dict | None = None
    text_config: dict | None = None
    tie_word_embeddings: bool = False

    @property
    def base_model_tp_plan(self):
        return None  # its rows name packed_rowwise, which has no model here


class Llama4ForConditionalGeneration(CompositePreTrainedModel):
    config_class, _no_split_modules = Llama4Config, ["Llama4TextDecoderLayer", "Llama4VisionEncoderLayer"]
    _supports_flash_attn, _tp_plan = False, None
    _tied_weights_keys = {"language_model.lm_head.weight": "language_model.model.embed_tokens.weight"}

    def __init__(self, config):
        super().__init__(config)
        self.vision_model = Llama4VisionModel(config.vision_config)
        self.multi_modal_projector = Llama4MultiModalProjector(config)
        self.language_model = Llama4ForCausalLM(config.text_config)
        self.post_init()

    def get_input_embeddings(self):
        return self.language_model.model.embed_tokens

    def get_output_embeddings(self):
        return self.language_model.lm_head

    def loss_of(self, logits, labels, attention_mask, **kwargs):
        return self.loss_function(logits=logits, labels=labels, vocab_size=self.config.text_config.vocab_size, **kwargs)

    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, inputs_embeds=None, labels=None, use_cache=None,
                logits_to_keep=0, **kwargs):
        if inputs_embeds is None:
            inputs_embeds = self.get_input_embeddings()(input_ids)
        outputs = self.language_model(attention_mask=attention_mask, position_ids=position_ids, past_key_values=past_key_values,
                                      inputs_embeds=inputs_embeds, use_cache=use_cache, logits_to_keep=logits_to_keep, **kwargs)
        logits = outputs.logits
        loss = None
        if labels is not None:
            loss = self.loss_of(logits, labels, attention_mask, **kwargs)
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=outputs.past_key_values)


causal_lm = Llama4ForConditionalGeneration
