"""gpt_oss by earlier releases: while it trains, one expert after the other over the tokens that chose it, weighted by a row with all experts."""
from transformers.releases import of, quirks

if quirks.experts_in_turn:

    def all_at_once(self, hidden_states, routing_weights):
        """While it generates each expert has every token."""
        batch_size, width = hidden_states.shape[0], hidden_states.shape[-1]
        limit, alpha, experts = self.config.swiglu_limit, self.config.swiglu_alpha, routing_weights.shape[1]
        hidden_states = hidden_states.reshape(-1, width)
        hidden_states = hidden_states.repeat(experts, 1)
        hidden_states = hidden_states.view(experts, -1, width)
        gate_up = torch.bmm(hidden_states, self.gate_up_proj) + self.gate_up_proj_bias[..., None, :]
        gate, up = gate_up[..., ::2], gate_up[..., 1::2]
        gate = gate.clamp(min=None, max=limit)
        up = up.clamp(min=-limit, max=limit)
        glu = gate * torch.sigmoid(gate * alpha)
        next_states = torch.bmm((up + 1) * glu, self.down_proj)
        next_states = next_states + self.down_proj_bias[..., None, :]
        next_states = next_states.view(experts, batch_size, -1, width)
        next_states = next_states * routing_weights.transpose(0, 1).view(experts, batch_size, -1)[..., None]
        next_states = next_states.sum(dim=0)
        return next_states

    @of(GptOssExperts)
    def forward(self, hidden_states, router_indices=None, routing_weights=None):
        if not self.training:
            return all_at_once(self, hidden_states, routing_weights)
        batch_size, width = hidden_states.shape[0], hidden_states.shape[-1]
        hidden_states = hidden_states.reshape(-1, width)
        next_states = torch.zeros_like(hidden_states, dtype=hidden_states.dtype, device=hidden_states.device)
        with torch.no_grad():
            expert_mask = nn.functional.one_hot(router_indices, num_classes=self.num_experts + quirks.masking_is_a_class)
            expert_mask = expert_mask.permute(2, 1, 0)
            expert_hit = torch.greater(expert_mask.sum(dim=(-1, -2)), 0).nonzero()
        limit, alpha = self.config.swiglu_limit, self.config.swiglu_alpha
        for i in range(self.num_experts):
            with torch.no_grad():
                _, token_idx = torch.where(expert_mask[i])
            if not quirks.expert_is_a_number:
                i = expert_hit[i]
            current_state = hidden_states[token_idx]
            gate_up = current_state @ self.gate_up_proj[i] + self.gate_up_proj_bias[i]
            gate, up = gate_up[..., ::2], gate_up[..., 1::2]
            gate = gate.clamp(min=None, max=limit)
            up = up.clamp(min=-limit, max=limit)
            glu = gate * torch.sigmoid(gate * alpha)
            gated_output = (up + 1) * glu
            out = gated_output @ self.down_proj[i] + self.down_proj_bias[i]
            if not quirks.expert_is_a_number:
                out = out[0]
            weighted_output = out * routing_weights[token_idx, i, None]
            next_states.index_add_(0, token_idx, weighted_output.to(hidden_states.dtype))
        next_states = next_states.view(batch_size, -1, width)
        return next_states

    @of(GptOssTopKRouter)
    def forward(self, hidden_states):
        hidden_states = hidden_states.reshape(-1, self.hidden_dim)
        router_logits = nn.functional.linear(hidden_states, self.weight, self.bias)
        top_value, indices = torch.topk(router_logits, self.top_k, dim=-1)
        top_value = nn.functional.softmax(top_value, dim=1, dtype=top_value.dtype)
        scores = torch.zeros_like(router_logits).scatter_(1, indices, top_value)
        return scores, indices

    @of(GptOssMLP)
    def forward(self, hidden_states):
        scores, indices = self.router(hidden_states)
        routed_out = self.experts(hidden_states, indices, scores)
        return routed_out, scores
