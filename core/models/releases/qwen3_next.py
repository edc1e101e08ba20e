"""qwen3_next by earlier releases: rows of a chunk's system, one after the other, are nodes of their own."""
from transformers.releases import of, quirks

if not quirks.delta_rule_by_triangles:
    Qwen3NextForCausalLM.turn = (64, 48, 1024, "fla")

if quirks.experts_in_turn:

    @of(Qwen3NextDecoderLayer)
    def forward(self, hidden_states, attention_mask=None, past_key_values=None, **kwargs):
        """It holds the router's logits until it returns."""
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        if self.block_type == "linear_attention":
            hidden_states = self.linear_attn(hidden_states=hidden_states, cache_params=past_key_values, attention_mask=attention_mask)
        else:
            hidden_states, _ = self.self_attn(hidden_states=hidden_states, attention_mask=attention_mask, past_key_values=past_key_values, **kwargs)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.post_attention_layernorm(hidden_states)
        hidden_states = self.mlp(hidden_states)
        if isinstance(hidden_states, tuple):
            hidden_states, _ = hidden_states
        hidden_states = residual + hidden_states
        return hidden_states
