"""roberta by earlier releases."""
from transformers.releases import of, quirks

if not quirks.positions_made_last:

    @of(RobertaEmbeddings)
    def order(self):
        """Where bert's stand."""
