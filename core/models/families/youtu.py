"""youtu: llama with deepseek_v3's latents."""
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention, DeepseekV3Config
from transformers.models.llama.modeling_llama import LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaModel


class YoutuConfig(DeepseekV3Config):
    model_type = "youtu"
    base_model_tp_plan = {k: v for k, v in LlamaConfig.base_model_tp_plan.items() if "mlp" in k}
    vocab_size: int = 128256
    hidden_size: int = 2048
    intermediate_size: int = 6144
    num_hidden_layers: int = 32
    num_attention_heads: int = 16
    num_key_value_heads: int | None = 16
    max_position_embeddings: int = 131072
    tie_word_embeddings: bool = True


class YoutuDecoderLayer(LlamaDecoderLayer):
    attention = DeepseekV3Attention


class YoutuModel(LlamaModel):
    layer = YoutuDecoderLayer


class YoutuForCausalLM(LlamaForCausalLM):
    config_class, decoder, _no_split_modules = YoutuConfig, YoutuModel, ["YoutuDecoderLayer"]


causal_lm = YoutuForCausalLM
