"""stablelm by earlier releases."""
from transformers.releases import of, quirks

StableLmForCausalLM.upcasts = False  # the logits, before there was a function for the loss

if not quirks.interface_attention:

    @of(StableLmAttention)
    def normed(self, q, k):
        if self.config.qk_layernorm:
            q = self.q_layernorm(q)
            k = self.k_layernorm(k)
        return q, k
