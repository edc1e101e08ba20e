"""flex_olmo by earlier releases: experts in a loop, whose router's logits a layer holds until it returns."""
from transformers.releases import of, quirks

if quirks.experts_in_turn:

    @of(FlexOlmoDecoderLayer)
    def forward(self, hidden_states, **kwargs):
        residual = hidden_states
        hidden_states, _ = self.self_attn(hidden_states=hidden_states, **kwargs)
        hidden_states = self.post_attention_layernorm(hidden_states)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states, _ = self.mlp(hidden_states)
        hidden_states = self.post_feedforward_layernorm(hidden_states)
        hidden_states = residual + hidden_states
        return hidden_states
