"""biogpt by earlier releases; its layer: modeling_bart.py."""
from transformers.modeling_bart import positions_of
from transformers.modeling_decoder import positions
from transformers.modeling_gpt import run_layer
from transformers.releases import of, quirks

BioGptForCausalLM._supports_sdpa = bool(quirks.biogpt_sdpa)

if not quirks.opt_interface:
    BioGptAttention.clamps = False

if not quirks.loss_by_function:
    BioGptForCausalLM.shift = staticmethod(lambda logits: logits[:, :-1, :])

if not quirks.biogpt_scales_in_module:

    @of(BioGptScaledWordEmbedding)
    def forward(self, input_ids):
        return nn.Embedding.forward(self, input_ids)


if quirks.biogpt_layer_in_tuple:

    @of(BioGptModel)
    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, attention_mask=None, inputs_embeds=None, past_key_values=None, use_cache=None, position_ids=None, **kwargs):
        by_position = quirks.opt_cache_class
        inputs_embeds, past_key_values, seen = look_up(self, input_ids, inputs_embeds, past_key_values, use_cache)
        if not quirks.biogpt_scales_in_module:
            inputs_embeds = inputs_embeds * self.embed_tokens.embed_scale
        if attention_mask is None:
            attention_mask = torch.ones(inputs_embeds.shape[:2], dtype=torch.float32 if by_position else torch.bool, device=inputs_embeds.device)
        position = positions(inputs_embeds, seen) if by_position else None
        if not by_position:
            places = self.embed_positions(None, attention_mask)
        mask = create_causal_mask(config=self.config, inputs_embeds=inputs_embeds, attention_mask=attention_mask, past_key_values=past_key_values,
                                  position_ids=None if quirks.biogpt_create_mask else position)
        if by_position:
            position_ids = positions_of(attention_mask) if quirks.biogpt_positions_of_mask else position
            places = self.embed_positions(position_ids)
        if not quirks.opt_interface:
            position_ids = None  # the name is bound anew
        if not by_position:
            attention_mask = None
        hidden_states = inputs_embeds + places
        hidden_states = nn.functional.dropout(hidden_states, p=self.dropout, training=self.training)
        for layer in self.layers:
            outputs = run_layer(self, layer, hidden_states, attention_mask=mask, past_key_values=past_key_values, position_ids=position_ids,
                                cache_position=position)
            hidden_states = outputs  # a tuple's, which holds it until the next
        hidden_states = self.layer_norm(hidden_states)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states, past_key_values=past_key_values)
