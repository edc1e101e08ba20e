"""olmo by earlier releases."""
from transformers.releases import of, quirks

if not quirks.interface_attention:

    @of(OlmoAttention)
    def clip(self, q, k, v):
        bound = self.config.clip_qkv
        if bound is not None:
            q.clamp_(min=-bound, max=bound)
            k.clamp_(min=-bound, max=bound)
            v.clamp_(min=-bound, max=bound)
