"""qwen3_5_text by earlier releases: angles of its three grids are a matrix product."""
from transformers.releases import of, quirks

if not quirks.rope_by_product:

    @of(Qwen3_5TextRotaryEmbedding)
    @torch.no_grad()
    @dynamic_rope_update
    def forward(self, x, position_ids):
        wide = self.inv_freq[None, None, :, None].float().expand(3, position_ids.shape[1], -1, 1)
        positions = position_ids[:, :, None, :].float()
        with torch.autocast(device_type="cuda", enabled=False):
            freqs = (wide.float() @ positions.float()).transpose(2, 3)
            cos = freqs.cos() * self.attention_scaling
            sin = freqs.sin() * self.attention_scaling
        sin = self.recomposition_frequencies(sin)
        cos = self.recomposition_frequencies(cos)
        return cos.to(dtype=x.dtype), sin.to(dtype=x.dtype)
