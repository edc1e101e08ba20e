"""qwen2_vl before 5.17: each layer puts the tables of three grids together; before 5.2 text asks for their index, before 4.56 its loss takes no count."""
from transformers.modeling_rope_utils import rotate_half
from transformers.releases import of, quirks

if not quirks.grids_recomposed:

    @of(Qwen2VLRotaryEmbedding)
    def interleaved(self, freqs):
        return freqs

    @of(Qwen2VLAttention)
    def rotate(self, q, k, cos, sin):
        sections = self.config.rope_parameters["mrope_section"] * 2
        cos = torch.cat([part[i % 3] for i, part in enumerate(cos.split(sections, dim=-1))], dim=-1).unsqueeze(1)
        sin = torch.cat([part[i % 3] for i, part in enumerate(sin.split(sections, dim=-1))], dim=-1).unsqueeze(1)
        q_turned = (q * cos) + (rotate_half(q) * sin)
        k_turned = (k * cos) + (rotate_half(k) * sin)
        return q_turned, k_turned

if quirks.text_asks_rope_index:
    from transformers.modeling_composite import asks_rope_index, sees_positions

    asks_rope_index(Qwen2VLModel)
    if quirks.grids_show_positions:
        sees_positions(Qwen2VLTextModel)

if quirks.rope_in_attention:
    Qwen2VLAttention.rotary = Qwen2VLRotaryEmbedding

if not quirks.grids_hand_loss_items:
    from transformers.loss.loss_utils import LOSS_MAPPING

    @of(Qwen2VLForConditionalGeneration)
    def loss_function(self, num_items_in_batch=None, **given):
        return LOSS_MAPPING[self.loss_type](**given)

if not quirks.interface_attention:

    @of(Qwen2VLAttention)
    def masked(self, scores, attention_mask):
        scores = scores + attention_mask
        if scores.dtype == torch.float16:
            scores = torch.where(torch.isinf(scores), torch.zeros_like(scores), scores)
        return scores

if not quirks.loss_by_function:
    from transformers.modeling_composite import rope_index
    from transformers.modeling_decoder import CausalLMOutputWithPast, can_return_tuple, shifted_loss

    @of(Qwen2VLForConditionalGeneration)
    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, inputs_embeds=None, labels=None, use_cache=None, **kwargs):
        """There is no model between: what the text is handed stays to the loss."""
        if inputs_embeds is None:
            inputs_embeds = self.get_input_embeddings()(input_ids)
        if position_ids is None:
            position_ids, rope_deltas = rope_index(input_ids, attention_mask)
            self.rope_deltas = rope_deltas
        outputs = self.model.language_model(input_ids=None, position_ids=position_ids, attention_mask=attention_mask, past_key_values=past_key_values,
                                            inputs_embeds=inputs_embeds, use_cache=use_cache)
        hidden_states = outputs.last_hidden_state
        logits = self.lm_head(hidden_states)
        loss = None
        if labels is not None:
            logits = logits.float()
            loss, shift_logits, shift_labels = shifted_loss(logits, labels, self.text_of(self.config).vocab_size)
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=outputs.past_key_values)
