"""ministral: mistral whose layers each say whether they have a window."""
from transformers.modeling_decoder import DecoderOfKinds
from transformers.models.mistral.modeling_mistral import MistralAttention, MistralConfig, MistralDecoderLayer, MistralForCausalLM, MistralModel


class MinistralConfig(MistralConfig):
    model_type, leaves_head_dim = "ministral", True
    layer_types: list | None = None

    def __post_init__(self, **kwargs):
        if self.layer_types is None:
            self.layer_types = ["sliding_attention" if self.sliding_window is not None else "full_attention"] * self.num_hidden_layers
        super().__post_init__(**kwargs)


class MinistralAttention(MistralAttention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.keywords = {"sliding_window": config.sliding_window if config.layer_types[layer_idx] == "sliding_attention" else None}


class MinistralDecoderLayer(MistralDecoderLayer):
    attention = MinistralAttention


class MinistralModel(MistralModel):
    layer, masks = MinistralDecoderLayer, DecoderOfKinds.masks


class MinistralForCausalLM(MistralForCausalLM):
    config_class, decoder, _no_split_modules = MinistralConfig, MinistralModel, ["MinistralDecoderLayer"]


causal_lm = MinistralForCausalLM
