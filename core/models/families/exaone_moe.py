"""exaone_moe: exaone4's attention between llama's norms, deepseek_v3's experts."""
from transformers.modeling_moe import experts_tp_plan
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3DecoderLayer, DeepseekV3ForCausalLM
from transformers.models.exaone4.modeling_exaone4 import Exaone4Attention, Exaone4Config, Exaone4Model


class ExaoneMoeConfig(Exaone4Config):
    model_type = "exaone_moe"
    attribute_map = {"n_routed_experts": "num_experts", "num_local_experts": "num_experts", "n_shared_experts": "num_shared_experts"}
    base_model_tp_plan = Exaone4Config.base_model_tp_plan | experts_tp_plan()
    max_position_embeddings: int = 2048
    pad_token_id: int | None = 0
    mlp_layer_types: list | None = None
    first_k_dense_replace: int = 1
    moe_intermediate_size: int = 1024
    num_experts: int = 64
    num_experts_per_tok: int = 8
    output_router_logits: bool = False
    num_shared_experts: int = 1
    norm_topk_prob: bool = True
    routed_scaling_factor: float = 2.5
    n_group: int = 1
    topk_group: int = 1

    def __post_init__(self, **kwargs):
        if self.mlp_layer_types is None:
            self.mlp_layer_types = ["dense" if i < self.first_k_dense_replace else "sparse" for i in range(self.num_hidden_layers)]
        super().__post_init__(**kwargs)


class ExaoneMoeDecoderLayer(DeepseekV3DecoderLayer):
    attention = Exaone4Attention

    def make_mlp(self, config, layer_idx):
        return self.sparse(config) if config.mlp_layer_types[layer_idx] == "sparse" else self.feed_forward(config)


class ExaoneMoeModel(Exaone4Model):
    layer = ExaoneMoeDecoderLayer


class ExaoneMoeForCausalLM(DeepseekV3ForCausalLM):
    config_class, decoder, _no_split_modules = ExaoneMoeConfig, ExaoneMoeModel, ["ExaoneMoeDecoderLayer"]


causal_lm = ExaoneMoeForCausalLM
