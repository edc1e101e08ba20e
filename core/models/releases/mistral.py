"""mistral by earlier releases."""
from transformers.releases import quirks

MistralConfig.leaves_head_dim = quirks.head_dim_left == 1

if quirks.rope_tables_kept:
    from transformers.models.llama.modeling_llama import reads_tables

    reads_tables(MistralAttention)

if not quirks.interface_attention:
    MistralAttention.repeats = True

if not quirks.masks_by_utils:
    from transformers.masking_utils import create_masks_in_window

    MistralModel.masks = create_masks_in_window
