"""ernie4_5_moe by earlier releases."""
from transformers.releases import of, quirks, refuse

if quirks.ernie_bias_is_a_number:
    of_model = Ernie4_5_MoeModel.__init__

    @of(Ernie4_5_MoeModel)
    def __init__(self, config):
        if isinstance(config.use_bias, bool):
            refuse("/config/use_bias", "transformers 5.4 takes a number alone and raises: configuration_ernie4_5_moe.py")
        of_model(self, config)

if quirks.experts_in_turn:
    from transformers.modeling_moe import experts_hit, routed_forward

    @of(Ernie4_5_MoeSparseMoeBlock)
    def __init__(self, config):
        nn.Module.__init__(self)
        self.num_experts, self.top_k, self.norm_min, shared = config.moe_num_experts, config.moe_k, config.moe_norm_min, config.moe_num_shared_experts
        self.moe_statics = Ernie4_5_MoeStatics(config)
        self.gate = nn.Linear(config.hidden_size, self.num_experts, bias=False, dtype=torch.float32)
        self.experts = nn.ModuleList([LlamaMLP(config, config.moe_intermediate_size) for _ in range(self.num_experts)])
        self.shared_experts = LlamaMLP(config, config.moe_intermediate_size * shared) if shared > 0 else None

    @of(Ernie4_5_MoeSparseMoeBlock)
    def forward(self, hidden_states):
        batch_size, sequence_length, hidden_dim = hidden_states.shape
        hidden_states = hidden_states.view(-1, hidden_dim)
        if self.shared_experts is not None:
            shared = self.shared_experts(hidden_states)
        with torch.autocast(device_type="cuda", enabled=False):
            router_logits = self.gate(hidden_states.float())
            weights = nn.functional.softmax(router_logits, dim=1, dtype=torch.float)
            _, chosen = torch.topk(self.moe_statics(weights), self.top_k, dim=-1)
            weights = torch.gather(weights, dim=-1, index=chosen)
            weights = weights / torch.clamp(weights.sum(dim=-1, keepdim=True), min=self.norm_min)
            weights = weights.to(hidden_states.dtype)
        out = torch.zeros((batch_size * sequence_length, hidden_dim), dtype=hidden_states.dtype, device=hidden_states.device)
        mask = nn.functional.one_hot(chosen, num_classes=self.num_experts).permute(2, 1, 0)
        hit = experts_hit(mask)
        for i in range(self.num_experts):
            idx, top_x = torch.nonzero(mask[hit[i]].squeeze(0)).unbind(1)
            current_state = hidden_states[None, top_x].reshape(-1, hidden_dim)
            current_hidden_states = self.experts[i](current_state) * weights[top_x, idx, None]
            out.index_add_(0, top_x, current_hidden_states.to(hidden_states.dtype))
        if self.shared_experts is not None:
            out = out + shared
        out = out.reshape(batch_size, sequence_length, hidden_dim)
        return out, router_logits

    @of(Ernie4_5_MoeDecoderLayer)
    def routed(self, hidden_states):
        return self.mlp(hidden_states)

    of(Ernie4_5_MoeDecoderLayer)(routed_forward, "forward")
