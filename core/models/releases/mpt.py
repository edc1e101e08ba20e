"""mpt by earlier releases."""
from transformers.modeling_gpt import run_layer
from transformers.releases import of, quirks, refuse

if not quirks.mpt_clips:

    unclipped = MptAttention.__init__

    @of(MptAttention)
    def __init__(self, config, layer_idx=None):
        unclipped(self, config, layer_idx)
        self.clip_qkv = None

if not quirks.mpt_cache_class:

    @of(MptAttention)
    def forward(self, hidden_states, position_bias, past_key_values=None, attention_mask=None):
        """Keys and values are a pair that goes on to the layer; of queries it counts twice as many"""
        batch, length = hidden_states.shape[:2]
        mixed_qkv = self.Wqkv(hidden_states)
        if self.clip_qkv:
            mixed_qkv = mixed_qkv.clamp(min=-self.clip_qkv, max=self.clip_qkv)
        query, key, value = mixed_qkv.chunk(3, dim=2)
        query = query.reshape(batch, length, self.n_heads, self.head_dim).transpose(1, 2)
        key = key.reshape(batch, length, self.n_heads, self.head_dim).transpose(1, 2)
        value = value.reshape(batch, length, self.n_heads, self.head_dim).transpose(1, 2)
        pair = (key, value)
        scores = torch.matmul(query, key.transpose(-1, -2)) * self.softmax_scale
        query_length = length + pair[0].shape[2]
        first_query, first_key = max(0, position_bias.size(1) - query_length), max(0, position_bias.size(2) - key.shape[-2])
        position_bias = position_bias[:, first_query:, first_key:]
        scores = scores + position_bias
        if attention_mask is not None:
            scores = scores.masked_fill(attention_mask, torch.finfo(query.dtype).min)
        weights = F.softmax(scores.float(), dim=-1).to(value.dtype)
        weights = F.dropout(weights, p=self.attn_dropout_p, training=self.training)
        context = torch.matmul(weights, value)
        context = context.permute(0, 2, 1, 3).contiguous().view(batch, length, -1)
        output = self.out_proj(context)
        return output, weights, pair

    @of(MptBlock)
    def forward(self, hidden_states, position_bias, attention_mask, layer_past=None, use_cache=False, **kwargs):
        layernorm_output = self.norm_1(hidden_states)
        residual = hidden_states
        attn_outputs, attn_weights, pair = self.attn(layernorm_output, position_bias=position_bias, attention_mask=attention_mask)
        hidden_states = self.resid_attn_dropout(attn_outputs) + residual
        layernorm_output = self.norm_2(hidden_states)
        residual = hidden_states
        output = self.ffn(layernorm_output, residual)
        return (output, pair) if use_cache else (output,)


if not quirks.masks_by_utils:

    @of(MptModel)
    def forward(self, input_ids=None, past_key_values=None, attention_mask=None, inputs_embeds=None, use_cache=None, **kwargs):
        """Ones stand for a mask that is left out"""
        use_cache = use_cache if use_cache is not None else self.config.use_cache
        if self.gradient_checkpointing and self.training:
            use_cache = False
        if past_key_values is not None and not quirks.mpt_cache_class:
            refuse("/stack/transformers", "mpt of this release keeps a tuple of keys and values: its generate() is not modelled yet")
        inputs_embeds, past_key_values, seen = look_up(self, input_ids, inputs_embeds, past_key_values, use_cache and quirks.mpt_cache_class)
        hidden_states, presents = inputs_embeds, ()
        if attention_mask is None:
            attention_mask = torch.ones(inputs_embeds.shape[:2], device=hidden_states.device)
        alibi = build_mpt_alibi_tensor(self.config.n_heads, self.config.max_seq_len, device=hidden_states.device)
        causal_mask = create_causal_mask(config=self.config, inputs_embeds=inputs_embeds, attention_mask=attention_mask,
                                         past_key_values=past_key_values)
        causal_mask = causal_mask.bool()
        for block in self.blocks:
            outputs = run_layer(self, block, hidden_states, position_bias=alibi, attention_mask=causal_mask, layer_past=past_key_values,
                                use_cache=use_cache)
            hidden_states = outputs[0]
            if use_cache and not quirks.mpt_cache_class:
                presents = presents + (outputs[1],)
        hidden_states = self.norm_f(hidden_states)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states, past_key_values=past_key_values if quirks.mpt_cache_class else presents)
