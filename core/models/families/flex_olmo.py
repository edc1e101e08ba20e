"""flex_olmo: olmo2 whose feed-forward is olmoe's experts."""
from transformers.modeling_moe import MoeCausalLM
from transformers.models.olmo2.modeling_olmo2 import Olmo2DecoderLayer, Olmo2ForCausalLM, Olmo2Model
from transformers.models.olmoe.modeling_olmoe import OlmoeConfig, OlmoeSparseMoeBlock


class FlexOlmoConfig(OlmoeConfig):
    model_type, default_theta = "flex_olmo", 500000.0
    vocab_size: int = 100352
    hidden_size: int = 4096
    intermediate_size: int = 11008
    num_hidden_layers: int = 32
    num_attention_heads: int = 32
    rms_norm_eps: float = 1e-6
    pad_token_id: int | None = 100277
    num_experts_per_tok: int = 5
    num_experts: int = 7


class FlexOlmoDecoderLayer(Olmo2DecoderLayer):
    feed_forward = OlmoeSparseMoeBlock


class FlexOlmoModel(Olmo2Model):
    config_class, layer = FlexOlmoConfig, FlexOlmoDecoderLayer


class FlexOlmoForCausalLM(MoeCausalLM, Olmo2ForCausalLM):
    config_class, decoder, _no_split_modules = FlexOlmoConfig, FlexOlmoModel, ["FlexOlmoDecoderLayer"]


causal_lm = FlexOlmoForCausalLM
