"""deepseek_v3 by earlier releases: latents are expanded before anything turns, and keys are laid beside each other."""
from transformers.releases import of, quirks

if not quirks.latents_expand_last:

    @of(DeepseekV3Attention)
    def forward(self, hidden_states, position_embeddings=None, attention_mask=None, past_key_values=None, **kwargs):
        batch, length = hidden_states.shape[:-1]
        q = self.queries(hidden_states)
        q = q.view((batch, length, -1, self.head_dim)).transpose(1, 2)
        q_pass, q_rot = torch.split(q, [self.nope_dim, self.rope_dim], dim=-1)
        compressed = self.kv_a_proj_with_mqa(hidden_states)
        k_pass, k_rot = torch.split(compressed, [self.config.kv_lora_rank, self.rope_dim], dim=-1)
        k_pass = self.kv_b_proj(self.kv_a_layernorm(k_pass)).view((batch, length, -1, self.nope_dim + self.value_dim)).transpose(1, 2)
        k_pass, value = torch.split(k_pass, [self.nope_dim, self.value_dim], dim=-1)
        k_rot = k_rot.view(batch, 1, length, self.rope_dim)
        q_rot, k_rot = self.turn(q_rot, k_rot, position_embeddings)
        k_rot = k_rot.expand(*k_pass.shape[:-1], -1)
        query = torch.cat((q_pass, q_rot), dim=-1)
        key = torch.cat((k_pass, k_rot), dim=-1)
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, self.layer_idx)
        padded = self.config._attn_implementation == "flash_attention_2" and self.head_dim != self.value_dim
        if padded:
            value = nn.functional.pad(value, [0, self.head_dim - self.value_dim])
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, self.eager)
        output, weights = attend(self, query, key, value, attention_mask, dropout=self.attention_dropout if self.training else 0.0,
                                 scaling=self.scaling, **kwargs)
        if padded:
            output = output[:, :, :, : self.value_dim]
        output = output.reshape(batch, length, -1).contiguous()
        output = self.o_proj(output)
        return output, weights


if quirks.experts_in_turn:

    DeepseekV3Config.base_model_tp_plan = DeepseekV3Config.base_model_tp_plan | {  # "layers.*.mlp": "gather", which loading finds in every name beneath
        "layers.*.mlp.gate": "gather", **{f"layers.*.mlp.experts.*.{name}_proj": "gather" for name in ("gate", "up", "down")}}

    @of(DeepseekV3MoE)
    def __init__(self, config):
        nn.Module.__init__(self)
        self.experts = nn.ModuleList([LlamaMLP(config, config.moe_intermediate_size) for _ in range(config.n_routed_experts)])
        self.gate = self.router(config)
        self.shared_experts = LlamaMLP(config, config.moe_intermediate_size * config.n_shared_experts)

    @of(DeepseekV3MoE)
    def moe(self, hidden_states, indices, weights):
        out = torch.zeros_like(hidden_states, dtype=weights.dtype)
        expert_mask = nn.functional.one_hot(indices, num_classes=len(self.experts))
        expert_mask = expert_mask.permute(2, 0, 1)
        for i in range(len(self.experts)):
            expert = self.experts[i]
            mask = expert_mask[i]
            rows, places = torch.nonzero(mask).unbind(1)
            if rows.numel() > 0:
                of_rows = weights[rows, places]
                given = hidden_states[rows]
                made = expert(given)
                weighted = made * of_rows.unsqueeze(-1)
                out.index_add_(0, rows, weighted)
        return out.type(hidden_states.dtype)

    @of(DeepseekV3MoE)
    def forward(self, hidden_states):
        residuals = hidden_states
        shape = hidden_states.shape
        indices, weights = self.gate(hidden_states)
        hidden_states = hidden_states.view(-1, hidden_states.shape[-1])
        hidden_states = self.moe(hidden_states, indices, weights).view(*shape)
        hidden_states = hidden_states + self.shared_experts(residuals)
        return hidden_states
