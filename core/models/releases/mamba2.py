"""mamba2 by earlier releases."""
from transformers.releases import quirks

if not quirks.mixer_of_functions:
    Mamba2MixerOfMamba2.rebinds_input = True  # the name hidden_states

    @staticmethod
    def mask(attention_mask, **of):
        return attention_mask

    Mamba2Model.mask = mask
