"""granitemoehybrid by earlier releases."""
from transformers.releases import of, quirks

if not quirks.masks_by_utils:

    @of(GraniteMoeHybridModel)
    def masks(self, **of):
        return masks_of_kinds(self, **of)


if quirks.granite_hybrid_counts_places:

    @of(GraniteMoeHybridModel)
    def handed(self, position_ids):
        return position_ids

if quirks.granite_moe_on_its_own:
    from transformers.models.granitemoe.modeling_granitemoe import born_after

    of_layer = GraniteMoeHybridDecoderLayer.__init__

    @of(GraniteMoeHybridDecoderLayer)
    def __init__(self, config, layer_idx):
        of_layer(self, config, layer_idx)
        born_after(self, "input_layernorm", "post_attention_layernorm", "shared_mlp", "mamba" if self.scans else "self_attn")
