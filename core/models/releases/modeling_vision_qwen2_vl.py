"""The tower of qwen2_vl before 5.17: its frequencies once."""
from transformers.releases import of, quirks

if not quirks.grids_recomposed:
    of_tower = Qwen2VLVisionRotaryEmbedding.__init__

    @of(Qwen2VLVisionRotaryEmbedding)
    def __init__(self, config):
        of_tower(self, config)
        del self.original_inv_freq
