"""gpt_neox by earlier releases."""
from transformers.integrations.flash_attention import flash_attention_forward
from transformers.masking_utils import create_causal_mask
from transformers.modeling_decoder import look_up, positions
from transformers.modeling_gpt import keeps_causal_buffer, mask_for_kernel, own_mask, run_layer, sdpa_of_class
from transformers.releases import of, quirks

GPTNeoXForCausalLM._supports_sdpa = bool(quirks.gpt_neox_sdpa)

if quirks.gpt_neox_named_embed_out:
    GPTNeoXForCausalLM.head = "embed_out"
    GPTNeoXForCausalLM._tied_weights_keys = {"embed_out.weight": "gpt_neox.embed_in.weight"}

if not quirks.gpt_neox_interface:
    GPTNeoXForCausalLM.shift = staticmethod(lambda logits: logits[:, :-1, :])

    if not quirks.gpt_neox_cache_class:
        GPTNeoXForCausalLM.position_table = True

        @of(GPTNeoXRotaryEmbedding)
        def keep(self, inv_freq):
            self.register_buffer("inv_freq", inv_freq, persistent=False)
            shape = (self.config.max_position_embeddings, 2 * inv_freq.shape[0])
            self.register_buffer("cos_cached", torch.zeros(shape, dtype=torch.float32), persistent=False)
            self.register_buffer("sin_cached", torch.zeros(shape, dtype=torch.float32), persistent=False)

        GPTNeoXModel.rotary = lambda self, config: None

    else:

        class RotaryOfLayer(GPTNeoXRotaryEmbedding):
            """Nobody reads it any more."""

            def keep(self, inv_freq):
                self.register_buffer("inv_freq", inv_freq, persistent=False)

    @of(GPTNeoXAttention)
    def __init__(self, config, layer_idx=None):
        nn.Module.__init__(self)
        width = config.hidden_size
        self.config, self.layer_idx, self.is_causal = config, layer_idx, True
        self.head_size = width // config.num_attention_heads
        self.scaling = self.head_size**-0.5
        self.rotary_emb = (RotaryOfLayer if quirks.gpt_neox_cache_class else GPTNeoXRotaryEmbedding)(config)
        keeps_causal_buffer(self, "bias", config.max_position_embeddings, torch.tensor(-1e9))
        self.query_key_value = nn.Linear(width, 3 * width, bias=config.attention_bias)
        self.dense = nn.Linear(width, width, bias=config.attention_bias)
        self.attention_dropout = nn.Dropout(config.attention_dropout)

    def turn_part_at(q, k, cos, sin, position_ids):
        turned = cos.shape[-1]
        q_turned, q_rest = q[..., :turned], q[..., turned:]
        k_turned, k_rest = k[..., :turned], k[..., turned:]
        q_out, k_out = apply_rotary_pos_emb(q_turned, k_turned, cos[position_ids], sin[position_ids])
        q_out = torch.cat([q_out, q_rest], dim=-1)
        k_out = torch.cat([k_out, k_rest], dim=-1)
        return q_out, k_out

    @of(GPTNeoXAttention)
    def project(self, x, past_key_values, position_ids, position_embeddings):
        """_attn_projections_and_rope"""
        qkv = self.query_key_value(x)
        qkv = qkv.view(*x.shape[:-1], -1, 3 * self.head_size)
        q = qkv[..., : self.head_size].permute(0, 2, 1, 3)
        k = qkv[..., self.head_size : 2 * self.head_size].permute(0, 2, 1, 3)
        v = qkv[..., 2 * self.head_size :].permute(0, 2, 1, 3)
        if quirks.gpt_neox_cache_class:
            cos, sin = position_embeddings
            q, k = turn_part(q, k, cos, sin)
        else:
            cos, sin = self.rotary_emb.cos_cached[: x.shape[1]], self.rotary_emb.sin_cached[: x.shape[1]]
            q, k = turn_part_at(q, k, cos, sin, position_ids)
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, self.layer_idx)
        return q, k, v

    @of(GPTNeoXAttention)
    def by_operators(self, query, key, value, attention_mask):
        batch, heads, queries, width = query.size()
        length = key.size(-2)
        query = query.view(batch * heads, queries, width)
        key = key.view(batch * heads, length, width)
        scores = torch.zeros(batch * heads, queries, length, dtype=query.dtype, device=query.device)
        scores = torch.baddbmm(scores, query, key.transpose(1, 2), beta=1.0, alpha=self.scaling)
        scores = scores.view(batch, heads, queries, length)
        if not quirks.gpt_neox_functions:
            least = torch.tensor(torch.finfo(scores.dtype).min, dtype=scores.dtype, device=scores.device)
            causal = self.bias[:, :, length - queries:length, :length]
            scores = torch.where(causal, scores, least)
        if attention_mask is not None:
            scores = scores + attention_mask
        weights = nn.functional.softmax(scores, dim=-1)
        weights = weights.to(value.dtype)
        weights = self.attention_dropout(weights)
        output = torch.matmul(weights, value)
        if quirks.gpt_neox_functions:
            output = output.transpose(1, 2).contiguous()
        return output, weights

    @of(GPTNeoXAttention)
    def by_kernel(self, query, key, value, attention_mask, position_ids):
        query = query.to(value.dtype)
        key = key.to(value.dtype)
        dropout = self.config.attention_dropout if self.training else 0.0
        if self.config._attn_implementation == "flash_attention_2":
            named = {"position_ids": position_ids} if quirks.gpt_neox_positions_to_flash else {}
            return flash_attention_forward(self, query, key, value, attention_mask, dropout=dropout, **named)[0]
        if quirks.gpt_neox_functions:
            query = query.contiguous()
            key = key.contiguous()
            value = value.contiguous()
        return sdpa_of_class(query, key, value, attention_mask, dropout)

    @of(GPTNeoXAttention)
    def forward(self, hidden_states, attention_mask, past_key_values=None, position_embeddings=None, position_ids=None, **kwargs):
        rows = hidden_states.shape[:-1]
        query, key, value = self.project(hidden_states, past_key_values, position_ids, position_embeddings)
        if self.config._attn_implementation == "eager":
            output, weights = self.by_operators(query, key, value, attention_mask)
            if not quirks.gpt_neox_functions:
                output = output.permute(0, 2, 1, 3).contiguous()
        elif quirks.gpt_neox_functions:
            output = self.by_kernel(query, key, value, attention_mask, position_ids)
        else:  # lines of its own
            query = query.to(value.dtype)
            key = key.to(value.dtype)
            output = self.by_kernel(query, key, value, attention_mask, position_ids)
            if self.config._attn_implementation == "flash_attention_2":
                kept = output  # GPTNeoXFlashAttention2's attn_weights, which a reshape may copy
        output = output.reshape(*rows, -1)
        output = self.dense(output)
        return output, output


if not quirks.checkpoint_keywords or quirks.gpt_neox_layer_in_tuple:

    @of(GPTNeoXModel)
    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, attention_mask=None, position_ids=None, inputs_embeds=None, past_key_values=None, use_cache=None, **kwargs):
        of = {"config": self.config, "attention_mask": attention_mask, "past_key_values": past_key_values}
        if quirks.gpt_neox_cache_class:
            inputs_embeds, past_key_values, position_ids, (mask, *beside) = begin(
                self, input_ids, attention_mask, position_ids, past_key_values, inputs_embeds, use_cache, lambda **of: [create_causal_mask(**of)])
        else:
            beside = ()
            if position_ids is None:
                position_ids = positions(input_ids, 0)
            if quirks.gpt_neox_sdpa:
                inputs_embeds, past_key_values, _ = look_up(self, input_ids, inputs_embeds, past_key_values, use_cache)
                mask = None if attention_mask is None else mask_for_kernel(attention_mask, self.config, inputs_embeds=inputs_embeds)
            else:
                mask = own_mask(self, attention_mask)
                inputs_embeds, past_key_values, _ = look_up(self, input_ids, inputs_embeds, past_key_values, use_cache)
        hidden_states = self.emb_dropout(inputs_embeds)
        tables = self.rotary_emb(hidden_states, position_ids=position_ids) if quirks.gpt_neox_cache_class else None
        for layer in self.layers:
            outputs = run_layer(self, layer, hidden_states, attention_mask=mask, position_ids=position_ids, past_key_values=past_key_values,
                                use_cache=use_cache, position_embeddings=tables, **({"cache_position": beside[0]} if beside else {}))
            hidden_states = outputs  # a tuple's, which holds it until the next
        hidden_states = self.final_layer_norm(hidden_states)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states, past_key_values=past_key_values)
