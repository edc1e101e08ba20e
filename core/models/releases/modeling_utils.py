"""PreTrainedModel's surroundings by earlier releases."""
from transformers.releases import quirks

if not quirks.last_states_are_cut:

    def slice_logits_to_keep(hidden_states, logits_to_keep):
        return hidden_states
