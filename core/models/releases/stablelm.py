"""stablelm by earlier releases."""
from transformers.releases import of, quirks

StableLmForCausalLM.upcasts = False  # the logits, before there was a function for the loss

if quirks.rope_tables_kept:
    from transformers.models.llama.modeling_llama import reads_tables, turn_at

    reads_tables(StableLmAttention)

    @of(StableLmAttention)
    def tables(self, x, position_ids, position_embeddings):
        return self.rotary_emb(x, x.shape[-2])

    @of(StableLmAttention)
    def turn(self, q, k, cos, sin, position_ids):
        n = int(self.head_dim * self.config.rope_parameters["partial_rotary_factor"])
        q_part, q_rest = q[..., :n], q[..., n:]
        k_part, k_rest = k[..., :n], k[..., n:]
        q_part, k_part = turn_at(self, q_part, k_part, cos, sin, position_ids)
        q = torch.cat((q_part, q_rest), dim=-1)
        k = torch.cat((k_part, k_rest), dim=-1)
        return q, k, q_part, q_rest, k_part, k_rest


if not quirks.interface_attention:

    @of(StableLmAttention)
    def normed(self, q, k):
        if self.config.qk_layernorm:
            q = self.q_layernorm(q)
            k = self.k_layernorm(k)
        return q, k

    if quirks.starcoder2_masks_in_place:

        @of(StableLmAttention)
        def masked(self, scores, attention_mask):
            scores += attention_mask
            return scores
