"""opt by earlier releases; its layer: modeling_bart.py."""
from transformers.modeling_bart import positions_of
from transformers.modeling_gpt import mask_for_kernel, places_of, run_layer
from transformers.releases import of, quirks

OPTForCausalLM._supports_sdpa = bool(quirks.opt_sdpa)


if not quirks.opt_ones_for_positions:

    @of(OPTDecoder)
    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, attention_mask=None, past_key_values=None, inputs_embeds=None, use_cache=None, position_ids=None, **kwargs):
        """Ones stand for a mask that is left out"""
        inputs_embeds, past_key_values, seen = look_up(self, input_ids, inputs_embeds, past_key_values, use_cache)
        position = places_of(self, inputs_embeds, seen) if quirks.opt_cache_class and quirks.gpt_all_cache_position else None
        if attention_mask is None:
            attention_mask = torch.ones(inputs_embeds.shape[0], seen + inputs_embeds.shape[1], device=inputs_embeds.device)
        if quirks.gpt_create_mask and position_ids is None:
            position_ids = positions_of(attention_mask)
        mask = (create_causal_mask if quirks.opt_cache_class else mask_for_kernel)(
            config=self.config, inputs_embeds=inputs_embeds, attention_mask=attention_mask, past_key_values=past_key_values,
            position_ids=None if quirks.gpt_create_mask else position)
        if not quirks.gpt_create_mask and quirks.opt_sdpa and position_ids is None:
            position_ids = positions_of(attention_mask)
        if position_ids is not None and seen and position_ids.shape[1] > input_ids.shape[1]:
            position_ids = position_ids[:, seen:]
        places = self.embed_positions(position_ids) if quirks.opt_sdpa else self.embed_positions(None, attention_mask, seen)
        if self.project_in is not None:
            inputs_embeds = self.project_in(inputs_embeds)
        hidden_states = inputs_embeds + places
        for layer in self.layers:
            outputs = run_layer(self, layer, hidden_states, attention_mask=mask, position_ids=position_ids, past_key_values=past_key_values,
                                use_cache=use_cache, cache_position=position)
            hidden_states = outputs
            if quirks.opt_returns_weights:
                del outputs  # no tuple, which held it until the next
        if self.final_layer_norm is not None:
            hidden_states = self.final_layer_norm(hidden_states)
        if self.project_out is not None:
            hidden_states = self.project_out(hidden_states)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states, past_key_values=past_key_values)
