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
