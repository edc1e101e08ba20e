"""falcon by earlier releases: masks that it made itself until 5.2, tables in each attention until 4.45."""
from transformers.modeling_gpt import drops_weights, run_layer
from transformers.releases import of, quirks

FalconForCausalLM.upcasts = False  # the logits, before there was a function for the loss

if not quirks.falcon_counts_norms:
    of_config = FalconConfig.__post_init__

    @of(FalconConfig)
    def __post_init__(self, **kwargs):
        of_config(self, **kwargs)
        self.num_ln_in_parallel_attn = 2 if self.new_decoder_architecture else None
        self.parallel_attn = self.parallel_attn or self.new_decoder_architecture  # two norms either way


if quirks.rope_in_attention:
    of_attention = FalconAttention.__init__
    FalconAttention.rotary = RotaryEmbedding

    @of(FalconAttention)
    def __init__(self, config, layer_idx=None):
        of_attention(self, config, layer_idx)
        if not config.alibi:
            self.rotary_emb = self.rotary(config)


if quirks.rope_tables_kept:
    from transformers.models.llama.modeling_llama import ReadTables, turn_at

    FalconAttention.rotary = ReadTables

    @of(FalconAttention)
    def turned(self, q, k, v, position_embeddings, position_ids):
        cos, sin = self.rotary_emb(v, v.shape[-2])
        q, k = turn_at(self, q, k, cos, sin, position_ids)
        return q, k, cos, sin


if not quirks.rope_once:
    of_model = FalconModel.__init__

    @of(FalconModel)
    def __init__(self, config):
        of_model(self, config)
        del self.rotary_emb


if not quirks.falcon_returns_weights:
    drops_weights(FalconAttention)

if quirks.falcon_masks_by_function:
    of_utils = create_causal_mask

    def seen_by_all(b, h, q, kv):
        return torch.ones((), dtype=torch.bool, device=q.device)

    def create_causal_mask(allow_is_causal_skip, **of):
        return of_utils(and_mask_function=seen_by_all, **of)


if not quirks.masks_by_utils:
    from transformers.modeling_attn_mask_utils import NO_WINDOW, flash_mask, is_full, mask_of_positions, to_4d, unmask_unattended

    @of(FalconAttention)
    def laid_out(self, x, attention_mask):
        return x if attention_mask is None else x.contiguous()

    def causal_mask_of(config, inputs_embeds, attention_mask, position, alibi):
        """alibi is part of it for sdpa, and for all once masks are made of positions."""
        kernel, lowest = config._attn_implementation, torch.finfo(inputs_embeds.dtype).min
        batch, seq = inputs_embeds.shape[:2]
        if kernel == "flash_attention_2":
            return flash_mask(attention_mask, False)
        if kernel == "sdpa" and alibi is None and is_full(attention_mask):
            return None
        if quirks.mask_by_position:
            mask, _ = mask_of_positions(inputs_embeds, attention_mask, position, NO_WINDOW, spare=0)
        else:
            mask = to_4d(attention_mask, batch, seq, inputs_embeds.dtype, inputs_embeds.device, None)
        folds = alibi is not None and (kernel == "sdpa" or quirks.mask_by_position)
        if folds:
            alibi = alibi.reshape(batch, -1, *alibi.shape[1:])
            mask = torch.masked_fill(alibi / math.sqrt(config.head_dim), mask < -1, lowest)
        if kernel == "sdpa" and (attention_mask is not None or folds and not quirks.mask_by_position):
            mask = unmask_unattended(mask, lowest)
        return mask

    @of(FalconModel)
    def forward(self, input_ids=None, past_key_values=None, attention_mask=None, position_ids=None, inputs_embeds=None, use_cache=None, **kwargs):
        use_cache = use_cache if use_cache is not None else self.config.use_cache
        if self.gradient_checkpointing and self.training:
            use_cache = False
        inputs_embeds, past_key_values, seen = look_up(self, input_ids, inputs_embeds, past_key_values, use_cache)
        batch, length, _ = inputs_embeds.shape
        alibi = position = None
        if self.config.alibi:
            mask = torch.ones((batch, length + seen), device=inputs_embeds.device, dtype=torch.long) if attention_mask is None else attention_mask
            alibi = build_alibi_tensor(mask, self.config.num_attention_heads, dtype=inputs_embeds.dtype)
        if quirks.mask_by_position or alibi is None:
            position = torch.arange(seen, seen + length, device=inputs_embeds.device)
            position_ids = position.unsqueeze(0) if position_ids is None else position_ids
        causal_mask = causal_mask_of(self.config, inputs_embeds, attention_mask, position, alibi)
        hidden_states = inputs_embeds
        tables = self.rotary_emb(hidden_states, position_ids) if quirks.rope_once else None
        for block in self.h:
            outputs = run_layer(self, block, hidden_states, alibi=alibi, attention_mask=causal_mask, position_ids=position_ids,
                                layer_past=past_key_values, use_cache=use_cache, position_embeddings=tables)
            hidden_states = outputs[0]
        hidden_states = self.ln_f(hidden_states)
        return BaseModelOutputWithPastAndCrossAttentions(last_hidden_state=hidden_states, past_key_values=past_key_values)
