"""lfm2 by earlier releases: convolutions are given the mask of attention, which masks no row of theirs, and a second rotary module stands beside the first."""
from transformers.releases import of, quirks

if not quirks.convolutions_masked:
    Lfm2Model.masks = LlamaModel.masks

    @of(Lfm2Model)
    def finish(self, config):
        self.rotary_emb = self.rotary(config)
        self.pos_emb = self.rotary(config)
        self.embedding_norm = self.layer.norm(config.hidden_size, eps=config.rms_norm_eps)
