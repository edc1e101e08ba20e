"""gemma3 by earlier releases: its class computes the loss, of the places that are not padding."""
from transformers.modeling_composite import loss_of_places
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.modeling_utils import slice_logits_to_keep
from transformers.releases import of, quirks, refuse


def ids_of_text(config, input_ids):
    """Images' places, where they have no row in text's table, ask for its first."""
    if config.image_token_id < config.text_config.vocab_size:
        return input_ids, None
    images = input_ids == config.image_token_id
    text_ids = input_ids.clone()
    text_ids[images] = 0
    return text_ids, images


if not quirks.masks_by_utils:
    from transformers.modeling_attn_mask_utils import NO_WINDOW, mask_of_positions

    @of(Gemma3Model)
    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, inputs_embeds=None, use_cache=None, **kwargs):
        text_ids, images = ids_of_text(self.config, input_ids)
        if inputs_embeds is None:
            inputs_embeds = self.get_input_embeddings()(text_ids)
        return self.language_model(attention_mask=attention_mask, position_ids=position_ids, past_key_values=past_key_values, inputs_embeds=inputs_embeds,
                                   use_cache=use_cache, **kwargs)

    @of(Gemma3TextModel)
    def masks(self, config, inputs_embeds, attention_mask, position_ids, past_key_values=None):
        """Made where text's own model would, and where no mask comes for one place more than there are; sliding layers cut theirs from it."""
        if quirks.gemma3_holds_head:
            self.made = position_ids
        if config._attn_implementation == "flash_attention_2":
            return [attention_mask] * len(self.layers)
        mask, _ = mask_of_positions(inputs_embeds, attention_mask, position_ids, NO_WINDOW)
        if quirks.gemma3_holds_head:
            self.made = position_ids, mask
        full = mask if past_key_values is not None else mask[:, :, :, : inputs_embeds.shape[1]]
        return [mask if kind == "sliding_attention" else full for kind in config.layer_types]

if quirks.gemma3_holds_head:
    from transformers.modeling_utils import PreTrainedModel
    from transformers.models.gemma3_text.modeling_gemma3_text import Gemma3ForCausalLM

    Gemma3ForConditionalGeneration._tied_weights_keys = {"language_model.lm_head.weight": "language_model.model.embed_tokens.weight"}
    Gemma3ForConditionalGeneration.base_model_prefix = "language_model"

    @of(Gemma3ForConditionalGeneration)
    def __init__(self, config):
        PreTrainedModel.__init__(self, config)
        self.vision_tower = SiglipVisionModel(config.vision_config)
        self.multi_modal_projector = Gemma3MultiModalProjector(config)
        self.language_model = Gemma3ForCausalLM(config.text_config)
        self.pad_token_id = config.pad_token_id if config.pad_token_id is not None else -1
        self.post_init()

    @of(Gemma3ForConditionalGeneration)
    def get_input_embeddings(self):
        return self.language_model.model.embed_tokens

    @of(Gemma3ForConditionalGeneration)
    def get_output_embeddings(self):
        return self.language_model.lm_head

    @of(Gemma3ForConditionalGeneration)
    def logits_of(self, input_ids, attention_mask, position_ids, past_key_values, inputs_embeds, use_cache, logits_to_keep, labels):
        """And what forward holds of their making."""
        text_ids, images = ids_of_text(self.config, input_ids)
        if inputs_embeds is None:
            inputs_embeds = self.get_input_embeddings()(text_ids)
        if labels is not None:
            (labels == self.pad_token_id).any()
        outputs = self.language_model(attention_mask=attention_mask, position_ids=position_ids, past_key_values=past_key_values,
                                      inputs_embeds=inputs_embeds, use_cache=use_cache, logits_to_keep=logits_to_keep)
        made = self.language_model.model.__dict__.pop("made", None)  # before text's own forward, in truth: this one's frame holds them too
        return outputs.logits, outputs.past_key_values, (text_ids, images, inputs_embeds, outputs, made)

if not quirks.gemma3_calls_loss_function:
    Gemma3ForConditionalGeneration.items_are_not_taken = bool(quirks.gemma3_takes_no_count)

    @of(Gemma3ForConditionalGeneration)
    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, inputs_embeds=None, labels=None, use_cache=None,
                logits_to_keep=0, **kwargs):
        if self.training and quirks.gemma3_wants_token_types:
            refuse("/stack/transformers", "gemma3 of transformers 5.0 to 5.5 raises in training where no token_type_ids come, as of text alone: 5.6, or 4.57")
        of = dict(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, past_key_values=past_key_values,
                  inputs_embeds=inputs_embeds, use_cache=use_cache)
        if quirks.gemma3_holds_head:
            logits, past_key_values, _held = self.logits_of(logits_to_keep=logits_to_keep, labels=labels, **of)
        else:
            outputs = self.model(**of, **kwargs)
            past_key_values = outputs.past_key_values
            hidden_states = outputs.last_hidden_state
            hidden_states = slice_logits_to_keep(hidden_states, logits_to_keep)
            logits = self.lm_head(hidden_states)
        loss = None
        if labels is not None:
            logits = logits.float()
            loss = loss_of_places(logits, labels, attention_mask, self.config.text_config.vocab_size)
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=past_key_values)
