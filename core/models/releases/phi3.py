"""phi3 by earlier releases."""
from transformers.releases import quirks

if not quirks.phi3_turns_a_part:
    from transformers.modeling_rope_utils import apply_rotary_pos_emb

    Phi3Attention.rotate = staticmethod(apply_rotary_pos_emb)
