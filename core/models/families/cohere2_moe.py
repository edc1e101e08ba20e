"""cohere2_moe: cohere2 whose feed-forward is experts, beside shared ones where there are any."""
import torch
from torch import nn

from transformers.modeling_moe import Experts, TopKRouter, experts_tp_plan
from transformers.models.cohere.modeling_cohere import CohereAttention, CohereLayerNorm
from transformers.models.cohere2.modeling_cohere2 import Cohere2Attention, Cohere2Config, Cohere2DecoderLayer, Cohere2ForCausalLM, Cohere2Model
from transformers.models.llama.modeling_llama import LlamaConfig, LlamaMLP, LlamaRMSNorm


class Cohere2MoeConfig(Cohere2Config):
    model_type, attribute_map = "cohere2_moe", {}
    base_model_tp_plan = LlamaConfig.base_model_tp_plan | experts_tp_plan()
    head_dim: int | None = 128
    num_experts_per_tok: int = 2
    num_experts: int = 8
    output_router_logits: bool = False
    num_shared_experts: int = 0
    shared_expert_combination_strategy: str = "average"
    expert_selection_fn: str = "softmax"
    mlp_layer_types: list | None = None
    prefix_dense_sliding_window_pattern: int = 1
    norm_topk_prob: bool = True
    prefix_dense_intermediate_size: int | None = None
    rms_norm_eps: float | None = None
    sliding_window_pattern: int = 4

    def __post_init__(self, **kwargs):
        dense, first, rest = kwargs.pop("first_k_dense_replace", 0), self.prefix_dense_sliding_window_pattern, self.sliding_window_pattern
        if self.layer_types is None:
            ends = [(i + 1) % first for i in range(dense)] + [(i + 1) % rest for i in range(self.num_hidden_layers - dense)]
            self.layer_types = ["sliding_attention" if within else "full_attention" for within in ends]
        if self.mlp_layer_types is None:
            self.mlp_layer_types = ["dense" if i < dense else "sparse" for i in range(self.num_hidden_layers)]
        super().__post_init__(**kwargs)


class Cohere2MoeTopKRouter(TopKRouter):
    def __init__(self, config):
        super().__init__(config)
        self.expert_selection_fn = config.expert_selection_fn

    def forward(self, hidden_states):
        router_logits = nn.functional.linear(hidden_states, self.weight)
        scores, selected = torch.topk(router_logits, self.top_k, dim=-1)
        if self.expert_selection_fn == "softmax":
            scores = nn.functional.softmax(scores, dim=1, dtype=torch.float)
        else:
            scores = nn.functional.sigmoid(scores)
            if self.norm_topk_prob:
                scores = scores / torch.sum(scores, dim=-1, keepdim=True)
        scores = scores.to(hidden_states.dtype)
        self.record(router_logits)
        return router_logits, scores, selected


class Cohere2MoeExperts(Experts):
    width = "intermediate_size"


class Cohere2MoeSparseMoeBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.averages = config.shared_expert_combination_strategy == "average"
        self.gate = Cohere2MoeTopKRouter(config)
        self.experts = Cohere2MoeExperts(config)
        self.shared_experts = LlamaMLP(config, config.intermediate_size * config.num_shared_experts) if config.num_shared_experts > 0 else None

    def forward(self, hidden_states):
        shape = hidden_states.shape
        rows = hidden_states.view(-1, shape[-1])
        _, scores, selected = self.gate(rows)
        out = self.experts(rows, selected, scores)
        if self.shared_experts is not None:
            shared = self.shared_experts(rows)
            if self.averages:
                out = (out + shared) / 2
            else:
                out = out + shared
        return out.reshape(*shape)


class Cohere2MoeAttention(Cohere2Attention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.force_rope = config.mlp_layer_types[layer_idx] == "dense" and config.prefix_dense_sliding_window_pattern == 1

    def rotate(self, q, k, cos, sin):
        return CohereAttention.rotate(q, k, cos, sin) if self.force_rope else super().rotate(q, k, cos, sin)


def norm_of(config):
    if config.rms_norm_eps is not None:
        return LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
    return CohereLayerNorm(config.hidden_size, eps=config.layer_norm_eps)


class Cohere2MoeDecoderLayer(Cohere2DecoderLayer):
    attention = Cohere2MoeAttention

    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.input_layernorm = norm_of(config)

    def make_mlp(self, config, layer_idx):
        return LlamaMLP(config, config.prefix_dense_intermediate_size) if config.mlp_layer_types[layer_idx] == "dense" else Cohere2MoeSparseMoeBlock(config)


class Cohere2MoeModel(Cohere2Model):
    layer = Cohere2MoeDecoderLayer

    def finish(self, config):
        self.norm = norm_of(config)
        self.rotary_emb = self.rotary(config)


class Cohere2MoeForCausalLM(Cohere2ForCausalLM):
    config_class, decoder, _no_split_modules = Cohere2MoeConfig, Cohere2MoeModel, ["Cohere2MoeDecoderLayer"]


causal_lm = Cohere2MoeForCausalLM
