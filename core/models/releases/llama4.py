"""llama4 by earlier releases: its class computes the loss, of the places that are not padding."""
from transformers.modeling_composite import loss_of_places
from transformers.releases import of, quirks, refuse

if quirks.llama4_wants_pad_token:
    of_class = Llama4ForConditionalGeneration.__init__

    @of(Llama4ForConditionalGeneration)
    def __init__(self, config):
        if "pad_token_id" not in config.__dict__:  # that of text is none of its own
            refuse("/config/pad_token_id", "Llama4ForConditionalGeneration of transformers 5.0 and 5.1 raises without it: 5.2, or 4.57")
        of_class(self, config)


if not quirks.llama4_calls_loss_function:

    @of(Llama4ForConditionalGeneration)
    def loss_of(self, logits, labels, attention_mask, **kwargs):
        return loss_of_places(logits, labels, attention_mask, logits.size(-1))
