"""mistral: llama with a sliding window in every layer."""
from transformers.masking_utils import create_causal_mask, create_sliding_window_causal_mask
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaModel, LlamaRMSNorm


class MistralConfig(LlamaConfig):
    model_type = "mistral"
    intermediate_size: int = 14336
    num_key_value_heads: int | None = 8
    max_position_embeddings: int = 131072
    sliding_window: int | None = 4096


class MistralRMSNorm(LlamaRMSNorm):
    pass


class MistralAttention(LlamaAttention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.keywords = {"sliding_window": config.sliding_window}

    def biases(self, config):
        return False, False


class MistralDecoderLayer(LlamaDecoderLayer):
    attention, norm = MistralAttention, MistralRMSNorm


class MistralModel(LlamaModel):
    layer = MistralDecoderLayer

    def masks(self, **of):
        create = create_causal_mask if self.config.sliding_window is None else create_sliding_window_causal_mask
        return [create(**of)] * len(self.layers)


class MistralForCausalLM(LlamaForCausalLM):
    config_class, decoder = MistralConfig, MistralModel
    _no_split_modules = ["MistralDecoderLayer"]


causal_lm = MistralForCausalLM
