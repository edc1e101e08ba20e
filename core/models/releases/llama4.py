"""llama4 by earlier releases: its class computes the loss, of the places that are not padding."""
from torch import nn

from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.releases import of, quirks, refuse

if quirks.llama4_wants_pad_token:
    of_class = Llama4ForConditionalGeneration.__init__

    @of(Llama4ForConditionalGeneration)
    def __init__(self, config):
        if "pad_token_id" not in config.__dict__:  # that of text is none of its own
            refuse("/config/pad_token_id", "Llama4ForConditionalGeneration of transformers 5.0 and 5.1 raises without it: 5.2, or 4.57")
        of_class(self, config)


if not quirks.llama4_calls_loss_function:

    @of(Llama4ForConditionalGeneration)
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
            if attention_mask is not None:
                shift_mask = attention_mask[:, -(logits.shape[1] - 1) :].to(logits.device)
                shift_logits = logits[..., :-1, :][shift_mask != 0].contiguous()
                shift_labels = labels[..., 1:][shift_mask != 0].contiguous()
            else:
                shift_logits = logits[..., :-1, :].contiguous()
                shift_labels = labels[..., 1:].contiguous()
            loss = nn.functional.cross_entropy(shift_logits.view(-1, shift_logits.size(-1)), shift_labels.view(-1))
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=outputs.past_key_values)
