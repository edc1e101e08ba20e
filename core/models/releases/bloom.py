"""bloom by earlier releases."""
from transformers.modeling_gpt import drops_weights, mask_for_kernel, places_of, run_layer
from transformers.releases import of, quirks

if not quirks.loss_by_function:
    BloomForCausalLM.refuses_items = (
        "BloomForCausalLM.forward of this transformers release raises on num_items_in_batch, which its Trainer hands over "
        "(modeling_bloom.py: Got unexpected arguments)")

if not quirks.bloom_trains_with_cache:

    @of(BloomAttention)
    def forward(self, hidden_states, residual, alibi, attention_mask, past_key_values=None, cache_position=None):
        """The mask fills scores; keys are laid out as they are multiplied, and cached so."""
        batch, length, _ = hidden_states.shape
        rows, head_dim = batch * self.heads[0], self.heads[1]
        fused = self.query_key_value(hidden_states)
        parts = fused.view(batch, length, self.heads[0], 3, head_dim)
        q, k, v = parts[..., 0, :], parts[..., 1, :], parts[..., 2, :]
        q = q.transpose(1, 2).reshape(rows, length, head_dim)
        if quirks.bloom_length_on_device:
            k = k.transpose(1, 2).reshape(rows, length, head_dim).transpose(-1, -2)
            v = v.transpose(1, 2).reshape(rows, length, head_dim)
            kv_length = cache_position[0, -1] + 1
        else:
            k = k.permute(0, 2, 3, 1).reshape(rows, head_dim, length)
            v = v.transpose(1, 2).reshape(rows, length, head_dim)
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, self.layer_idx)
        product = alibi.baddbmm(batch1=q, batch2=k, beta=1.0, alpha=self.inv_norm_factor)
        scores = product.view(batch, self.heads[0], length, length)
        dtype = scores.dtype
        if quirks.bloom_cache_class:
            weights = scores + attention_mask
        else:
            if dtype == torch.float16:
                scores = scores.to(torch.float)
            weights = torch.masked_fill(scores, attention_mask, torch.finfo(scores.dtype).min)
        probs = F.softmax(weights, dim=-1, dtype=torch.float32).to(dtype)
        probs = self.attention_dropout(probs)
        context = torch.bmm(probs.view(rows, length, -1), v)
        context = context.view(batch, self.heads[0], length, -1).permute(0, 2, 1, 3).reshape(hidden_states.shape)
        output = self.dense(context)
        output = dropout_add(output, residual, self.hidden_dropout, self.training)
        return output, None

elif not quirks.gpt_return_weights:
    drops_weights(BloomAttention)


if not quirks.bloom_alibi_of_length:

    @of(BloomModel)
    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, past_key_values=None, attention_mask=None, inputs_embeds=None, use_cache=None, **kwargs):
        """Ones stand for a mask that is left out"""
        use_cache = use_cache and (quirks.bloom_trains_with_cache or not quirks.bloom_cache_class)
        inputs_embeds, past_key_values, seen = look_up(self, input_ids, inputs_embeds, past_key_values, use_cache)
        position = places_of(self, inputs_embeds, seen) if quirks.bloom_cache_class and quirks.gpt_all_cache_position else None
        hidden_states = self.word_embeddings_layernorm(inputs_embeds)
        if attention_mask is None:
            attention_mask = torch.ones(inputs_embeds.shape[:2], device=inputs_embeds.device)
        alibi = build_alibi_tensor(attention_mask, self.config.n_head, dtype=hidden_states.dtype)
        mask = (create_causal_mask if quirks.bloom_cache_class else mask_for_kernel)(
            config=self.config, inputs_embeds=inputs_embeds, attention_mask=attention_mask, past_key_values=past_key_values,
            position_ids=None if quirks.gpt_create_mask else position)
        if not quirks.bloom_cache_class:
            mask = mask.bool()
        for block in self.h:
            outputs = run_layer(self, block, hidden_states, alibi=alibi, attention_mask=mask, past_key_values=past_key_values,
                                cache_position=position)
            hidden_states = outputs[0]
        hidden_states = self.ln_f(hidden_states)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states, past_key_values=past_key_values)
