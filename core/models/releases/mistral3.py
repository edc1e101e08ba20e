"""mistral3 before 5.17: its tower has frequencies of each place of the largest image; before 5.0 text's own use_cache counts."""
from transformers.releases import of, quirks

if not quirks.grids_recomposed:
    of_tower = PixtralVisionRotaryEmbedding.__init__

    @of(PixtralVisionRotaryEmbedding)
    def __init__(self, config):
        of_tower(self, config)
        side = config.image_size // config.patch_size
        self.register_buffer("inv_freq", torch.zeros(side * side, config.hidden_size // config.num_attention_heads, dtype=torch.float), persistent=False)
        if quirks.inv_freq_kept_twice:
            self.register_buffer("original_inv_freq", self.inv_freq.clone(), persistent=False)
        else:
            del self.original_inv_freq

if not quirks.whole_config_is_asked:

    @of(Mistral3Model)
    def forward(self, **kwargs):
        return CompositeModel.forward(self, **kwargs)
