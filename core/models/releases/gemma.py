"""gemma by earlier releases."""
from transformers.releases import of, quirks

if not quirks.gemma2_embedding_scales:
    from transformers.models.gemma2.modeling_gemma2 import Gemma2Model

    GemmaModel.embedding, GemmaModel.normalized = Gemma2Model.embedding, Gemma2Model.normalized
