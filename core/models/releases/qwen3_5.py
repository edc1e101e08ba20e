"""qwen3_5's tower, which qwen3_vl has too, before 5.17: its frequencies once."""
from transformers.releases import of, quirks

if not quirks.grids_recomposed:
    of_tower = Qwen3_5VisionRotaryEmbedding.__init__

    @of(Qwen3_5VisionRotaryEmbedding)
    def __init__(self, config):
        of_tower(self, config)
        del self.original_inv_freq
