"""bamba by earlier releases."""
from transformers.releases import of, quirks

if not quirks.bamba_turns_half:

    @of(BambaConfig)
    def __post_init__(self, **kwargs):
        super(BambaConfig, self).__post_init__(**kwargs)


if not quirks.cache_in_training:
    looked_up = look_up

    def look_up(model, input_ids, inputs_embeds, past_key_values, use_cache):
        return looked_up(model, input_ids, inputs_embeds, past_key_values, False)
