"""qwen2_vl before 5.17: each layer puts the tables of three grids together."""
from transformers.modeling_rope_utils import rotate_half
from transformers.releases import of, quirks

if not quirks.grids_recomposed:

    @of(Qwen2VLRotaryEmbedding)
    def interleaved(self, freqs):
        return freqs

    @of(Qwen2VLAttention)
    def rotate(self, q, k, cos, sin):
        sections = self.config.rope_parameters["mrope_section"] * 2
        cos = torch.cat([part[i % 3] for i, part in enumerate(cos.split(sections, dim=-1))], dim=-1).unsqueeze(1)
        sin = torch.cat([part[i % 3] for i, part in enumerate(sin.split(sections, dim=-1))], dim=-1).unsqueeze(1)
        q_turned = (q * cos) + (rotate_half(q) * sin)
        k_turned = (k * cos) + (rotate_half(k) * sin)
        return q_turned, k_turned
