"""deberta-v2 by earlier releases."""
from transformers.modeling_gpt import run_layer
from transformers.releases import of, quirks

if not quirks.checkpoint_keywords:
    encoder_of_layers = DebertaV2Encoder.__init__

    @of(DebertaV2Encoder)
    def __init__(self, config):
        encoder_of_layers(self, config)
        self.gradient_checkpointing = False

    DebertaV2Encoder.run = run_layer
