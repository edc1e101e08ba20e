"""mixtral by earlier releases."""
from transformers.releases import of, quirks

MixtralConfig.leaves_head_dim = quirks.head_dim_left > 0

if quirks.experts_in_turn:
    from transformers.activations import ACT2FN
    from transformers.modeling_moe import routed_forward

    class MixtralBlockSparseTop2MLP(nn.Module):
        def __init__(self, config):
            super().__init__()
            self.w1 = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
            self.w2 = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)
            self.w3 = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
            self.act_fn = ACT2FN[config.hidden_act]

        def forward(self, hidden_states):
            current_hidden_states = self.act_fn(self.w1(hidden_states)) * self.w3(hidden_states)
            current_hidden_states = self.w2(current_hidden_states)
            return current_hidden_states

    MixtralSparseMoeBlock.expert = staticmethod(MixtralBlockSparseTop2MLP)
    MixtralConfig.base_model_tp_plan = MixtralConfig.base_model_tp_plan | {
        "layers.*.block_sparse_moe.gate": "colwise_rep", **{f"layers.*.block_sparse_moe.experts.*.w{i}": "colwise" for i in (1, 2, 3)}}  # which loading counts by

    @of(MixtralDecoderLayer)
    def __init__(self, config, layer_idx):
        nn.Module.__init__(self)
        self.self_attn = self.attention(config, layer_idx)
        self.block_sparse_moe = self.feed_forward(config)
        self.input_layernorm = self.norm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = self.norm(config.hidden_size, eps=config.rms_norm_eps)

    @of(MixtralDecoderLayer)
    def routed(self, hidden_states):
        return self.block_sparse_moe(hidden_states)

    of(MixtralDecoderLayer)(routed_forward, "forward")

if not quirks.router_keeps_logits:

    @of(MixtralTopKRouter)
    def forward(self, hidden_states):
        hidden_states = hidden_states.reshape(-1, self.hidden_dim)
        router_logits = nn.functional.linear(hidden_states, self.weight)
        router_logits = nn.functional.softmax(router_logits.float(), dim=-1)
        top_value, indices = torch.topk(router_logits, self.top_k, dim=-1)
        top_value /= top_value.sum(dim=-1, keepdim=True)
        self.record(router_logits)
        return router_logits, top_value, indices
