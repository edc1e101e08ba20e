"""camembert by earlier releases."""
from transformers.releases import of, quirks

if not quirks.camembert_heads_first:

    @of(HeadFirst)
    def order(self):
        """Where roberta's stand."""
