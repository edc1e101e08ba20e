"""BERT's encoder and its copies until the attention interface: a class a kernel, which hands out no weights, and masks of their own."""
from transformers.modeling_attn_mask_utils import expand_mask, is_full
from transformers.modeling_gpt import run_layer
from transformers.releases import of, quirks

if quirks.encoder_kernels:

    def mask_of(model, rows, length, dtype, device, attention_mask):
        if attention_mask is None:
            attention_mask = torch.ones((rows, length), device=device)
        if model.config._attn_implementation == "sdpa":
            return None if is_full(attention_mask) else expand_mask(attention_mask, dtype, length)
        extended_attention_mask = attention_mask[:, None, None, :].to(dtype=model.dtype)
        extended_attention_mask = (1.0 - extended_attention_mask) * torch.finfo(model.dtype).min
        return extended_attention_mask

    @of(BertEmbeddings)
    def forward(self, input_ids, token_type_ids=None, position_ids=None):
        if position_ids is None:
            position_ids = self.positions(input_ids)
        if token_type_ids is None:
            token_type_ids = self.token_type_ids[:, : input_ids.shape[1]].expand(input_ids.shape)
        inputs_embeds = self.word_embeddings(input_ids)
        token_type_embeddings = self.token_type_embeddings(token_type_ids)
        embeddings = inputs_embeds + token_type_embeddings
        position_embeddings = self.position_embeddings(position_ids)
        embeddings += position_embeddings
        embeddings = self.normed(embeddings)
        embeddings = self.dropout(embeddings)
        return embeddings

    @of(BertSelfAttention)
    def forward(self, hidden_states, attention_mask=None, **kwargs):
        shape, sdpa = (*hidden_states.shape[:-1], -1, self.head_dim), self.config._attn_implementation == "sdpa"
        query = self.query(hidden_states)
        if sdpa or quirks.encoder_tells_weights:  # else the last of the three views, and the first in backward
            query = query.view(*shape).transpose(1, 2)
        key = self.key(hidden_states).view(*shape).transpose(1, 2)
        value = self.value(hidden_states).view(*shape).transpose(1, 2)
        if sdpa:
            output = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=attention_mask,
                                                                dropout_p=self.dropout.p if self.training else 0.0, is_causal=False)
            output = output.transpose(1, 2)
            return output.reshape(*hidden_states.shape[:-1], -1), None
        if not quirks.encoder_tells_weights:
            query = query.view(*shape).transpose(1, 2)
        attention_scores = torch.matmul(query, key.transpose(-1, -2))
        attention_scores = attention_scores / self.head_dim**0.5
        if attention_mask is not None:
            attention_scores = attention_scores + attention_mask
        attention_probs = nn.functional.softmax(attention_scores, dim=-1)
        attention_probs = self.dropout(attention_probs)
        context = torch.matmul(attention_probs, value)
        context = context.transpose(1, 2).contiguous()
        return context.view(*hidden_states.shape[:-1], -1), attention_probs if quirks.encoder_tells_weights else None

    encoder_of_layers = BertEncoder.__init__

    @of(BertEncoder)
    def __init__(self, config):
        encoder_of_layers(self, config)
        self.gradient_checkpointing = False

    @of(BertEncoder)
    def forward(self, hidden_states, attention_mask=None, **kwargs):
        for layer in self.layer:
            hidden_states = run_layer(self, layer, hidden_states, attention_mask=attention_mask)
        return BaseModelOutputWithPooling(last_hidden_state=hidden_states)

    @of(BertModel)
    def mask(self, embedding_output, attention_mask):
        return mask_of(self, embedding_output.shape[0], embedding_output.shape[1], embedding_output.dtype, embedding_output.device, attention_mask)

    if not quirks.encoder_embeds_first:

        @of(BertModel)
        @merge_with_config_defaults
        @capture_outputs
        def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, position_ids=None, use_cache=None, **kwargs):
            attention_mask = mask_of(self, *input_ids.shape, self.dtype, input_ids.device, attention_mask)
            embedding_output = self.embeddings(input_ids=input_ids, position_ids=position_ids, token_type_ids=token_type_ids)
            embedding_output = self.widen(embedding_output)
            encoder_outputs = self.encoder(embedding_output, attention_mask=attention_mask, **kwargs)
            sequence_output = encoder_outputs.last_hidden_state
            pooled_output = self.pooler(sequence_output) if self.pooler is not None else None
            return BaseModelOutputWithPooling(last_hidden_state=sequence_output, pooler_output=pooled_output)

    if quirks.encoder_tells_weights:

        @of(BertAttention)
        def forward(self, hidden_states, attention_mask=None, **kwargs):
            self_outputs = self.self(hidden_states, attention_mask=attention_mask, **kwargs)
            attention_output = self.output(self_outputs[0], hidden_states)
            return (attention_output,) + self_outputs[1:]

        @of(BertLayer)
        def forward(self, hidden_states, attention_mask=None, **kwargs):
            self_attention_outputs = self.attention(hidden_states, attention_mask, **kwargs)
            attention_output = self_attention_outputs[0]
            outputs = self_attention_outputs[1:]
            layer_output = self.feed_forward_chunk(attention_output)
            return (layer_output,) + outputs

        @of(BertEncoder)
        def forward(self, hidden_states, attention_mask=None, **kwargs):
            for layer in self.layer:
                layer_outputs = layer(hidden_states, attention_mask)
                hidden_states = layer_outputs[0]
            return BaseModelOutputWithPooling(last_hidden_state=hidden_states)

elif quirks.encoder_counts_places:

    @of(BertModel)
    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, position_ids=None, use_cache=None, **kwargs):
        cache_position = torch.arange(0, input_ids.shape[1], device=input_ids.device)
        embedding_output = self.embeddings(input_ids=input_ids, position_ids=position_ids, token_type_ids=token_type_ids)
        embedding_output = self.widen(embedding_output)
        attention_mask = self.mask(embedding_output, attention_mask)
        encoder_outputs = self.encoder(embedding_output, attention_mask=attention_mask, cache_position=cache_position, position_ids=position_ids, **kwargs)
        sequence_output = encoder_outputs.last_hidden_state
        pooled_output = self.pooler(sequence_output) if self.pooler is not None else None
        return BaseModelOutputWithPooling(last_hidden_state=sequence_output, pooler_output=pooled_output)
