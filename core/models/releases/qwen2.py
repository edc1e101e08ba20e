"""qwen2 and qwen3 by earlier releases."""
from transformers.releases import of, quirks

if quirks.unused_window_kept:
    of_layers = Qwen2Config.__post_init__

    @of(Qwen2Config)
    def __post_init__(self, **kwargs):
        window = self.sliding_window
        of_layers(self, **kwargs)
        self.sliding_window = window


if quirks.rope_tables_kept:
    from transformers.models.llama.modeling_llama import reads_tables

    reads_tables(Qwen2Attention)

if not quirks.interface_attention:
    Qwen2Attention.repeats = True

if not quirks.masks_by_utils:
    from transformers.masking_utils import create_masks_in_window

    Qwen2Model.masks = create_masks_in_window
