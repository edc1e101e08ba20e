"""seed_oss: llama with biases on query, key and value, and dropout of what attention and feed-forward add."""
from torch import nn

from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaMLP, LlamaModel


class SeedOssConfig(LlamaConfig):
    model_type = "seed_oss"
    vocab_size: int = 155136
    intermediate_size: int = 27648
    num_hidden_layers: int = 64
    num_attention_heads: int = 80
    num_key_value_heads: int | None = 8
    max_position_embeddings: int = 524288
    pad_token_id: int | None = 1
    attention_bias: bool = True
    attention_out_bias: bool = False
    attention_dropout: float = 0.1
    residual_dropout: float = 0.1
    head_dim: int | None = 128


class SeedOssMLP(LlamaMLP):
    def __init__(self, config):
        super().__init__(config)
        self.residual_dropout = config.residual_dropout

    def forward(self, x):
        y = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
        y = nn.functional.dropout(y, p=self.residual_dropout, training=self.training)
        return y


class SeedOssAttention(LlamaAttention):
    def biases(self, config):
        return config.attention_bias, config.attention_out_bias

    def finish(self, output):
        return nn.functional.dropout(output, p=self.config.residual_dropout, training=self.training)


class SeedOssDecoderLayer(LlamaDecoderLayer):
    attention, feed_forward = SeedOssAttention, SeedOssMLP


class SeedOssModel(LlamaModel):
    layer = SeedOssDecoderLayer


class SeedOssForCausalLM(LlamaForCausalLM):
    config_class, decoder, _no_split_modules = SeedOssConfig, SeedOssModel, ["SeedOssDecoderLayer"]


causal_lm = SeedOssForCausalLM
