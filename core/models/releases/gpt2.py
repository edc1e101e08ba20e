"""gpt2 by earlier releases."""
from transformers.modeling_decoder import look_up, positions
from transformers.modeling_gpt import keeps_causal_buffer, own_mask, run_layer, sdpa_of_class
from transformers.releases import of, quirks

GPT2PreTrainedModel._supports_sdpa = bool(quirks.gpt2_sdpa)

if quirks.gpt2_causal_buffer:
    attention_without_buffers = GPT2Attention.__init__

    @of(GPT2Attention)
    def __init__(self, config, layer_idx=None):
        attention_without_buffers(self, config, layer_idx)
        keeps_causal_buffer(self, "bias", config.max_position_embeddings, torch.tensor(-1e4) if quirks.gpt_masked_bias else None)


if not quirks.gpt2_scaling_number:

    def mask_causally(module, weights):
        """Beside the weights: what else lives as long as the attention runs."""
        if not quirks.gpt2_causal_buffer:
            return weights, None
        queries, length = weights.shape[-2:]
        least = torch.full([], torch.finfo(weights.dtype).min, dtype=weights.dtype, device=weights.device)
        return torch.where(module.bias[:, :, length - queries:length, :length], weights, least), least

    def eager_attention_forward(module, query, key, value, attention_mask, **kwargs):
        weights = torch.matmul(query, key.transpose(-1, -2))
        if module.config.scale_attn_weights:
            weights = weights / torch.full([], value.size(-1) ** 0.5, dtype=weights.dtype, device=weights.device)
        if getattr(module.config, "scale_attn_by_inverse_layer_idx", False):
            weights = weights / float(module.layer_idx + 1)
        weights, least = mask_causally(module, weights)
        if attention_mask is not None:
            weights = weights + attention_mask
        weights = nn.functional.softmax(weights, dim=-1)
        weights = weights.type(value.dtype)
        weights = module.attn_dropout(weights)
        return torch.matmul(weights, value).transpose(1, 2), weights


if quirks.gpt2_causal_buffer:

    @of(GPT2Attention)
    def upcast_and_reordered(self, query, key, value, attention_mask=None):
        batch, heads, q_length, width, k_length = *query.size(), key.size(-2)
        weights = torch.empty(batch * heads, q_length, k_length, dtype=torch.float32, device=query.device)
        with torch.autocast(query.device.type, enabled=False):
            q, k = query.reshape(-1, q_length, width), key.transpose(-1, -2).reshape(-1, width, k_length)
            weights = torch.baddbmm(weights, q.float(), k.float(), beta=0, alpha=self.scaling).reshape(batch, heads, q_length, k_length)
        weights, least = mask_causally(self, weights)
        if attention_mask is not None:
            weights = weights + attention_mask
        weights = nn.functional.softmax(weights, dim=-1)
        weights = weights.type(value.dtype)
        weights = self.attn_dropout(weights)
        return torch.matmul(weights, value).transpose(1, 2), weights


if not quirks.gpt2_create_mask:

    @of(GPT2Attention)
    def forward(self, hidden_states, past_key_values=None, attention_mask=None, **kwargs):
        """Until 4.47 GPT2Attention, GPT2SdpaAttention, GPT2FlashAttention2"""
        kernel, dropout, kept = self.config._attn_implementation, self.attn_dropout.p if self.training else 0.0, None
        q, k, v = self.c_attn(hidden_states).split(hidden_states.shape[-1], dim=2)
        shape = (*k.shape[:-1], -1, self.head_dim)
        q, k, v = [x.view(shape).transpose(1, 2) for x in (q, k, v)]
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, self.layer_idx)
        if kernel == "eager":
            attend_so = self.upcast_and_reordered if self.config.reorder_and_upcast_attn else partial(eager_attention_forward, self)
            output, kept = attend_so(q, k, v, attention_mask)
        elif kernel == "sdpa" and not quirks.gpt2_attention_functions:
            output = sdpa_of_class(q, k, v, attention_mask, dropout)
        else:
            output, kept = attend(self, q, k, v, attention_mask, None, dropout=dropout)
        output = output.reshape(*output.shape[:-2], -1)
        if kernel == "flash_attention_2" and not quirks.gpt2_attention_functions:
            kept = output
        output = self.c_proj(output)
        return self.resid_dropout(output), kept if quirks.gpt2_cache_class else None


if quirks.gpt2_block_in_tuple:

    @of(GPT2Block)
    def result(self, hidden_states, weights):
        return (hidden_states,)


if quirks.gpt_all_cache_position:

    @of(GPT2Model)
    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, past_key_values=None, attention_mask=None, position_ids=None, inputs_embeds=None, use_cache=None, **kwargs):
        by_position = quirks.gpt2_cache_class
        if by_position:
            inputs_embeds, past_key_values, seen = look_up(self, input_ids, inputs_embeds, past_key_values, use_cache)
            position_ids = positions(inputs_embeds, seen) if position_ids is None else position_ids
        else:
            position_ids = positions(input_ids, 0) if position_ids is None else position_ids
            mask = own_mask(self, attention_mask) if not quirks.gpt2_sdpa else None
            inputs_embeds, past_key_values, seen = look_up(self, input_ids, inputs_embeds, past_key_values, use_cache)
        places = self.wpe(position_ids)
        hidden_states = inputs_embeds + places
        if by_position or (quirks.gpt2_sdpa and self.config._attn_implementation == "sdpa"):
            mask = create_causal_mask(config=self.config, inputs_embeds=inputs_embeds, attention_mask=attention_mask,
                                      past_key_values=past_key_values, position_ids=position_ids)
        elif quirks.gpt2_sdpa:
            mask = own_mask(self, attention_mask)
        hidden_states = self.drop(hidden_states)
        named = {"position_ids": position_ids} if quirks.gpt2_position_keyword else {}
        for block in self.h:
            if quirks.checkpoint_keywords:
                outputs = block(hidden_states, past_key_values, mask, position_ids, use_cache=use_cache, **named, **kwargs)
            else:
                outputs = run_layer(self, block, hidden_states, past_key_values=past_key_values, attention_mask=mask,
                                    cache_position=position_ids if by_position else None)
            hidden_states = outputs[0] if quirks.gpt2_block_in_tuple else outputs
            if not quirks.gpt2_block_in_tuple:
                del outputs
        hidden_states = self.ln_f(hidden_states)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states.view(inputs_embeds.shape), past_key_values=past_key_values)
