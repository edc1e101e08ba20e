"""roberta by earlier releases."""
from transformers.releases import of, quirks

if not quirks.positions_made_last:

    @of(RobertaEmbeddings)
    def order(self):
        """Where bert's stand."""


if quirks.head_bias_linked:
    of_head = RobertaLMHead.__init__

    @of(RobertaLMHead)
    def __init__(self, config):
        of_head(self, config)
        self.decoder.bias = self.bias
