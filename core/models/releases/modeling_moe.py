"""Mixtures of experts by earlier releases."""
from transformers.releases import of, quirks, refuse

if not quirks.balance_summed_by_layer:

    def load_balancing_loss_func(gate_logits, num_experts, top_k, attention_mask=None):
        compute_device = gate_logits[0].device
        concatenated_gate_logits = torch.cat([layer_gate.to(compute_device) for layer_gate in gate_logits], dim=0)
        routing_weights = nn.functional.softmax(concatenated_gate_logits, dim=-1)
        _, selected_experts = torch.topk(routing_weights, top_k, dim=-1)
        expert_mask = nn.functional.one_hot(selected_experts, num_experts)
        if attention_mask is None:
            tokens_per_expert = torch.mean(expert_mask.float(), dim=0)
            router_prob_per_expert = torch.mean(routing_weights, dim=0)
        else:
            batch_size, sequence_length = attention_mask.shape
            layers = concatenated_gate_logits.shape[0] // (batch_size * sequence_length)
            expert_attention_mask = (
                attention_mask[None, :, :, None, None]
                .expand((layers, batch_size, sequence_length, top_k, num_experts))
                .reshape(-1, top_k, num_experts)
                .to(compute_device)
            )
            tokens_per_expert = torch.sum(expert_mask.float() * expert_attention_mask, dim=0) / torch.sum(expert_attention_mask, dim=0)
            router_per_expert_attention_mask = (
                attention_mask[None, :, :, None]
                .expand((layers, batch_size, sequence_length, num_experts))
                .reshape(-1, num_experts)
                .to(compute_device)
            )
            router_prob_per_expert = torch.sum(routing_weights * router_per_expert_attention_mask, dim=0) / torch.sum(
                router_per_expert_attention_mask, dim=0)
        overall_loss = torch.sum(tokens_per_expert * router_prob_per_expert.unsqueeze(0))
        return overall_loss * num_experts


if not quirks.balance_by_histc:

    def counts_of(selected, num_experts):
        return torch.bincount(selected, minlength=num_experts).float()


if not quirks.loss_by_function:
    from transformers.modeling_decoder import shifted_loss

    @of(MoeCausalLM)
    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, labels=None, output_router_logits=None, logits_to_keep=0, **kwargs):
        asked = output_router_logits if output_router_logits is not None else self.config.output_router_logits
        outputs = getattr(self, self.base_model_prefix)(input_ids=input_ids, attention_mask=attention_mask, output_router_logits=asked, **kwargs)
        hidden_states = outputs.last_hidden_state
        logits = self.logits(slice_logits_to_keep(hidden_states, logits_to_keep))
        if self.upcasts:
            logits = logits.float()
        loss = None
        if labels is not None:
            loss, shift_logits, shift_labels = shifted_loss(logits, labels, self.config.vocab_size)
        return balanced(self.config, outputs, logits, loss, attention_mask, asked)


if not quirks.router_keeps_logits:

    @of(TopKRouter)
    def forward(self, hidden_states):
        hidden_states = hidden_states.reshape(-1, self.hidden_dim)
        router_logits = nn.functional.linear(hidden_states, self.weight)
        router_logits = nn.functional.softmax(router_logits, dtype=torch.float, dim=-1)
        top_value, indices = torch.topk(router_logits, self.top_k, dim=-1)
        if self.norm_topk_prob:
            top_value /= top_value.sum(dim=-1, keepdim=True)
        self.record(router_logits)
        return router_logits, top_value, indices


if not quirks.router_groups_itself and not quirks.experts_in_turn:

    @of(GroupedRouter)
    def forward(self, hidden_states):
        """And the block's route_tokens_to_experts(), whose names die with it."""
        hidden_states = hidden_states.view(-1, self.hidden_dim)
        router_logits = nn.functional.linear(hidden_states.type(torch.float32), self.weight.type(torch.float32))
        scores = router_logits.sigmoid()
        choice = scores + self.e_score_correction_bias
        group_scores = choice.view(-1, self.num_group, self.num_experts // self.num_group).topk(2, dim=-1)[0].sum(dim=-1)
        groups = torch.topk(group_scores, k=self.topk_group, dim=-1, sorted=False)[1]
        mask = torch.zeros_like(group_scores)
        mask.scatter_(1, groups, 1)
        expert_mask = mask.unsqueeze(-1).expand(-1, self.num_group, self.num_experts // self.num_group).reshape(-1, self.num_experts)
        chosen = choice.masked_fill(~expert_mask.bool(), 0.0)
        indices = torch.topk(chosen, k=self.top_k, dim=-1, sorted=False)[1]
        weights = scores.gather(1, indices)
        if self.norm_topk_prob:
            total = weights.sum(dim=-1, keepdim=True) + 1e-20
            weights /= total
        weights = weights * self.routed_scaling_factor
        self.record(router_logits)
        return router_logits, weights, indices


if quirks.experts_in_turn:

    @of(GroupedRouter)
    @torch.no_grad()
    def chosen(self, scores):
        choice = scores.view(-1, self.num_experts) + self.e_score_correction_bias.unsqueeze(0)
        group_scores = choice.view(-1, self.num_group, self.num_experts // self.num_group).topk(2, dim=-1)[0].sum(dim=-1)
        groups = torch.topk(group_scores, k=self.topk_group, dim=-1, sorted=False)[1]
        mask = torch.zeros_like(group_scores)
        mask.scatter_(1, groups, 1)
        expert_mask = mask.unsqueeze(-1).expand(-1, self.num_group, self.num_experts // self.num_group).reshape(-1, self.num_experts)
        choice = choice.masked_fill(~expert_mask.bool(), 0.0)
        return torch.topk(choice, k=self.top_k, dim=-1, sorted=False)[1]

    @of(GroupedRouter)
    def forward(self, hidden_states):
        hidden_states = hidden_states.view(-1, self.hidden_dim)
        router_logits = nn.functional.linear(hidden_states.type(torch.float32), self.weight.type(torch.float32))
        scores = router_logits.sigmoid()
        indices = self.chosen(scores)
        weights = scores.gather(1, indices)
        if self.norm_topk_prob:
            total = weights.sum(dim=-1, keepdim=True) + 1e-20
            weights /= total
        weights = weights * self.routed_scaling_factor
        return indices, weights

    @of(SparseMoeBlock)
    def __init__(self, config):
        """Each expert is an MLP of its own: expert(config) of the class makes one."""
        nn.Module.__init__(self)
        self.num_experts, self.top_k, self.norm_topk_prob = config.num_experts, config.num_experts_per_tok, getattr(config, "norm_topk_prob", True)
        self.gate = nn.Linear(config.hidden_size, self.num_experts, bias=False)
        self.experts = nn.ModuleList([self.expert(config) for _ in range(self.num_experts)])

    def experts_hit(mask):
        """Whom a mask is picked by, expert by expert."""
        numbers = range(mask.shape[0])
        if quirks.experts_in_turn == 1:
            return numbers
        hit = torch.nonzero(mask.sum(dim=(-1, -2)) > 0)
        return hit if quirks.experts_in_turn == 3 else numbers

    SparseMoeBlock.recorded, SparseMoeBlock.record = None, TopKRouter.record

    @of(SparseMoeBlock)
    def forward(self, hidden_states):
        batch_size, sequence_length, hidden_dim = hidden_states.shape
        hidden_states = hidden_states.view(-1, hidden_dim)
        router_logits = self.gate(hidden_states)
        self.record(router_logits)
        weights = nn.functional.softmax(router_logits, dim=1, dtype=torch.float)
        weights, chosen = torch.topk(weights, self.top_k, dim=-1)
        if self.norm_topk_prob:
            weights /= weights.sum(dim=-1, keepdim=True)
        weights = weights.to(hidden_states.dtype)
        out = torch.zeros((batch_size * sequence_length, hidden_dim), dtype=hidden_states.dtype, device=hidden_states.device)
        mask = nn.functional.one_hot(chosen, num_classes=self.num_experts).permute(2, 1, 0)
        hit = experts_hit(mask)
        for i in range(self.num_experts):
            idx, top_x = torch.nonzero(mask[hit[i]].squeeze(0) if quirks.experts_in_turn == 3 else mask[i]).unbind(1)
            current_state = hidden_states[None, top_x].reshape(-1, hidden_dim)
            current_hidden_states = self.experts[i](current_state) * weights[top_x, idx, None]
            out.index_add_(0, top_x, current_hidden_states.to(hidden_states.dtype))
        out = self.with_shared(hidden_states, out)
        return out.reshape(batch_size, sequence_length, hidden_dim), router_logits

    @of(SparseMoeBlock)
    def with_shared(self, hidden_states, out):
        """And what an expert of all tokens adds."""
        return out

    def routed_forward(self, hidden_states, attention_mask=None, position_ids=None, past_key_values=None, use_cache=False,
                       position_embeddings=None, **kwargs):
        """Of a decoder layer, which holds the router's logits until it returns."""
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        hidden_states, _ = self.self_attn(
            hidden_states=hidden_states, attention_mask=attention_mask, position_ids=position_ids, past_key_values=past_key_values,
            use_cache=use_cache, position_embeddings=position_embeddings, **kwargs)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.post_attention_layernorm(hidden_states)
        hidden_states = self.routed(hidden_states)
        if isinstance(hidden_states, tuple) and quirks.layers_return_tuples:
            hidden_states, router_logits = hidden_states
        elif isinstance(hidden_states, tuple):
            hidden_states, _ = hidden_states
        hidden_states = residual + hidden_states
        return hidden_states
