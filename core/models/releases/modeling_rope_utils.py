"""Rotary embeddings by earlier releases."""
from transformers.releases import of, quirks

if not quirks.inv_freq_kept_twice:

    @of(RotaryEmbedding)
    def keep(self, inv_freq):
        self.register_buffer("inv_freq", inv_freq, persistent=False)
        self.original_inv_freq = self.inv_freq


if not quirks.rope_by_product:

    @of(RotaryEmbedding)
    @torch.no_grad()
    @dynamic_rope_update
    def forward(self, x, position_ids):
        wide = self.inv_freq[None, :, None].float().expand(position_ids.shape[0], -1, 1)
        positions = position_ids[:, None, :].float()
        with torch.autocast(device_type="cuda", enabled=False):
            freqs = (wide.float() @ positions.float()).transpose(1, 2)
            angles = torch.cat((freqs, freqs), dim=-1)
            at_once = self.attention_scaling if quirks.rope_once and quirks.rope_scales_at_once else None
            cos = angles.cos() if at_once is None else angles.cos() * at_once
            sin = angles.sin() if at_once is None else angles.sin() * at_once
        if quirks.rope_once and not quirks.rope_scales_at_once:
            cos = cos * self.attention_scaling
            sin = sin * self.attention_scaling
        return self.tables(cos, sin, x.dtype)
