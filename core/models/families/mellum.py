"""mellum: qwen3_moe with experts in every layer, windows in some, and a rotation for each kind of layer."""
from transformers.masking_utils import by_kind, create_causal_mask, create_sliding_window_causal_mask
from transformers.modeling_decoder import DecoderOfKinds
from transformers.modeling_rope_utils import RotaryEmbeddingOfKinds
from transformers.models.qwen3_moe.modeling_qwen3_moe import (
    Qwen3MoeAttention, Qwen3MoeConfig, Qwen3MoeDecoderLayer, Qwen3MoeForCausalLM, Qwen3MoeModel,
)


class MellumConfig(Qwen3MoeConfig):
    model_type = "mellum"
    vocab_size: int = 98304
    hidden_size: int = 2304
    intermediate_size: int = 7168
    num_hidden_layers: int = 28
    head_dim: int = 128
    max_position_embeddings: int = 131072
    sliding_window: int | None = 1024
    num_experts: int = 64
    moe_intermediate_size: int = 896
    norm_topk_prob: bool = True
    layer_types: list | None = None
    mlp_layer_types: list | None = None

    def __post_init__(self, **kwargs):
        self.layer_types = self.layer_types or ["full_attention"] * self.num_hidden_layers
        self.mlp_layer_types = self.mlp_layer_types or ["sparse"] * self.num_hidden_layers
        self.use_sliding_window = True
        super().__post_init__(**kwargs)

    def _rope(self, others):
        self.rope_by_kind(others, 500000.0, 10000.0)


class MellumAttention(Qwen3MoeAttention):
    def window(self, config, layer_idx):
        return config.sliding_window if config.layer_types[layer_idx] == "sliding_attention" else None


class MellumDecoderLayer(Qwen3MoeDecoderLayer):
    attention = MellumAttention

    def make_mlp(self, config, layer_idx):
        return self.sparse(config) if config.mlp_layer_types[layer_idx] == "sparse" else self.feed_forward(config)


class MellumModel(DecoderOfKinds, Qwen3MoeModel):
    layer, rotary = MellumDecoderLayer, RotaryEmbeddingOfKinds

    def masks(self, **of):
        make, kinds = {"full_attention": create_causal_mask, "sliding_attention": create_sliding_window_causal_mask}, self.config.layer_types
        return by_kind({kind: make[kind](**of) for kind in self.kinds_in_turn(kinds)}, kinds)


class MellumForCausalLM(Qwen3MoeForCausalLM):
    config_class, decoder, _no_split_modules = MellumConfig, MellumModel, ["MellumDecoderLayer"]


causal_lm = MellumForCausalLM
