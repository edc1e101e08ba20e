"""olmo3 by earlier releases: one rotation for all layers."""
from transformers.releases import quirks

if not quirks.rope_by_kind:
    from transformers.modeling_decoder import Decoder
    from transformers.models.olmo2.modeling_olmo2 import Olmo2RotaryEmbedding

    Olmo3Model.rotary, Olmo3Model.tables, Olmo3Config._rope = Olmo2RotaryEmbedding, Decoder.tables, Olmo2Config._rope
