"""qwen3_5_text by earlier releases: angles of its three grids are a matrix product, and one before 5.17 interleaved angles, not their tables."""
from transformers.releases import of, quirks

if not quirks.rope_by_product:

    @of(Qwen3_5TextRotaryEmbedding)
    def interleaved(self, freqs):
        first = freqs[0]
        for dim in (1, 2):
            places = slice(dim, self.mrope_section[dim] * 3, 3)
            first[..., places] = freqs[dim, ..., places]
        return first

    @of(Qwen3_5TextRotaryEmbedding)
    @torch.no_grad()
    @dynamic_rope_update
    def forward(self, x, position_ids):
        wide = self.inv_freq[None, None, :, None].float().expand(3, position_ids.shape[1], -1, 1)
        positions = position_ids[:, :, None, :].float()
        with torch.autocast(device_type="cuda", enabled=False):
            freqs = (wide.float() @ positions.float()).transpose(2, 3)
            if not quirks.grids_recomposed:
                freqs = self.interleaved(freqs)
                freqs = torch.cat((freqs, freqs), dim=-1)
            cos = freqs.cos() * self.attention_scaling
            sin = freqs.sin() * self.attention_scaling
        if quirks.grids_recomposed:
            sin = self.recomposition_frequencies(sin)
            cos = self.recomposition_frequencies(cos)
        return cos.to(dtype=x.dtype), sin.to(dtype=x.dtype)
