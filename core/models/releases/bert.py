"""bert by earlier releases, and deberta-v2, which has its head of masked tokens."""
from transformers.releases import of, quirks

if quirks.head_bias_linked:
    of_head = BertLMPredictionHead.__init__

    @of(BertLMPredictionHead)
    def __init__(self, config):
        of_head(self, config)
        self.decoder.bias = self.bias
