"""qwen3_vl_moe: qwen3_vl over qwen3_moe's layers."""
from transformers.modeling_moe import MoeCausalLM
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeConfig, Qwen3MoeDecoderLayer
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLConfig, Qwen3VLForConditionalGeneration, Qwen3VLModel, Qwen3VLTextAttention
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextModel, Qwen3VLVisionConfig, Qwen3VLVisionModel


class Qwen3VLMoeTextConfig(Qwen3MoeConfig):
    model_type, default_theta = "qwen3_vl_moe_text", 500000.0
    vocab_size: int = 151936
    intermediate_size: int = 5632
    num_attention_heads: int = 16
    num_key_value_heads: int = 16
    max_position_embeddings: int = 128000
    moe_intermediate_size: int = 1408
    num_experts_per_tok: int = 4
    num_experts: int = 60
    norm_topk_prob: bool = True


class Qwen3VLMoeConfig(Qwen3VLConfig):
    model_type, sub_configs = "qwen3_vl_moe", {"vision_config": Qwen3VLVisionConfig, "text_config": Qwen3VLMoeTextConfig}


class Qwen3VLMoeTextDecoderLayer(Qwen3MoeDecoderLayer):
    attention = Qwen3VLTextAttention


class Qwen3VLMoeTextModel(Qwen3VLTextModel):
    layer = Qwen3VLMoeTextDecoderLayer


class Qwen3VLMoeModel(Qwen3VLModel):
    config_class, parts = Qwen3VLMoeConfig, {"visual": Qwen3VLVisionModel, "language_model": Qwen3VLMoeTextModel}


class Qwen3VLMoeForConditionalGeneration(Qwen3VLForConditionalGeneration):
    config_class, composed, forward = Qwen3VLMoeConfig, Qwen3VLMoeModel, MoeCausalLM.forward
    _no_split_modules = ["Qwen3VLMoeTextDecoderLayer", "Qwen3VLMoeVisionBlock"]


causal_lm = Qwen3VLMoeForConditionalGeneration
