"""xglm by earlier releases."""
from transformers.modeling_gpt import run_layer
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.releases import of, quirks, refuse
from transformers.utils.generic import can_return_tuple


def places(inputs, seen):
    row = torch.arange(seen, seen + inputs.shape[1], device=inputs.device)
    return row.unsqueeze(0)


if quirks.xglm_offset_in_place:

    @of(XGLMSinusoidalPositionalEmbedding)
    @torch.no_grad()
    def forward(self, position_ids, seen=0):
        batch, seq = position_ids.shape
        position_ids += self.offset
        if 2 + seq + seen > self.weights.shape[0]:
            self.make_weights(2 + seq + seen, self.weights.shape[1])
        return self.weights.index_select(0, position_ids.view(-1)).view(batch, seq, self.weights.shape[-1]).detach()


if not quirks.xglm_cache_class:

    @of(XGLMAttention)
    def heads(self, x):
        return x.view(*x.shape[:2], -1, self.head_dim).transpose(1, 2).contiguous()

    @of(XGLMAttention)
    def project(self, hidden_states):
        query = self.q_proj(hidden_states) * self.scaling
        key = self.heads(self.k_proj(hidden_states))
        value = self.heads(self.v_proj(hidden_states))
        return query, key, value

if not quirks.xglm_returns_weights:

    @of(XGLMAttention)
    def beside(self, weights, key, value):
        """Keys and values go on to the layer until there is a cache class"""
        return None if quirks.xglm_cache_class else (key, value)

    @of(XGLMModel)
    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, inputs_embeds=None, use_cache=None, **kwargs):
        """What a layer returned, a tuple, holds its hidden states until the next one returns"""
        if not quirks.xglm_cache_class and position_ids is None:
            position_ids = places(input_ids, past_key_values.get_seq_length() if past_key_values is not None else 0)
        inputs_embeds, past_key_values, seen = look_up(self, input_ids, inputs_embeds, past_key_values, use_cache)
        if seen and not quirks.xglm_cache_class:
            refuse("/stack/transformers", "this class keeps a tuple of keys and values in this release: its generate() is not modelled yet")
        cache_position = torch.arange(seen, seen + inputs_embeds.shape[1], device=inputs_embeds.device) if quirks.masks_by_utils else None
        attention_mask = create_causal_mask(config=self.config, inputs_embeds=inputs_embeds, attention_mask=attention_mask,
                                            past_key_values=past_key_values)
        if position_ids is None:
            position_ids = places(inputs_embeds, seen)
        hidden_states = inputs_embeds + self.embed_positions(position_ids, seen)
        hidden_states = nn.functional.dropout(hidden_states, p=self.dropout, training=self.training)
        for layer in self.layers:
            if quirks.checkpoint_keywords:
                outputs = layer(hidden_states, attention_mask, past_key_values=past_key_values, use_cache=use_cache)
            else:
                outputs = run_layer(self, layer, hidden_states, attention_mask=attention_mask, past_key_values=past_key_values, use_cache=use_cache)
            hidden_states = outputs
        hidden_states = self.layer_norm(hidden_states)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states, past_key_values=past_key_values)


if quirks.xglm_shifts_labels:

    def shifted(labels, padding):
        shift_labels = labels.new_zeros(labels.shape)
        shift_labels[:, :-1] = labels[:, 1:].clone()
        shift_labels[:, -1] = padding
        return shift_labels

    def xglm_cross_entropy_loss(logits, labels, padding, num_items_in_batch=None):
        shift_labels = shifted(labels, padding)
        labels = labels.float()
        logits = logits.view(-1, logits.shape[-1]).float()
        shift_labels = shift_labels.view(-1)
        loss = nn.functional.cross_entropy(logits, shift_labels, reduction="sum" if num_items_in_batch is not None else "mean")
        if num_items_in_batch is not None:
            loss = loss / num_items_in_batch
        return loss

    @of(XGLMForCausalLM)
    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, inputs_embeds=None, labels=None, use_cache=None,
                num_items_in_batch=None, **kwargs):
        """The last label is the padding token"""
        outputs = self.model(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, past_key_values=past_key_values,
                             inputs_embeds=inputs_embeds, use_cache=use_cache)
        logits = self.lm_head(outputs.last_hidden_state)
        loss = None
        if labels is not None and quirks.loss_by_function:
            loss = xglm_cross_entropy_loss(logits, labels, self.config.pad_token_id, num_items_in_batch)
        elif labels is not None:
            shift_labels = shifted(labels, self.config.pad_token_id)
            loss = nn.functional.cross_entropy(logits.view(-1, self.config.vocab_size), shift_labels.view(-1))
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=outputs.past_key_values)
