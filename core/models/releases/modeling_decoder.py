"""What files of decoders have in common, by earlier releases."""
from functools import partial

from transformers.modeling_layers import checkpointing
from transformers.releases import of, quirks

if not quirks.positions_are_added:

    def positions(inputs, seen):
        row = torch.arange(seen, seen + inputs.shape[1], device=inputs.device)
        return row.unsqueeze(0)


if not quirks.mask_by_position or not quirks.cache_in_training:
    begin_later = begin

    def begin(model, input_ids, attention_mask, position_ids, past_key_values, inputs_embeds, use_cache, create_mask=create_causal_mask):
        if not quirks.cache_in_training:
            use_cache = False
        if not quirks.mask_by_position and position_ids is None:
            position_ids = positions(input_ids, 0)
        return begin_later(model, input_ids, attention_mask, position_ids, past_key_values, inputs_embeds, use_cache, create_mask)

if quirks.mask_by_position and quirks.mask_by_cache_position:
    begin_after = begin

    def begin(model, input_ids, attention_mask, position_ids, past_key_values, inputs_embeds, use_cache, create_mask=create_causal_mask):
        """cache_position, which position_ids are a view of where nobody hands them over; forward's frame holds it. generate() hands over its own."""
        if position_ids is None:
            return begin_after(model, input_ids, attention_mask, position_ids, past_key_values, inputs_embeds, use_cache, create_mask)
        row, given = [], past_key_values

        def masks_after(**of):
            row.append(positions(of["inputs_embeds"], 0) if given is None and not hasattr(model, "places_given") else None)
            return create_mask(**of)

        inputs_embeds, past_key_values, position_ids, masks = begin_after(
            model, input_ids, attention_mask, position_ids, past_key_values, inputs_embeds, use_cache, masks_after)
        return inputs_embeds, past_key_values, position_ids, masks + row if isinstance(masks, list) else masks


if quirks.layers_return_tuples or not quirks.gemma2_embedding_scales or quirks.mask_by_cache_position:

    of_decoder = Decoder.__init__

    @of(Decoder)
    def __init__(self, config):
        of_decoder(self, config)
        if not quirks.rope_once:  # each attention makes its tables
            del self.rotary_emb

    Decoder.checkpoints = not quirks.checkpoint_keywords  # else the layer does

    def call(layer, hidden_states, attention_mask, position_ids, past_key_values, use_cache, position_embeddings, *beside):
        return layer(hidden_states, attention_mask=attention_mask, position_ids=position_ids, past_key_values=past_key_values, use_cache=use_cache,
                     position_embeddings=position_embeddings)

    @of(Decoder)
    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, inputs_embeds=None, use_cache=None,
                **kwargs):
        """What a layer returned, a tuple, holds its hidden states until the next one returns."""
        row = 1 if quirks.mask_by_position and quirks.mask_by_cache_position and position_ids is not None else 0
        inputs_embeds, past_key_values, position_ids, masks = begin(
            self, input_ids, attention_mask, position_ids, past_key_values, inputs_embeds, use_cache, self.masks)
        inputs_embeds = self.embedded(inputs_embeds)
        hidden_states = self.start(inputs_embeds)
        tables = self.tables(hidden_states, position_ids) if quirks.rope_once else [None] * len(self.layers)
        handed = self.handed(position_ids)
        hidden_states = self.normalized(hidden_states)
        beside = masks[len(masks) - row :] + tables[len(self.layers) :]  # what layers are handed and do not take: cache_position, the other kind's tables
        if beside:
            kwargs["beside"] = beside
        for layer, mask, turn in zip(self.layers, masks, tables):
            if self.gradient_checkpointing and self.training and self.checkpoints:
                outputs = checkpointing(self, layer)(partial(call, layer), hidden_states, mask, handed, past_key_values, use_cache, turn, *beside)
            else:
                outputs = layer(
                    hidden_states, attention_mask=mask, position_embeddings=turn, position_ids=handed,
                    past_key_values=past_key_values, use_cache=use_cache, **kwargs)
            hidden_states = outputs
            if not quirks.layers_return_tuples:
                del outputs
        hidden_states = self.last_norm()(hidden_states)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states, past_key_values=past_key_values)


if not quirks.scale_is_buffer:

    @of(ScaledEmbedding)
    def __init__(self, rows, width, padding_idx, scale):
        nn.Embedding.__init__(self, rows, width, padding_idx)
        self.embed_scale = scale

    @of(ScaledEmbedding)
    def forward(self, input_ids):
        return nn.Embedding.forward(self, input_ids) * self.embed_scale


if not quirks.loss_by_function:
    CausalLM.upcasts = True

    def shifted_loss(logits, labels, vocab_size):
        """And what the caller's forward holds to its end."""
        shift_logits = logits[..., :-1, :].contiguous()
        shift_labels = labels[..., 1:].contiguous()
        shift_logits = shift_logits.view(-1, vocab_size)
        shift_labels = shift_labels.view(-1)
        return nn.functional.cross_entropy(shift_logits, shift_labels), shift_logits, shift_labels

    @of(CausalLM)
    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, inputs_embeds=None, labels=None, use_cache=None,
                logits_to_keep=0, **kwargs):
        outputs = getattr(self, self.base_model_prefix)(
            input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, past_key_values=past_key_values,
            inputs_embeds=inputs_embeds, use_cache=use_cache)
        hidden_states = outputs.last_hidden_state
        logits = self.logits(slice_logits_to_keep(hidden_states, logits_to_keep))
        if self.upcasts:
            logits = logits.float()
        loss = None
        if labels is not None:
            loss, shift_logits, shift_labels = shifted_loss(logits, labels, self.config.vocab_size)
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=outputs.past_key_values)


if not quirks.hands_on_router_logits:

    def handed_on(result, outputs):
        return result
