"""olmo3 by earlier releases: one rotation for all layers, in 4.57 a module of it for each kind."""
from torch import nn

from transformers.releases import of, quirks

if not quirks.rope_by_kind:
    from transformers.modeling_decoder import Decoder
    from transformers.models.olmo2.modeling_olmo2 import Olmo2RotaryEmbedding

    Olmo3Model.rotary, Olmo3Model.tables, Olmo3Config._rope = Olmo2RotaryEmbedding, Decoder.tables, Olmo2Config._rope

if quirks.olmo3_turns_twice:
    @of(Olmo3Model)
    def finish(self, config):
        self.norm = self.layer.norm(config.hidden_size, eps=config.rms_norm_eps)
        whole = config.rope_parameters
        config.rope_parameters = {"rope_type": "default", "rope_theta": whole["rope_theta"]}
        sliding = Olmo2RotaryEmbedding(config)
        config.rope_parameters = whole
        self.rotary_embs = nn.ModuleDict({"sliding_attention": sliding, "full_attention": Olmo2RotaryEmbedding(config)})

    @of(Olmo3Model)
    def tables(self, hidden_states, position_ids):
        kinds = {}
        for kind in ("sliding_attention", "full_attention"):
            kinds[kind] = self.rotary_embs[kind](hidden_states, position_ids)
        return [kinds[kind] for kind in self.config.layer_types] + [kinds]  # a forward's frame holds both
