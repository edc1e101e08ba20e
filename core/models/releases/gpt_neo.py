"""gpt_neo by earlier releases."""
from transformers.masking_utils import create_causal_mask
from transformers.modeling_decoder import look_up, positions
from transformers.modeling_gpt import drops_weights, mask_for_kernel, places_of, run_layer
from transformers.releases import of, quirks, refuse

GPTNeoForCausalLM.casts = bool(quirks.gpt_cast_logits), bool(quirks.gpt_cast_logits)

if quirks.gpt_masked_bias:
    attention_without_buffers = GPTNeoSelfAttention.__init__

    @of(GPTNeoSelfAttention)
    def __init__(self, config, attention_type, layer_id=None):
        attention_without_buffers(self, config, attention_type, layer_id)
        self.register_buffer("masked_bias", torch.tensor(-1e9), persistent=False)


if quirks.gpt_neo_flash_cuts_mask:
    attention_without_cut = GPTNeoSelfAttention.forward

    @of(GPTNeoSelfAttention)
    def forward(self, hidden_states, attention_mask=None, past_key_values=None):
        if attention_mask is not None and self.config._attn_implementation == "flash_attention_2":
            refuse("/training/attention",
                   "GPTNeoFlashAttention2 of this transformers release raises on a padded batch: it slices the 2-D mask by four dimensions")
        return attention_without_cut(self, hidden_states, attention_mask, past_key_values)


if not quirks.gpt_return_weights:
    drops_weights(GPTNeoSelfAttention)

    @of(GPTNeoBlock)
    def result(self, hidden_states, weights):
        return (hidden_states,)


if quirks.gpt_all_cache_position:

    @of(GPTNeoModel)
    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, past_key_values=None, attention_mask=None, position_ids=None, inputs_embeds=None, use_cache=None, **kwargs):
        by_position = quirks.gpt_neo_cache_class
        if not by_position:
            position_ids = positions(input_ids, 0)
        inputs_embeds, past_key_values, seen = look_up(self, input_ids, inputs_embeds, past_key_values, use_cache)
        if by_position:
            row = places_of(self, inputs_embeds, seen)
            position_ids = row if position_ids is None else position_ids
        of = {"config": self.config, "inputs_embeds": inputs_embeds, "attention_mask": attention_mask, "past_key_values": past_key_values,
              "position_ids": row if by_position else position_ids}
        mask = create_causal_mask(**of) if by_position else None
        places = self.wpe(position_ids)
        hidden_states = inputs_embeds + places
        if not by_position:
            mask = mask_for_kernel(**of)
        hidden_states = self.drop(hidden_states)
        for block in self.h:
            outputs = run_layer(self, block, hidden_states, past_key_values=past_key_values, attention_mask=mask, use_cache=use_cache,
                                cache_position=row if by_position else None)
            hidden_states = outputs[0]
        hidden_states = self.ln_f(hidden_states)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states.view(inputs_embeds.shape), past_key_values=past_key_values)
