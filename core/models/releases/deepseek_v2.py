"""deepseek_v2 and llama4 by earlier releases: angles are a product of matrices."""
from transformers.releases import of, quirks

if not quirks.rope_by_product:

    @of(DeepseekV2RotaryEmbedding)
    @torch.no_grad()
    @dynamic_rope_update
    def forward(self, x, position_ids):
        wide = self.inv_freq[None, :, None].float().expand(position_ids.shape[0], -1, 1)
        positions = position_ids[:, None, :].float()
        with torch.autocast(device_type="cuda", enabled=False):
            freqs = (wide.to(x.device) @ positions).transpose(1, 2)
            turns = torch.polar(torch.ones_like(freqs), freqs)
            turns = turns * self.attention_scaling
        return turns
