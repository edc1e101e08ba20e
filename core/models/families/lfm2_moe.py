"""lfm2_moe: lfm2 with experts after the first dense layers, chosen by biased scores."""
import torch
from torch import nn

from transformers.modeling_moe import SparseMoeBlock, TopKRouter, experts_tp_plan
from transformers.models.lfm2.modeling_lfm2 import Lfm2Config, Lfm2DecoderLayer, Lfm2ForCausalLM, Lfm2MLP, Lfm2Model


class Lfm2MoeConfig(Lfm2Config):
    model_type = "lfm2_moe"
    base_model_tp_plan = experts_tp_plan("layers.*.feed_forward.experts")
    hidden_size: int = 2048
    intermediate_size: int = 7168
    moe_intermediate_size: int = 1792
    block_auto_adjust_ff_dim: bool = False
    num_dense_layers: int = 2
    num_experts_per_tok: int = 4
    num_experts: int = 32
    use_expert_bias: bool = True
    routed_scaling_factor: float = 1.0
    norm_topk_prob: bool = True


class Lfm2MoeTopKRouter(TopKRouter):
    def __init__(self, config):
        super().__init__(config)
        self.routed_scaling_factor, self.use_expert_bias = config.routed_scaling_factor, config.use_expert_bias

    def forward(self, hidden_states, expert_bias=None):
        router_logits = nn.functional.linear(hidden_states, self.weight)
        weights = router_logits.sigmoid()
        if self.use_expert_bias:
            scores = weights + expert_bias
            _values, indices = torch.topk(scores, k=self.top_k, dim=-1)
            weights = torch.gather(weights, dim=1, index=indices).type_as(router_logits)
        else:
            weights, indices = torch.topk(weights, k=self.top_k, dim=-1)
        if self.norm_topk_prob:
            weights = weights / (weights.sum(dim=-1, keepdim=True) + 1e-6)
        weights = weights * self.routed_scaling_factor
        self.record(router_logits)
        return router_logits, weights, indices


class Lfm2MoeSparseMoeBlock(SparseMoeBlock):
    router, made = Lfm2MoeTopKRouter, ("experts", "gate")

    def __init__(self, config):
        super().__init__(config)
        if config.use_expert_bias:
            self.register_buffer("expert_bias", torch.zeros(config.num_experts, dtype=torch.float32))

    def route(self, hidden_states):
        return self.gate(hidden_states, getattr(self, "expert_bias", None))


class Lfm2MoeDecoderLayer(Lfm2DecoderLayer):
    def make_mlp(self, config, layer_idx):
        return Lfm2MLP(config) if layer_idx < config.num_dense_layers else Lfm2MoeSparseMoeBlock(config)


class Lfm2MoeModel(Lfm2Model):
    layer = Lfm2MoeDecoderLayer

    def finish(self, config):
        self.pos_emb = self.rotary(config)
        self.embedding_norm = self.layer.norm(config.hidden_size, eps=config.rms_norm_eps)

    def tables(self, hidden_states, position_ids):
        return [self.pos_emb(hidden_states, position_ids=position_ids)] * len(self.layers)


class Lfm2MoeForCausalLM(Lfm2ForCausalLM):
    config_class, decoder, _no_split_modules = Lfm2MoeConfig, Lfm2MoeModel, ["Lfm2MoeDecoderLayer"]


causal_lm = Lfm2MoeForCausalLM
