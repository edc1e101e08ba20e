"""starcoder2 by earlier releases."""
from transformers.releases import quirks

if quirks.starcoder2_never_checkpoints:
    Starcoder2Model.checkpoints = False
