from transformers.releases import of, quirks

if not quirks.gemma4_routes_in_float:

    @of(Gemma4TextRouter)
    def probabilities(self, scores):
        return nn.functional.softmax(scores, dim=-1)

if quirks.gemma4_always_stores:
    Gemma4TextConfig.always_stores = True
