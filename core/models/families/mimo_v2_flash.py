"""mimo_v2_flash: values narrower than keys, windows with sinks between layers of full attention, experts. Its parameters; a step is not modelled."""
import torch
from torch import nn

from transformers.modeling_inventory import InventoryOnly
from transformers.modeling_moe import Experts, GroupedRouter, SparseMoeBlock, experts_tp_plan
from transformers.modeling_rope_utils import RotaryEmbeddingOfKinds
from transformers.models.llama.modeling_llama import LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaModel


class MiMoV2FlashConfig(LlamaConfig):
    model_type = "mimo_v2_flash"
    attribute_map = {"num_experts": "n_routed_experts", "num_local_experts": "n_routed_experts"}
    base_model_tp_plan = None
    vocab_size: int = 152576
    intermediate_size: int = 16384
    num_hidden_layers: int = 48
    num_attention_heads: int = 64
    num_key_value_heads: int | None = 4
    max_position_embeddings: int = 131072
    rms_norm_eps: float = 1e-5
    moe_intermediate_size: int = 2048
    num_experts_per_tok: int = 8
    output_router_logits: bool = False
    n_routed_experts: int = 256
    routed_scaling_factor: float | None = 1.0
    n_group: int = 1
    topk_group: int = 1
    norm_topk_prob: bool = True
    head_dim: int | None = 192
    v_head_dim: int = 128
    sliding_window: int = 129
    layer_types: list | None = None
    mlp_layer_types: list | None = None

    def __post_init__(self, **kwargs):
        layers = range(self.num_hidden_layers)
        self.layer_types = self.layer_types or ["full_attention" if i == 0 or not (i + 1) % 6 else "sliding_attention" for i in layers]
        self.mlp_layer_types = self.mlp_layer_types or ["sparse" if i else "dense" for i in layers]
        if self.rope_parameters is None:
            thetas = {"full_attention": 5000000.0, "sliding_attention": 10000.0}
            self.rope_parameters = {kind: {"rope_type": "default", "rope_theta": theta, "partial_rotary_factor": 0.334} for kind, theta in thetas.items()}
        self.routed_scaling_factor = 1.0 if self.routed_scaling_factor is None else self.routed_scaling_factor
        if kwargs.get("sliding_window_size") is not None:
            self.sliding_window = kwargs["sliding_window_size"] + 1
        super().__post_init__(**kwargs)


class MiMoV2FlashAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        slides = config.layer_types[layer_idx] == "sliding_attention"
        heads, kv_heads = config.num_attention_heads, config.num_key_value_heads * (2 if slides else 1)
        self.q_proj = nn.Linear(config.hidden_size, heads * config.head_dim, bias=config.attention_bias)
        self.k_proj = nn.Linear(config.hidden_size, kv_heads * config.head_dim, bias=config.attention_bias)
        self.v_proj = nn.Linear(config.hidden_size, kv_heads * config.v_head_dim, bias=config.attention_bias)
        self.o_proj = nn.Linear(heads * config.v_head_dim, config.hidden_size, bias=False)
        if slides:
            self.sinks = nn.Parameter(torch.empty(heads))


class MiMoV2FlashMoE(SparseMoeBlock):
    router, experts_class, made = GroupedRouter, Experts, ("experts", "gate")


class MiMoV2FlashDecoderLayer(LlamaDecoderLayer):
    attention = MiMoV2FlashAttention

    def make_mlp(self, config, layer_idx):
        return MiMoV2FlashMoE(config) if config.mlp_layer_types[layer_idx] == "sparse" else self.feed_forward(config)


class MiMoV2FlashModel(LlamaModel):
    layer, rotary = MiMoV2FlashDecoderLayer, RotaryEmbeddingOfKinds


class MiMoV2FlashForCausalLM(InventoryOnly, LlamaForCausalLM):
    config_class, decoder, _no_split_modules = MiMoV2FlashConfig, MiMoV2FlashModel, ["MiMoV2FlashDecoderLayer"]


causal_lm = MiMoV2FlashForCausalLM
