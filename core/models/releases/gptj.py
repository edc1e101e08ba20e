"""gptj, and what codegen has from it, by earlier releases."""
from transformers.masking_utils import create_causal_mask
from transformers.modeling_decoder import look_up, positions
from transformers.modeling_gpt import drops_weights, keeps_causal_buffer, padding_to_add, places_of, run_layer
from transformers.releases import of, quirks, refuse

GPTJForCausalLM.casts = bool(quirks.gpt_cast_logits), False

if quirks.gptj_plain_tensors:
    attention_of_buffers = GPTJAttention.__init__

    @of(GPTJAttention)
    def __init__(self, config, layer_idx=None):
        attention_of_buffers(self, config, layer_idx)
        del self.embed_positions

    @of(GPTJAttention)
    def table(self):
        return self.plain(f"embed_positions_{self.layer_idx}")

    @of(GPTJAttention)
    def scaled(self, weights):
        return weights / self.plain(f"scale_attn_{self.layer_idx}")

    @of(GPTJForCausalLM)
    def __init__(self, config):
        """Tensors that are attributes alone follow the model to the device after every module of it."""
        CausalLM.__init__(self, config)
        for i, block in enumerate(self.transformer.h):
            self.register_buffer(f"scale_attn_{i}", torch.tensor(block.attn.scale_attn), persistent=False)
            table = create_sinusoidal_positions(config.max_position_embeddings, config.rotary_dim or config.hidden_size)
            self.register_buffer(f"embed_positions_{i}", table, persistent=False)
            block.attn.plain = lambda name: getattr(self, name)


if not quirks.gptj_rotates_in_dtype:

    @of(GPTJAttention)
    def rows_of_table(self, position_ids, dtype):
        table = self.table().repeat(position_ids.shape[0], 1, 1)
        rows = position_ids.unsqueeze(-1).repeat(1, 1, table.shape[-1])
        return torch.gather(table, 1, rows), (table, rows)


if not quirks.gptj_cache_class:
    attention_of_caches = GPTJAttention.__init__

    @of(GPTJAttention)
    def causal_buffers(self, length):
        keeps_causal_buffer(self, "bias", length, torch.tensor(-1e9, dtype=torch.float32))

    @of(GPTJAttention)
    def __init__(self, config, layer_idx=None):
        attention_of_caches(self, config, layer_idx)
        self.causal_buffers(config.max_position_embeddings)

    @of(GPTJAttention)
    def cached(self, past_key_values, key, value, like):
        if past_key_values.get_seq_length(self.layer_idx):
            refuse("/stack/transformers", "this class keeps a tuple of keys and values in this release: its generate() is not modelled yet")
        kept = key.to(like.dtype)
        past_key_values.update(kept, value, self.layer_idx)
        return key, value, kept

    @of(GPTJAttention)
    def _attn(self, query, key, value, attention_mask=None):
        length = query.size(-2)
        causal = self.bias[:, :, :length, :length]
        query = query.to(torch.float32)
        key = key.to(torch.float32)
        weights = torch.matmul(query, key.transpose(-1, -2))
        least = torch.tensor(torch.finfo(weights.dtype).min, dtype=weights.dtype, device=weights.device)
        weights = torch.where(causal, weights, least)
        weights = self.scaled(weights)
        if attention_mask is not None:
            weights = weights + attention_mask
        weights = nn.functional.softmax(weights, dim=-1)
        weights = weights.to(value.dtype)
        weights = self.attn_dropout(weights)
        return torch.matmul(weights, value), weights


if not quirks.gpt_return_weights:
    drops_weights(GPTJAttention)

if not quirks.checkpoint_keywords:

    @of(GPTJModel)
    def forward(self, input_ids=None, past_key_values=None, attention_mask=None, position_ids=None, inputs_embeds=None, use_cache=None, **kwargs):
        by_position = quirks.gptj_cache_class
        if not by_position:
            position_ids = positions(input_ids, 0)
            mask = attention_mask
            if mask is not None and self.config._attn_implementation != "flash_attention_2":
                mask = padding_to_add(attention_mask, self.dtype)
        inputs_embeds, past_key_values, seen = look_up(self, input_ids, inputs_embeds, past_key_values, use_cache)
        if by_position:
            row = places_of(self, inputs_embeds, seen)
            position_ids = row if position_ids is None else position_ids
            mask = create_causal_mask(config=self.config, inputs_embeds=inputs_embeds, attention_mask=attention_mask,
                                      past_key_values=past_key_values, position_ids=row)
        hidden_states = self.drop(inputs_embeds)
        for block in self.h:
            outputs = run_layer(self, block, hidden_states, past_key_values=past_key_values, attention_mask=mask, position_ids=position_ids)
            hidden_states = outputs[0]
        hidden_states = self.ln_f(hidden_states)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states.view(inputs_embeds.shape), past_key_values=past_key_values)

    GPTJModel.forward = merge_with_config_defaults(GPTJModel.forward)
