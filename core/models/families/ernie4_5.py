"""ernie4_5: llama with neighbours rotated in fp32, biases where they are asked for, and a tied head."""
from transformers.modeling_interleaved_rope import doubled, rotate_pairs
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaModel
from transformers.models.olmo2.modeling_olmo2 import Olmo2RotaryEmbedding


class Ernie4_5Config(LlamaConfig):
    model_type, default_theta = "ernie4_5", 500000.0
    vocab_size: int = 103424
    hidden_size: int = 1024
    intermediate_size: int = 3072
    num_hidden_layers: int = 18
    num_attention_heads: int = 16
    num_key_value_heads: int | None = 2
    max_position_embeddings: int = 131072
    rms_norm_eps: float = 1e-5
    pad_token_id: int | None = 0
    tie_word_embeddings: bool = True
    use_bias: bool | None = False
    head_dim: int | None = 128

    def __post_init__(self, **kwargs):
        self.mlp_bias = self.use_bias
        super().__post_init__(**kwargs)


class Ernie4_5Attention(LlamaAttention):
    @staticmethod
    def rotate(q, k, cos, sin):
        dtype = q.dtype
        cos, sin = doubled(cos, sin)
        q_turned = (q.float() * cos) + (rotate_pairs(q).float() * sin)
        k_turned = (k.float() * cos) + (rotate_pairs(k).float() * sin)
        return q_turned.to(dtype), k_turned.to(dtype)

    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.attention_dropout = 0.0

    def biases(self, config):
        return config.use_bias, config.use_bias


class Ernie4_5DecoderLayer(LlamaDecoderLayer):
    attention = Ernie4_5Attention


class Ernie4_5Model(LlamaModel):
    layer, rotary = Ernie4_5DecoderLayer, Olmo2RotaryEmbedding


class Ernie4_5ForCausalLM(LlamaForCausalLM):
    config_class, decoder, _no_split_modules = Ernie4_5Config, Ernie4_5Model, ["Ernie4_5DecoderLayer"]


causal_lm = Ernie4_5ForCausalLM
