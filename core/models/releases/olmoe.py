"""olmoe by earlier releases: a class for each kernel, experts in a loop."""
from transformers.releases import of, quirks

if not quirks.interface_attention:

    @of(OlmoeAttention)
    def projected(self, x):
        q = self.q_norm(self.q_proj(x))
        k = self.k_norm(self.k_proj(x))
        v = self.v_proj(x)
        limit = self.config.clip_qkv
        for one in (q, k, v) if limit is not None else ():
            one.clamp_(min=-limit, max=limit)
        return q, k, v


if quirks.experts_in_turn:
    from transformers.modeling_moe import routed_forward
    from transformers.models.llama.modeling_llama import LlamaMLP

    @of(OlmoeSparseMoeBlock)
    def expert(self, config):
        return LlamaMLP(config)

    @of(OlmoeDecoderLayer)
    def routed(self, hidden_states):
        return self.mlp(hidden_states)

    of(OlmoeDecoderLayer)(routed_forward, "forward")
