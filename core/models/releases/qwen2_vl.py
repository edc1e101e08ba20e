"""qwen2_vl before 5.17: each layer puts the tables of three grids together; before 5.2 text asks for their index, before 4.56 its loss takes no count."""
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

if quirks.text_asks_rope_index:
    from transformers.modeling_composite import asks_rope_index, sees_positions

    asks_rope_index(Qwen2VLModel)
    if quirks.grids_show_positions:
        sees_positions(Qwen2VLTextModel)

if quirks.rope_in_attention:
    Qwen2VLAttention.rotary = Qwen2VLRotaryEmbedding

if not quirks.grids_hand_loss_items:
    from transformers.loss.loss_utils import LOSS_MAPPING

    @of(Qwen2VLForConditionalGeneration)
    def loss_function(self, num_items_in_batch=None, **given):
        return LOSS_MAPPING[self.loss_type](**given)
