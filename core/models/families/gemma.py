"""gemma: llama with norms weighted from one on, embeddings times the root of their width, and a tanh GELU."""
from transformers.modeling_decoder import ScaledEmbedding
from transformers.modeling_norm import RMSNormFromOne
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaModel
from transformers.releases import refuse


class GemmaConfig(LlamaConfig):
    model_type = "gemma"
    vocab_size: int = 256000
    hidden_size: int = 3072
    intermediate_size: int = 24576
    num_hidden_layers: int = 28
    num_attention_heads: int = 16
    num_key_value_heads: int | None = 16
    head_dim: int | None = 256
    hidden_act: str = "gelu_pytorch_tanh"
    max_position_embeddings: int = 8192
    pad_token_id: int | None = 0
    tie_word_embeddings: bool = True
    use_bidirectional_attention: bool | None = None

    def __post_init__(self, **kwargs):
        if self.hidden_act == "gelu":
            self.hidden_act = "gelu_pytorch_tanh"
        if self.use_bidirectional_attention:
            refuse("/use_bidirectional_attention", "use_bidirectional_attention true: attention in both directions is not modelled")
        super().__post_init__(**kwargs)


class GemmaRMSNorm(RMSNormFromOne):
    pass


class GemmaAttention(LlamaAttention):
    pass


class GemmaDecoderLayer(LlamaDecoderLayer):
    attention, norm = GemmaAttention, GemmaRMSNorm


class GemmaModel(LlamaModel):
    layer = GemmaDecoderLayer

    def embedding(self, config):
        return ScaledEmbedding(config.vocab_size, config.hidden_size, config.pad_token_id, config.hidden_size**0.5)


class GemmaForCausalLM(LlamaForCausalLM):
    config_class, decoder, _no_split_modules = GemmaConfig, GemmaModel, ["GemmaDecoderLayer"]


causal_lm = GemmaForCausalLM
