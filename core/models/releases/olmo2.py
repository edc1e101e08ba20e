"""olmo2, olmo and olmo3 by earlier releases."""
from transformers.releases import of, quirks

if not quirks.olmo_tables_in_fp32:

    @of(Olmo2RotaryEmbedding)
    def tables(self, cos, sin, dtype):
        return cos.to(dtype=dtype), sin.to(dtype=dtype)


if not quirks.olmo2_norms_in_fp32:
    Olmo2RMSNorm.forward = LlamaRMSNorm.forward

if not quirks.interface_attention:

    @of(Olmo2Attention)
    def projected(self, x):
        q = self.q_norm(self.q_proj(x))
        k = self.k_norm(self.k_proj(x))
        return q, k, self.v_proj(x)
