"""mistral: llama with a sliding window in every layer."""
from transformers.masking_utils import create_causal_mask, create_sliding_window_causal_mask
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaModel


class MistralConfig(LlamaConfig):
    model_type = "mistral"
    intermediate_size: int = 14336
    num_key_value_heads: int | None = 8
    max_position_embeddings: int = 131072
    sliding_window: int | None = 4096


class MistralAttention(LlamaAttention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.window = {"sliding_window": config.sliding_window}

    def biases(self, config):
        return False, False


class MistralDecoderLayer(LlamaDecoderLayer):
    attention = MistralAttention


class MistralModel(LlamaModel):
    layer = MistralDecoderLayer

    def mask(self, **of):
        return (create_causal_mask if self.config.sliding_window is None else create_sliding_window_causal_mask)(**of)


class MistralForCausalLM(LlamaForCausalLM):
    config_class = MistralConfig
    _no_split_modules = ["MistralDecoderLayer"]
    decoder = MistralModel


causal_lm = MistralForCausalLM
