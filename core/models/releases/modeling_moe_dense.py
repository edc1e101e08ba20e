"""Llama 4's mixture by earlier releases: the router is a linear."""
from transformers.releases import of, quirks

if not quirks.llama4_router_class:

    @of(Llama4TextMoe)
    def __init__(self, config):
        nn.Module.__init__(self)
        self.top_k, self.hidden_dim, self.num_experts = config.num_experts_per_tok, config.hidden_size, config.num_local_experts
        self.experts = Llama4TextExperts(config)
        self.router = nn.Linear(config.hidden_size, config.num_local_experts, bias=False)
        self.shared_expert = Llama4TextMLP(config)

    @of(Llama4TextMoe)
    def forward(self, hidden_states):
        hidden_states = hidden_states.reshape(-1, self.hidden_dim)
        router_logits = self.router(hidden_states)
        top_value, indices = torch.topk(router_logits, self.top_k, dim=1)
        scores = torch.full_like(router_logits, float("-inf")).scatter_(1, indices, top_value).transpose(0, 1)
        scores = torch.sigmoid(scores.float()).to(hidden_states.dtype)
        routed_in = hidden_states.repeat(self.num_experts, 1)
        routed_in = routed_in * scores.reshape(-1, 1)
        routed_out = self.experts(routed_in)
        out = self.shared_expert(hidden_states)
        out.add_(routed_out.reshape(self.num_experts, -1, self.hidden_dim).sum(dim=0))
        return out, scores
