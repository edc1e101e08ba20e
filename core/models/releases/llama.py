"""llama and what is derived from it, as releases before 5.23 wrote it."""
from transformers.releases import of, quirks

if not quirks.rope_by_product:

    @of(LlamaRotaryEmbedding)
    @torch.no_grad()
    @dynamic_rope_update
    def forward(self, x, position_ids):
        wide = self.inv_freq[None, :, None].float().expand(position_ids.shape[0], -1, 1)
        positions = position_ids[:, None, :].float()
        with torch.autocast(device_type="cuda", enabled=False):
            freqs = (wide.float() @ positions.float()).transpose(1, 2)
            angles = torch.cat((freqs, freqs), dim=-1)
            cos = angles.cos() * self.attention_scaling
            sin = angles.sin() * self.attention_scaling
        return self.tables(cos, sin, x.dtype)
