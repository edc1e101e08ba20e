"""gemma3_text by earlier releases."""
from transformers.releases import of, quirks

if not quirks.rope_by_kind:
    from transformers.modeling_rope_utils import RotaryEmbedding

    @of(Gemma3TextModel)
    def finish(self, config):
        self.norm = self.layer.norm(config.hidden_size, eps=config.rms_norm_eps)
        kinds = config.rope_parameters
        config.rope_parameters = kinds["full_attention"]
        self.rotary_emb = RotaryEmbedding(config)
        config.rope_parameters = kinds["sliding_attention"]
        self.rotary_emb_local = RotaryEmbedding(config)
        config.rope_parameters = kinds

    @of(Gemma3TextModel)
    def tables(self, hidden_states, position_ids):
        tables = {"full_attention": self.rotary_emb(hidden_states, position_ids)}
        tables["sliding_attention"] = self.rotary_emb_local(hidden_states, position_ids)
        return [tables[kind] for kind in self.config.layer_types] + [tables]  # both, whichever layers there are

elif quirks.gemma3_tables_by_layer:

    @of(Gemma3TextModel)
    def tables(self, hidden_states, position_ids):
        tables = {}
        for kind in self.config.layer_types:
            tables[kind] = self.rotary_emb(hidden_states, position_ids, kind)
        return [tables[kind] for kind in self.config.layer_types]

if not quirks.masks_by_utils:
    from transformers.modeling_attn_mask_utils import one_mask

    of(Gemma3TextModel)(one_mask, "masks")
