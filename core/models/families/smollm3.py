"""smollm3: llama whose every fourth layer does not rotate, and may have a window."""
from transformers.masking_utils import create_masks_for_layers
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaModel
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb


class SmolLM3Config(LlamaConfig):
    model_type, default_theta = "smollm3", 2000000.0
    vocab_size: int = 128256
    hidden_size: int = 2048
    num_hidden_layers: int = 36
    num_attention_heads: int = 16
    num_key_value_heads: int | None = 4
    max_position_embeddings: int = 32768
    pad_token_id: int | None = 128004
    tie_word_embeddings: bool = True
    use_sliding_window: bool = False
    sliding_window: int | None = None
    no_rope_layers: list | None = None
    no_rope_layer_interval: int = 4
    layer_types: list | None = None

    def __post_init__(self, **kwargs):
        if self.no_rope_layers is None:
            self.no_rope_layers = [int((i + 1) % self.no_rope_layer_interval != 0) for i in range(self.num_hidden_layers)]
        if self.layer_types is None:
            window = self.use_sliding_window and self.sliding_window is not None
            self.layer_types = ["sliding_attention" if window and not rotates else "full_attention" for rotates in self.no_rope_layers]
        super().__post_init__(**kwargs)


class SmolLM3Attention(LlamaAttention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.use_rope = config.no_rope_layers[layer_idx]
        window = config.use_sliding_window and config.layer_types[layer_idx] == "sliding_attention"
        self.keywords = {"sliding_window": config.sliding_window if window else None}

    def rotate(self, q, k, cos, sin):
        return apply_rotary_pos_emb(q, k, cos, sin) if self.use_rope else (q, k)


class SmolLM3DecoderLayer(LlamaDecoderLayer):
    attention = SmolLM3Attention


class SmolLM3Model(LlamaModel):
    layer, masks = SmolLM3DecoderLayer, create_masks_for_layers


class SmolLM3ForCausalLM(LlamaForCausalLM):
    config_class, decoder, _no_split_modules = SmolLM3Config, SmolLM3Model, ["SmolLM3DecoderLayer"]


causal_lm = SmolLM3ForCausalLM
