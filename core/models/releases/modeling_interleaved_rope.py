"""Neighbours that turn together, by earlier releases."""
from transformers.modeling_rope_utils import rotate_half
from transformers.releases import quirks

if not quirks.pairs_turned_apart:

    def apply_rotary_pos_emb_interleave(q, k, cos, sin):
        cos = cos.unsqueeze(1)
        sin = sin.unsqueeze(1)
        batch, heads, length, width = q.shape
        q = q.view(batch, heads, length, width // 2, 2).transpose(4, 3).reshape(batch, heads, length, width)
        batch, heads, length, width = k.shape
        k = k.view(batch, heads, length, width // 2, 2).transpose(4, 3).reshape(batch, heads, length, width)
        q_turned = (q * cos) + (rotate_half(q) * sin)
        k_turned = (k * cos) + (rotate_half(k) * sin)
        return q_turned, k_turned
