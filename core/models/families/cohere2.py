"""cohere2: cohere with a window in three of four layers, which alone rotate."""
from transformers.configuration_utils import windows_but_every
from transformers.modeling_decoder import DecoderOfKinds
from transformers.models.cohere.modeling_cohere import CohereAttention, CohereConfig, CohereDecoderLayer, CohereForCausalLM, CohereModel


class Cohere2Config(CohereConfig):
    model_type, default_theta = "cohere2", 10000.0
    layer_norm_eps: float = 1e-5
    sliding_window: int | None = 4096
    layer_types: list | None = None

    def __post_init__(self, **kwargs):
        pattern = kwargs.pop("sliding_window_pattern", 4)
        self.use_qk_norm = False
        if self.head_dim is None:
            self.head_dim = self.hidden_size // self.num_attention_heads
        if self.layer_types is None:
            self.layer_types = windows_but_every(pattern, self.num_hidden_layers)
        super().__post_init__(**kwargs)


class Cohere2Attention(CohereAttention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.keywords = {"sliding_window": config.sliding_window if config.layer_types[layer_idx] == "sliding_attention" else None}

    def rotate(self, q, k, cos, sin):
        return CohereAttention.rotate(q, k, cos, sin) if self.keywords["sliding_window"] is not None else (q, k)


class Cohere2DecoderLayer(CohereDecoderLayer):
    attention = Cohere2Attention


class Cohere2Model(CohereModel):
    layer, masks = Cohere2DecoderLayer, DecoderOfKinds.masks


class Cohere2ForCausalLM(CohereForCausalLM):
    config_class, decoder, _no_split_modules = Cohere2Config, Cohere2Model, ["Cohere2DecoderLayer"]


causal_lm = Cohere2ForCausalLM
