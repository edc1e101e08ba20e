"""granitemoehybrid by earlier releases."""
from transformers.releases import of, quirks

if not quirks.masks_by_utils:

    @of(GraniteMoeHybridModel)
    def masks(self, **of):
        return masks_of_kinds(self, **of)
