"""granitemoehybrid by earlier releases."""
from transformers.releases import of, quirks, refuse

if not quirks.granite_experts_grouped:
    of_layer = GraniteMoeHybridDecoderLayer.__init__

    @of(GraniteMoeHybridDecoderLayer)
    def __init__(self, config, layer_idx):
        if config.num_local_experts > 0:
            refuse("/stack/transformers", "experts of granitemoehybrid are modelled from transformers 5.13 on; before they are one linear an expert")
        of_layer(self, config, layer_idx)


if not quirks.masks_by_utils:

    @of(GraniteMoeHybridModel)
    def masks(self, **of):
        return masks_of_kinds(self, **of)
