"""phi3 by earlier releases."""
from transformers.releases import of, quirks

if not quirks.phi3_turns_a_part:
    from transformers.modeling_rope_utils import apply_rotary_pos_emb

    Phi3Attention.rotate = staticmethod(apply_rotary_pos_emb)


if quirks.rope_in_attention:
    from transformers.modeling_rope_utils import RotaryEmbedding

    class Phi3LongRoPEScaledRotaryEmbedding(RotaryEmbedding):
        """Frequencies are made anew at each forward."""

        def keep(self, inv_freq):
            self.register_buffer("inv_freq", inv_freq, persistent=False)

        @torch.no_grad()
        def forward(self, x, position_ids):
            rope, dim = self.config.rope_parameters, self.config.head_dim
            if not quirks.longrope_is_told_length:
                longest = torch.max(position_ids) + 1
            factors = torch.tensor(rope["short_factor"], dtype=torch.float32, device=x.device)
            powers = torch.arange(0, dim, 2, dtype=torch.int64, device=x.device).float() / dim
            self.register_buffer("inv_freq", 1.0 / (factors * rope["rope_theta"] ** powers), persistent=False)
            wide = self.inv_freq[None, :, None].float().expand(position_ids.shape[0], -1, 1)
            positions = position_ids[:, None, :].float()
            with torch.autocast(device_type="cuda", enabled=False):
                freqs = (wide.float() @ positions.float()).transpose(1, 2)
                angles = torch.cat((freqs, freqs), dim=-1)
                cos = angles.cos() * self.attention_scaling
                sin = angles.sin() * self.attention_scaling
            return cos.to(dtype=x.dtype), sin.to(dtype=x.dtype)

    of_attention = Phi3Attention.__init__

    @of(Phi3Attention)
    def __init__(self, config, layer_idx):
        of_attention(self, config, layer_idx)
        long = config.rope_parameters["rope_type"] == "longrope"
        self.rotary_emb = (Phi3LongRoPEScaledRotaryEmbedding if long else RotaryEmbedding)(config)


if not quirks.interface_attention:
    Phi3Attention.repeats = True

    @of(Phi3Attention)
    def projected(self, x):
        qkv = self.qkv_proj(x)
        first = self.config.num_attention_heads * self.head_dim
        then = first + self.num_key_value_heads * self.head_dim
        q = qkv[..., :first]
        k = qkv[..., first:then]
        v = qkv[..., then:]
        return q, k, v, qkv

    if quirks.scores_masked_in_place:
        from transformers.models.llama.modeling_llama import masked_in_place

        Phi3Attention.masked = masked_in_place

    @of(Phi3Attention)
    def tables(self, x, position_ids, position_embeddings):
        if self.config._attn_implementation == "flash_attention_2":
            position_ids[:, -1].max().item()
        return self.rotary_emb(x, position_ids)

    @of(Phi3DecoderLayer)
    def forward(self, hidden_states, attention_mask=None, position_ids=None, past_key_values=None, use_cache=False, position_embeddings=None, **kwargs):
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        attended, _ = self.self_attn(hidden_states=hidden_states, attention_mask=attention_mask, position_ids=position_ids, past_key_values=past_key_values)
        hidden_states = residual + self.resid_attn_dropout(attended)
        residual = hidden_states
        hidden_states = self.post_attention_layernorm(hidden_states)
        hidden_states = self.mlp(hidden_states)
        hidden_states = residual + self.resid_mlp_dropout(hidden_states)
        return hidden_states
