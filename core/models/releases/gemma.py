"""gemma by earlier releases."""
from transformers.pytorch_utils import ALL_LAYERNORM_LAYERS
from transformers.releases import of, quirks

if quirks.gemma_norms_are_told:
    ALL_LAYERNORM_LAYERS.append(GemmaRMSNorm)

if not quirks.gemma2_embedding_scales:
    from transformers.models.gemma2.modeling_gemma2 import Gemma2Model

    GemmaModel.embedding, GemmaModel.normalized = Gemma2Model.embedding, Gemma2Model.normalized


if not quirks.interface_attention and quirks.gemma_multiplies_scores:

    @of(GemmaAttention)
    def scaled(self, scores):
        return scores * self.scaling


if quirks.gemma_rope_at_first:
    import torch

    from transformers.modeling_rope_utils import RotaryEmbedding

    class GemmaRotaryEmbedding(RotaryEmbedding):
        def keep(self, inv_freq):
            self.register_buffer("inv_freq", None, persistent=False)

        def forward(self, x, position_ids):
            if self.inv_freq is None:
                dim = self.config.head_dim
                self.inv_freq = 1.0 / (10000.0 ** (torch.arange(0, dim, 2, dtype=torch.int64, device=x.device).float() / dim))
            return super().forward(x, position_ids)

    GemmaAttention.rotary = GemmaRotaryEmbedding
