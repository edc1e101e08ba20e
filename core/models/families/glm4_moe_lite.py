"""glm4_moe_lite: glm4_moe with deepseek_v3's latents; which layers have experts is a list."""
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention, DeepseekV3Config
from transformers.models.glm4_moe.modeling_glm4_moe import Glm4MoeDecoderLayer, Glm4MoeForCausalLM, Glm4MoeModel
from transformers.modeling_moe import experts_tp_plan


class Glm4MoeLiteConfig(DeepseekV3Config):
    model_type = "glm4_moe_lite"
    base_model_tp_plan = {"layers.*.self_attn.q_b_proj": "colwise", "layers.*.self_attn.kv_a_proj_with_mqa": "mla_kv_a_proj",
                          "layers.*.self_attn.kv_b_proj": "colwise", "layers.*.self_attn.o_proj": "rowwise"} | experts_tp_plan() | {
        f"layers.*.mlp.{n}_proj": "rowwise" if n == "down" else "colwise" for n in ("gate", "up", "down")}
    vocab_size: int = 154880
    hidden_size: int = 2048
    intermediate_size: int = 10240
    moe_intermediate_size: int = 1536
    num_hidden_layers: int = 47
    num_attention_heads: int = 20
    num_key_value_heads: int | None = 20
    n_routed_experts: int = 64
    routed_scaling_factor: float = 1.8
    q_lora_rank: int | None = 768
    v_head_dim: int | None = 256
    qk_nope_head_dim: int = 192
    n_group: int | None = 1
    topk_group: int | None = 1
    num_experts_per_tok: int | None = 4
    max_position_embeddings: int = 202752
    rms_norm_eps: float = 1e-5
    mlp_layer_types: list | None = None

    def __post_init__(self, **kwargs):
        if self.mlp_layer_types is None:
            self.mlp_layer_types = ["dense"] + ["sparse"] * (self.num_hidden_layers - 1)
        super().__post_init__(**kwargs)


class Glm4MoeLiteDecoderLayer(Glm4MoeDecoderLayer):
    attention = DeepseekV3Attention

    def make_mlp(self, config, layer_idx):
        return self.sparse(config) if config.mlp_layer_types[layer_idx] == "sparse" else self.feed_forward(config)


class Glm4MoeLiteModel(Glm4MoeModel):
    layer = Glm4MoeLiteDecoderLayer


class Glm4MoeLiteForCausalLM(Glm4MoeForCausalLM):
    config_class, decoder, _no_split_modules = Glm4MoeLiteConfig, Glm4MoeLiteModel, ["Glm4MoeLiteDecoderLayer"]


causal_lm = Glm4MoeLiteForCausalLM
