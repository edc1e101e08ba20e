"""deberta-v2 by earlier releases."""
from transformers.modeling_gpt import run_layer
from transformers.releases import of, quirks

if not quirks.checkpoint_keywords:
    encoder_of_layers = DebertaV2Encoder.__init__

    @of(DebertaV2Encoder)
    def __init__(self, config):
        encoder_of_layers(self, config)
        self.gradient_checkpointing = False

    @of(DebertaV2Encoder)
    def run(self, layer, hidden_states, attention_mask, **by_name):
        return run_layer(self, layer, hidden_states, attention_mask=attention_mask, **by_name)
