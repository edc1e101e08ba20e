"""starcoder2: llama with layer norms, biases, a plain feed-forward, dropout, and a window in every layer where there is one."""
from torch import nn

from transformers.modeling_plain_mlp import PlainMLP
from transformers.modeling_tp import tp_plan
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer
from transformers.models.mistral.modeling_mistral import MistralForCausalLM, MistralModel


class Starcoder2Config(LlamaConfig):
    model_type, attribute_map = "starcoder2", {"rms_norm_eps": "norm_epsilon"}
    base_model_tp_plan = tp_plan(colwise="self_attn.q_proj self_attn.k_proj self_attn.v_proj mlp.c_fc", rowwise="self_attn.o_proj mlp.c_proj")
    vocab_size: int = 49152
    hidden_size: int = 3072
    intermediate_size: int = 12288
    num_hidden_layers: int = 30
    num_attention_heads: int = 24
    num_key_value_heads: int | None = 2
    hidden_act: str = "gelu_pytorch_tanh"
    max_position_embeddings: int = 4096
    norm_epsilon: float = 1e-5
    sliding_window: int | None = None
    residual_dropout: float = 0.0
    embedding_dropout: float = 0.0
    use_bias: bool = True
    tie_word_embeddings: bool = True


class Starcoder2MLP(PlainMLP):
    names = "c_fc", "act", "c_proj"

    def __init__(self, config):
        super().__init__(config)
        self.residual_dropout = config.residual_dropout

    def bias(self, config):
        return config.use_bias

    def forward(self, x):
        x = super().forward(x)
        return nn.functional.dropout(x, p=self.residual_dropout, training=self.training)


class Starcoder2Attention(LlamaAttention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.keywords, self.residual_dropout = {"sliding_window": config.sliding_window}, config.residual_dropout

    def biases(self, config):
        return config.use_bias, config.use_bias

    def finish(self, output):
        return nn.functional.dropout(output, p=self.residual_dropout, training=self.training)


class Starcoder2DecoderLayer(LlamaDecoderLayer):
    attention, feed_forward, norm = Starcoder2Attention, Starcoder2MLP, nn.LayerNorm


class Starcoder2Model(MistralModel):
    layer = Starcoder2DecoderLayer

    def start(self, inputs_embeds):
        return nn.functional.dropout(inputs_embeds, p=self.config.embedding_dropout, training=self.training)


class Starcoder2ForCausalLM(MistralForCausalLM):
    config_class, decoder, _no_split_modules = Starcoder2Config, Starcoder2Model, ["Starcoder2DecoderLayer"]


causal_lm = Starcoder2ForCausalLM
