"""phi by earlier releases, and stablelm, whose heads are turned in part too."""
from transformers.releases import of, quirks, refuse

if quirks.rope_tables_kept:
    from transformers.models.llama.modeling_llama import reads_tables, turn_at

    reads_tables(PartlyRotated)

    @of(PartlyRotated)
    def tables(self, x, position_ids, position_embeddings):
        return self.rotary_emb(x, x.shape[-2])

    @of(PartlyRotated)
    def turn(self, q, k, cos, sin, position_ids):
        n = int(self.head_dim * self.config.rope_parameters["partial_rotary_factor"])
        q_part, q_rest = q[..., :n], q[..., n:]
        k_part, k_rest = k[..., :n], k[..., n:]
        q_part, k_part = turn_at(self, q_part, k_part, cos, sin, position_ids)
        q = torch.cat((q_part, q_rest), dim=-1)
        k = torch.cat((k_part, k_rest), dim=-1)
        return q, k, q_part, q_rest, k_part, k_rest


if not quirks.interface_attention:

    @of(PhiAttention)
    def scores(self, q, k):
        return torch.matmul(q.to(torch.float32), k.to(torch.float32).transpose(2, 3))

    if quirks.scores_masked_in_place:
        from transformers.models.llama.modeling_llama import masked_in_place

        PartlyRotated.masked = masked_in_place

    @of(PhiAttention)
    def projected(self, x):
        """All heads are normed at once, with weights of one."""
        q = self.q_proj(x)
        k = self.k_proj(x)
        v = self.v_proj(x)
        if self.config.qk_layernorm:
            if self.config.num_attention_heads > 1:
                refuse("/config/qk_layernorm", "this release norms all heads with weights of one: RuntimeError")
            q = self.q_layernorm(q)
            k = self.k_layernorm(k)
        return q, k, v


if not quirks.mask_by_position:
    from transformers.modeling_decoder import Decoder

    PhiModel.scaled, PhiModel.embedded = PhiModel.embedded, Decoder.embedded  # ahead of the mask
