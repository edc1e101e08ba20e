"""qwen3_5_moe: qwen3_5 over qwen3_5_moe_text."""
from transformers.modeling_moe import MoeCausalLM
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5Config, Qwen3_5ForConditionalGeneration, Qwen3_5Model, Qwen3_5VisionConfig, Qwen3_5VisionModel
from transformers.models.qwen3_5_moe_text.modeling_qwen3_5_moe_text import Qwen3_5MoeTextConfig, Qwen3_5MoeTextModel


class Qwen3_5MoeConfig(Qwen3_5Config):
    model_type, sub_configs = "qwen3_5_moe", {"vision_config": Qwen3_5VisionConfig, "text_config": Qwen3_5MoeTextConfig}


class Qwen3_5MoeModel(Qwen3_5Model):
    config_class, parts = Qwen3_5MoeConfig, {"visual": Qwen3_5VisionModel, "language_model": Qwen3_5MoeTextModel}


class Qwen3_5MoeForConditionalGeneration(Qwen3_5ForConditionalGeneration):
    config_class, composed, forward = Qwen3_5MoeConfig, Qwen3_5MoeModel, MoeCausalLM.forward
    _no_split_modules = ["Qwen3_5MoeDecoderLayer", "Qwen3_5MoeVisionBlock"]
    balances_unasked = True


causal_lm = Qwen3_5MoeForConditionalGeneration
