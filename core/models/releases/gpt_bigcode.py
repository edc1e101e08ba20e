"""gpt_bigcode by earlier releases."""
from transformers.integrations.flash_attention import flash_attention_forward
from transformers.modeling_decoder import look_up, positions
from transformers.modeling_gpt import run_layer
from transformers.releases import of, quirks, refuse
from transformers.trl.loop import reads

GPTBigCodeForCausalLM._supports_sdpa = True  # before gpt2 did

if quirks.bigcode_never_checkpoints:
    # a plain module, which the model calls as it is
    GPTBigCodeBlock.gradient_checkpointing = property(lambda self: False, lambda self, value: None)

if quirks.bigcode_block_in_tuple:

    @of(GPTBigCodeBlock)
    def result(self, hidden_states, beside):
        return (hidden_states, beside)


if not quirks.bigcode_interface:
    from transformers.modeling_attn_mask_utils import unmask_unattended

    attention_without_dropout = GPTBigCodeAttention.__init__

    @of(GPTBigCodeAttention)
    def __init__(self, config, layer_idx=None):
        attention_without_dropout(self, config, layer_idx)
        self.attn_dropout, self.mask_value = nn.Dropout(config.attn_pdrop), None

    @of(GPTBigCodeAttention)
    def by_operators(self, query, key, value, attention_mask):
        """_attn of GPTBigCodeAttention where the softmax is in the query's dtype"""
        if query.dtype != torch.float32 and getattr(self.config, "attention_softmax_in_fp32", True):
            refuse("/training/attention",
                   "eager attention of gpt_bigcode runs TorchScript kernels before transformers 5; that is not modelled, take sdpa")
        shape, batch, length = query.shape, query.shape[0], key.size(-1)
        if self.config.multi_query:
            rows = batch, shape[1] * self.num_heads, length
            query = query.reshape(batch, rows[1], self.head_dim)
        else:
            rows = batch * self.num_heads, shape[2], length
            query = query.reshape(rows[0], rows[1], self.head_dim)
            key = key.reshape(rows[0], self.head_dim, length)
        weights = torch.empty(rows, device=query.device, dtype=query.dtype)
        four = (batch, shape[1], self.num_heads, length) if self.config.multi_query else (batch, self.num_heads, shape[2], length)
        weights = torch.baddbmm(weights, query, key, beta=0, alpha=self.scaling).view(four)
        if self.mask_value is None:
            self.mask_value = torch.full([], torch.finfo(weights.dtype).min, dtype=weights.dtype, device=weights.device)
        weights = torch.where(attention_mask, weights, self.mask_value)
        weights = nn.functional.softmax(weights, dim=-1)
        weights = self.attn_dropout(weights)
        if self.config.multi_query:
            return torch.bmm(weights.view(rows), value).view(shape)
        return torch.matmul(weights, value)

    @of(GPTBigCodeAttention)
    def by_sdpa(self, query, key, value, attention_mask):
        """_attn of GPTBigCodeSdpaAttention"""
        shape = query.shape
        if self.config.multi_query:
            query = query.view(*shape[:2], self.num_heads, self.head_dim).transpose(1, 2)
            key = key.unsqueeze(1)
            value = value.unsqueeze(1)
            key = key.expand(-1, self.num_heads, -1, -1)
            value = value.expand(-1, self.num_heads, -1, -1)
        else:
            query = query.contiguous()
            key = key.contiguous()
            value = value.contiguous()
        output = nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=attention_mask, dropout_p=self.config.attn_pdrop if self.training else 0.0)
        if self.config.multi_query:
            output = output.transpose(1, 2)
            output = output.reshape(shape)
        return output

    @of(GPTBigCodeAttention)
    def by_flash(self, query, key, value, attention_mask):
        """GPTBigCodeFlashAttention2"""
        if self.config.multi_query:
            query = query.view(*query.shape[:2], self.num_heads, self.head_dim).transpose(1, 2)
            key = key.unsqueeze(1)
            value = value.unsqueeze(1)
        output, _ = flash_attention_forward(self, query, key, value, attention_mask, dropout=self.config.attn_pdrop if self.training else 0.0)
        return output

    @of(GPTBigCodeAttention)
    def forward(self, hidden_states, past_key_values=None, attention_mask=None, use_cache=False, **kwargs):
        kernel, shared, width = self.config._attn_implementation, self.config.multi_query, hidden_states.shape[-1]
        if shared:
            query, both = self.c_attn(hidden_states).split((width, 2 * self.kv_dim), dim=2)
        else:
            query, both = (self.c_attn(hidden_states).view(*hidden_states.shape[:2], self.num_heads, 3 * self.head_dim).transpose(1, 2)
                           .split((self.head_dim, 2 * self.head_dim), dim=3))
        present = both if use_cache else None
        key, value = both.split((self.head_dim, self.head_dim), dim=-1)
        if kernel == "eager":
            output = self.by_operators(query, key.transpose(-1, -2), value, attention_mask)
        else:
            output = (self.by_sdpa if kernel == "sdpa" else self.by_flash)(query, key, value, attention_mask)
        if not shared and kernel != "flash_attention_2":
            output = output.transpose(1, 2)
        output = output.reshape(hidden_states.shape)
        weights = output if kernel == "flash_attention_2" else None
        output = self.c_proj(output)
        return self.resid_dropout(output), present

    @of(GPTBigCodeModel)
    def own_positions(self, input_ids, attention_mask):
        if attention_mask is None:
            return positions(input_ids, 0)
        position_ids = attention_mask.long().cumsum(-1) - 1
        position_ids.masked_fill_(attention_mask == 0, 1)
        return position_ids

    @of(GPTBigCodeModel)
    def own_mask(self, attention_mask, length):
        """The causal buffer times the padding; for SDPA as numbers, rows without a key unmasked"""
        if self.config._attn_implementation == "flash_attention_2":
            return attention_mask.bool() if attention_mask is not None and 0 in attention_mask else None
        mask = self.bias[None, :length, :length]
        if attention_mask is not None:
            mask = mask * attention_mask.view(attention_mask.shape[0], 1, -1).to(dtype=torch.bool)
        mask = mask.unsqueeze(2 if self.config.multi_query else 1)
        if self.config._attn_implementation == "sdpa":
            reads(self.wte)
            dtype = self.wte.weight.dtype
            lowest = torch.finfo(dtype).min
            mask = torch.where(mask, torch.full([], 0.0, dtype=dtype, device=mask.device), torch.full([], lowest, dtype=dtype, device=mask.device))
            if self.config.multi_query:
                mask = mask.transpose(1, 2)
            if length > 1 and attention_mask is not None:
                mask = unmask_unattended(mask, lowest)
        return mask


if quirks.gpt_all_cache_position:

    @of(GPTBigCodeModel)
    @capture_outputs
    def forward(self, input_ids=None, past_key_values=None, attention_mask=None, position_ids=None, inputs_embeds=None, use_cache=None, **kwargs):
        use_cache = self.config.use_cache if use_cache is None else use_cache
        if self.gradient_checkpointing and self.training and quirks.bigcode_cache_off and not quirks.bigcode_never_checkpoints:
            use_cache = False
        if quirks.bigcode_interface:
            inputs_embeds, past_key_values, position_ids, mask = begin(
                self, input_ids, attention_mask, position_ids, past_key_values, inputs_embeds, use_cache)
        else:
            if past_key_values is not None:
                refuse("/stack/transformers", "gpt_bigcode keeps one tensor of keys and values before transformers 4.54: its generate() is modelled from there on")
            position_ids = self.own_positions(input_ids, attention_mask)
            mask = self.own_mask(attention_mask, input_ids.shape[1])
            inputs_embeds, _, _ = look_up(self, input_ids, inputs_embeds, None, False)
        places = self.wpe(position_ids)
        hidden_states = inputs_embeds + places
        hidden_states = self.drop(hidden_states)
        presents = ()
        for block in self.h:
            if quirks.checkpoint_keywords and not quirks.bigcode_interface:
                outputs = block(hidden_states, None, mask, use_cache=use_cache)
            else:
                outputs = run_layer(self, block, hidden_states, past_key_values=past_key_values, attention_mask=mask, use_cache=use_cache,
                                    cache_position=position_ids if quirks.bigcode_interface else None)
            hidden_states = outputs[0]
            if not quirks.bigcode_interface and use_cache:
                presents = presents + (outputs[1],)
        hidden_states = self.ln_f(hidden_states)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states.view(inputs_embeds.shape),
                                       past_key_values=past_key_values if quirks.bigcode_interface else presents or None)
