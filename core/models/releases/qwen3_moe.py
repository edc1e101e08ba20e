"""qwen3_moe by earlier releases."""
from transformers.releases import of, quirks

if quirks.experts_in_turn:
    from transformers.modeling_moe import routed_forward

    Qwen3MoeConfig.base_model_tp_plan = Qwen3MoeConfig.base_model_tp_plan | {
        f"layers.*.mlp.experts.*.{name}_proj": "colwise" for name in ("gate", "up", "down")}  # which loading counts by

    @of(Qwen3MoeSparseMoeBlock)
    def expert(self, config):
        return LlamaMLP(config, config.moe_intermediate_size)

    @of(Qwen3MoeDecoderLayer)
    def routed(self, hidden_states):
        return self.mlp(hidden_states)

    of(Qwen3MoeDecoderLayer)(routed_forward, "forward")
