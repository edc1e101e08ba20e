"""jais2: llama with layer norms, biases everywhere and a feed-forward without a gate."""
from torch import nn

from transformers.models.arcee.modeling_arcee import ArceeConfig, ArceeMLP
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaForCausalLM, LlamaModel


class Jais2Config(ArceeConfig):
    model_type, attribute_map = "jais2", {"rms_norm_eps": "layer_norm_eps"}
    vocab_size: int = 150272
    hidden_size: int = 3328
    intermediate_size: int = 26624
    num_attention_heads: int = 26
    hidden_act: str = "relu2"
    max_position_embeddings: int = 8192
    layer_norm_eps: float = 1e-5
    attention_bias: bool = True
    mlp_bias: bool = True


class Jais2DecoderLayer(LlamaDecoderLayer):
    feed_forward, norm = ArceeMLP, nn.LayerNorm


class Jais2Model(LlamaModel):
    layer = Jais2DecoderLayer


class Jais2ForCausalLM(LlamaForCausalLM):
    config_class, decoder, _no_split_modules = Jais2Config, Jais2Model, ["Jais2DecoderLayer"]


causal_lm = Jais2ForCausalLM
