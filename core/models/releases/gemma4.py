"""gemma4 of transformers 5.5: its class computes the loss, of the places that are not padding, and takes the count of labels unused."""
from transformers.modeling_composite import loss_of_places
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.modeling_utils import slice_logits_to_keep
from transformers.releases import of, quirks

if not quirks.gemma4_calls_loss_function:
    Gemma4ForConditionalGeneration.items_are_not_taken = False

    @of(Gemma4ForConditionalGeneration)
    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, inputs_embeds=None, labels=None, use_cache=None,
                logits_to_keep=0, **kwargs):
        outputs = self.model(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, past_key_values=past_key_values,
                             inputs_embeds=inputs_embeds, use_cache=use_cache, **kwargs)
        hidden_states = outputs.last_hidden_state
        logits = self.logits(slice_logits_to_keep(hidden_states, logits_to_keep))
        loss = None
        if labels is not None:
            logits = logits.float()
            loss = loss_of_places(logits, labels, attention_mask, self.config.text_config.vocab_size)
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=outputs.past_key_values)
