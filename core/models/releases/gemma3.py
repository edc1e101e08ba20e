"""gemma3 by earlier releases: its class computes the loss, of the places that are not padding."""
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.modeling_utils import slice_logits_to_keep
from transformers.releases import of, quirks, refuse

if not quirks.gemma3_calls_loss_function:
    Gemma3ForConditionalGeneration.items_are_not_taken = bool(quirks.gemma3_takes_no_count)

    @of(Gemma3ForConditionalGeneration)
    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, inputs_embeds=None, labels=None, use_cache=None,
                logits_to_keep=0, **kwargs):
        if self.training and quirks.gemma3_wants_token_types:
            refuse("/stack/transformers", "gemma3 of transformers 5.0 to 5.5 raises in training where no token_type_ids come, as of text alone: 5.6, or 4.57")
        outputs = self.model(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, past_key_values=past_key_values,
                             inputs_embeds=inputs_embeds, use_cache=use_cache, **kwargs)
        hidden_states = outputs.last_hidden_state
        hidden_states = slice_logits_to_keep(hidden_states, logits_to_keep)
        logits = self.lm_head(hidden_states)
        loss = None
        if labels is not None:
            logits = logits.float()
            shift_logits = logits[..., :-1, :]
            shift_labels = labels[..., 1:]
            if attention_mask is not None:
                shift_mask = attention_mask[:, -shift_logits.shape[1] :].to(logits.device)
                shift_logits = shift_logits[shift_mask != 0].contiguous()
                shift_labels = shift_labels[shift_mask != 0].contiguous()
            else:
                shift_logits = shift_logits.contiguous()
                shift_labels = shift_labels.contiguous()
            flat_logits = shift_logits.view(-1, self.config.text_config.vocab_size)
            flat_labels = shift_labels.view(-1)
            loss = nn.functional.cross_entropy(flat_logits, flat_labels)
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=outputs.past_key_values)
