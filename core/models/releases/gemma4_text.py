from transformers.releases import of, quirks

if not quirks.gemma4_routes_in_float:

    @of(Gemma4TextRouter)
    def probabilities(self, scores):
        return nn.functional.softmax(scores, dim=-1)

if quirks.gemma4_always_stores:

    @of(Gemma4TextConfig)
    def sharing(self, layer_idx):
        first = self.num_hidden_layers - self.num_kv_shared_layers
        kind = self.layer_types[layer_idx]
        if layer_idx >= first:
            return "reuse"
        return None if kind in self.layer_types[layer_idx + 1 : first] else "store"
