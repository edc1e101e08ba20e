"""granite by earlier releases."""
from transformers.releases import of, quirks

if not quirks.interface_attention:

    @of(GraniteAttention)
    def scaled(self, scores):
        return scores * self.scaling
