"""cohere by earlier releases."""
from transformers.releases import of, quirks

if not quirks.interface_attention:
    CohereAttention.norms_first = property(lambda self: self.use_qk_norm)

if quirks.rope_in_attention:
    CohereAttention.rotary = CohereRotaryEmbedding

if not quirks.cohere_tables_cast:

    @of(CohereRotaryEmbedding)
    def tables(self, cos, sin, dtype):
        return cos, sin
