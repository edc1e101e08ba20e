"""hy_v3: minimax_m2's choice of experts, beside a shared one and added to it in fp32, over llama's attention with norms over heads."""
import torch
from torch import nn

from transformers.modeling_moe import Experts, experts_tp_plan
from transformers.models.apertus.modeling_apertus import ApertusAttention
from transformers.models.deepseek_v3.modeling_deepseek_v3 import EXPERTS_BESIDE_SHARED
from transformers.models.llama.modeling_llama import LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaMLP, LlamaModel
from transformers.models.minimax_m2.modeling_minimax_m2 import MiniMaxM2SparseMoeBlock, MiniMaxM2TopKRouter
from transformers.models.qwen3.modeling_qwen3 import Qwen3Config


class HYV3Config(LlamaConfig):
    model_type, default_theta = "hy_v3", 11158840.0
    attribute_map = {"num_local_experts": "num_experts"}
    base_model_tp_plan = Qwen3Config.base_model_tp_plan | EXPERTS_BESIDE_SHARED
    bos_token_id: int | None = None
    vocab_size: int = 120832
    intermediate_size: int = 13312
    num_hidden_layers: int = 80
    num_attention_heads: int = 64
    num_key_value_heads: int = 8
    head_dim: int = 128
    max_position_embeddings: int = 131072
    rms_norm_eps: float = 1e-5
    num_experts: int | None = 192
    num_experts_per_tok: int | None = 8
    num_shared_experts: int | None = 1
    moe_intermediate_size: int = 1536
    router_scaling_factor: float = 2.826
    enable_moe_fp32_combine: bool = True
    mlp_layer_types: list | None = None
    output_router_logits: bool = False
    router_jitter_noise: float = 0.0

    def __post_init__(self, **kwargs):
        if self.mlp_layer_types is None:
            self.mlp_layer_types = ["dense"] + ["sparse"] * (self.num_hidden_layers - 1)
        super().__post_init__(**kwargs)


class HYV3TopKRouter(MiniMaxM2TopKRouter):
    def __init__(self, config):
        super().__init__(config)
        self.scale = config.router_scaling_factor

    def forward(self, hidden_states, correction):
        hidden_states = hidden_states.reshape(-1, self.hidden_dim)
        router_logits = nn.functional.linear(hidden_states.float(), self.weight.float())
        scores = torch.sigmoid(router_logits)
        choice = scores + correction
        _, indices = torch.topk(choice, self.top_k, dim=-1, sorted=False)
        weights = scores.gather(1, indices)
        weights = weights / (weights.sum(dim=-1, keepdim=True) + 1e-20)
        weights = weights * self.scale
        self.record(router_logits)
        return router_logits, weights, indices


class HYV3MoE(MiniMaxM2SparseMoeBlock):
    router, experts_class = HYV3TopKRouter, Experts

    def __init__(self, config):
        super().__init__(config)
        self.in_fp32 = config.enable_moe_fp32_combine
        self.shared_experts = LlamaMLP(config, config.moe_intermediate_size * config.num_shared_experts)

    def forward(self, hidden_states):
        batch_size, sequence_length, hidden_dim = hidden_states.shape
        hidden_states = hidden_states.view(-1, hidden_dim)
        _, weights, indices = self.route(hidden_states)
        out = self.experts(hidden_states, indices, weights)
        if self.in_fp32:
            hidden_states = (out.float() + self.shared_experts(hidden_states).float()).to(hidden_states.dtype)
        else:
            hidden_states = out + self.shared_experts(hidden_states)
        return hidden_states.reshape(batch_size, sequence_length, hidden_dim)


class HYV3DecoderLayer(LlamaDecoderLayer):
    attention = ApertusAttention

    def make_mlp(self, config, layer_idx):
        return HYV3MoE(config) if config.mlp_layer_types[layer_idx] == "sparse" else self.feed_forward(config)


class HYV3Model(LlamaModel):
    layer = HYV3DecoderLayer


class HYV3ForCausalLM(LlamaForCausalLM):
    config_class, decoder, _no_split_modules = HYV3Config, HYV3Model, ["HYV3DecoderLayer"]


causal_lm = HYV3ForCausalLM
