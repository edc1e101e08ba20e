"""distilbert by earlier releases: a class a kernel, queries that are scaled, a mask that is filled in."""
from transformers.modeling_attn_mask_utils import expand_mask, is_full
from transformers.modeling_gpt import run_layer
from transformers.releases import of, quirks, refuse

if quirks.encoder_kernels:

    @of(DistilBertSelfAttention)
    def forward(self, hidden_states, attention_mask=None, **kwargs):
        if self.config._attn_implementation == "flash_attention_2":
            refuse("/training/attention", "distilbert's flash attention by this release is not written here")
        rows, length = hidden_states.shape[:2]
        shape = (rows, -1, self.config.n_heads, self.head_dim)
        query = self.q_lin(hidden_states).view(*shape).transpose(1, 2)
        key = self.k_lin(hidden_states).view(*shape).transpose(1, 2)
        value = self.v_lin(hidden_states).view(*shape).transpose(1, 2)
        if self.config._attn_implementation == "sdpa":
            output = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=attention_mask,
                                                                dropout_p=self.dropout.p if self.training else 0.0, is_causal=False)
            output = output.transpose(1, 2).contiguous().view(rows, -1, self.config.dim)
            output = self.out_lin(output)
            return output, None
        query = query / self.head_dim**0.5
        scores = torch.matmul(query, key.transpose(2, 3))
        attention_mask = (attention_mask == 0).view(rows, 1, 1, length).expand_as(scores)
        scores = scores.masked_fill(attention_mask, torch.finfo(scores.dtype).min)
        weights = nn.functional.softmax(scores, dim=-1)
        weights = self.dropout(weights)
        context = torch.matmul(weights, value)
        context = context.transpose(1, 2).contiguous().view(rows, -1, self.config.dim)
        context = self.out_lin(context)
        return context, None

    transformer_of_layers = Transformer.__init__

    @of(Transformer)
    def __init__(self, config):
        transformer_of_layers(self, config)
        self.gradient_checkpointing = False

    @of(Transformer)
    def forward(self, hidden_states, attention_mask=None, **kwargs):
        for layer in self.layer:
            hidden_states = run_layer(self, layer, hidden_states, attention_mask=attention_mask)
        return BaseModelOutput(last_hidden_state=hidden_states)

    def create_bidirectional_mask(config, inputs_embeds, attention_mask):
        rows, length = inputs_embeds.shape[:2]
        if attention_mask is None:
            attention_mask = torch.ones((rows, length), device=inputs_embeds.device)
        if config._attn_implementation == "sdpa":
            return None if is_full(attention_mask) else expand_mask(attention_mask, inputs_embeds.dtype, length)
        return attention_mask
