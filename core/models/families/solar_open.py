"""solar_open: glm4_moe with experts in every layer and llama's attention, no bias on its way out."""
from transformers.modeling_moe import experts_tp_plan
from transformers.models.glm4_moe.modeling_glm4_moe import Glm4MoeForCausalLM, Glm4MoeMoE, Glm4MoeModel
from transformers.models.deepseek_v3.modeling_deepseek_v3 import EXPERTS_BESIDE_SHARED
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer


class SolarOpenConfig(LlamaConfig):
    model_type, default_theta = "solar_open", 1000000.0
    attribute_map = {"num_experts": "n_routed_experts", "num_local_experts": "n_routed_experts"}
    base_model_tp_plan = {k: v for k, v in LlamaConfig.base_model_tp_plan.items() if "self_attn" in k} | experts_tp_plan()
    bos_token_id: int | None = None
    vocab_size: int = 196608
    moe_intermediate_size: int = 1280
    num_hidden_layers: int = 48
    num_attention_heads: int = 64
    num_key_value_heads: int = 8
    head_dim: int = 128
    max_position_embeddings: int = 131072
    rms_norm_eps: float = 1e-5
    num_experts_per_tok: int = 8
    output_router_logits: bool = False
    n_shared_experts: int = 1
    n_routed_experts: int = 128
    routed_scaling_factor: float = 1.0
    n_group: int = 1
    topk_group: int = 1
    norm_topk_prob: bool = True


class SolarOpenAttention(LlamaAttention):
    def biases(self, config):
        return config.attention_bias, False


class SolarOpenDecoderLayer(LlamaDecoderLayer):
    attention, feed_forward = SolarOpenAttention, Glm4MoeMoE


class SolarOpenModel(Glm4MoeModel):
    layer = SolarOpenDecoderLayer


class SolarOpenForCausalLM(Glm4MoeForCausalLM):
    config_class, decoder, _no_split_modules = SolarOpenConfig, SolarOpenModel, ["SolarOpenDecoderLayer"]


causal_lm = SolarOpenForCausalLM
