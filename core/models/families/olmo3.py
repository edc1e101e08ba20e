"""olmo3: olmo2 with a window in three of four layers, and a rotation for each kind of layer."""
from transformers.configuration_utils import windows_but_every
from transformers.modeling_decoder import DecoderOfKinds
from transformers.modeling_rope_utils import RotaryEmbeddingOfKinds
from transformers.models.olmo2.modeling_olmo2 import Olmo2Attention, Olmo2Config, Olmo2DecoderLayer, Olmo2ForCausalLM, Olmo2Model


class Olmo3Config(Olmo2Config):
    model_type = "olmo3"
    sliding_window: int | None = 4096
    layer_types: list | None = None

    def __post_init__(self, **kwargs):
        if self.layer_types is None:
            self.layer_types = windows_but_every(4, self.num_hidden_layers)
        super().__post_init__(**kwargs)

    def _rope(self, others):
        self.rope_by_kind(others, 500000.0, 500000.0)


class Olmo3RotaryEmbedding(RotaryEmbeddingOfKinds):
    def tables(self, cos, sin, dtype):
        return cos, sin


class Olmo3Attention(Olmo2Attention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.keywords = {"sliding_window": config.sliding_window if config.layer_types[layer_idx] == "sliding_attention" else None}


class Olmo3DecoderLayer(Olmo2DecoderLayer):
    attention = Olmo3Attention


class Olmo3Model(DecoderOfKinds, Olmo2Model):
    layer, rotary = Olmo3DecoderLayer, Olmo3RotaryEmbedding
    kinds_in_turn = set  # in no order at all: any is as good


class Olmo3ForCausalLM(Olmo2ForCausalLM):
    config_class, decoder, _no_split_modules = Olmo3Config, Olmo3Model, ["Olmo3DecoderLayer"]


causal_lm = Olmo3ForCausalLM
