"""qwen2: llama with biases on query, key and value, and a window in the upper layers where it is asked for."""
from transformers.masking_utils import create_masks_for_layers
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaModel, LlamaRMSNorm


class Qwen2Config(LlamaConfig):
    model_type = "qwen2"
    bos_token_id: int | None = None
    vocab_size: int = 151936
    intermediate_size: int = 22016
    num_key_value_heads: int | None = 32
    max_position_embeddings: int = 32768
    use_sliding_window: bool = False
    sliding_window: int | None = 4096
    max_window_layers: int = 28
    layer_types: list | None = None

    def __post_init__(self, **kwargs):
        self.sliding_window = self.sliding_window if self.use_sliding_window else None
        first = self.num_hidden_layers if self.sliding_window is None else self.max_window_layers
        kinds = ["sliding_attention" if i >= first else "full_attention" for i in range(self.num_hidden_layers)]
        self.layer_types = kinds if self.layer_types is None else self.layer_types
        super().__post_init__(**kwargs)


class Qwen2RMSNorm(LlamaRMSNorm):
    pass


class Qwen2Attention(LlamaAttention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.keywords = {"sliding_window": self.window(config, layer_idx)}

    def window(self, config, layer_idx):
        return config.sliding_window if config.layer_types[layer_idx] == "sliding_attention" else None

    def biases(self, config):
        return True, False


class Qwen2DecoderLayer(LlamaDecoderLayer):
    attention, norm = Qwen2Attention, Qwen2RMSNorm


class Qwen2Model(LlamaModel):
    layer, masks = Qwen2DecoderLayer, create_masks_for_layers


class Qwen2ForCausalLM(LlamaForCausalLM):
    config_class, decoder, _no_split_modules = Qwen2Config, Qwen2Model, ["Qwen2DecoderLayer"]


causal_lm = Qwen2ForCausalLM
