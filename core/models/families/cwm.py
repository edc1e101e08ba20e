"""cwm: llama with a window in three of four layers."""
from transformers.models.llama.modeling_llama import LlamaConfig, LlamaForCausalLM
from transformers.models.ministral.modeling_ministral import MinistralDecoderLayer, MinistralModel


class CwmConfig(LlamaConfig):
    model_type, default_theta = "cwm", 1000000.0
    vocab_size: int = 128256
    hidden_size: int = 6144
    intermediate_size: int = 21504
    num_hidden_layers: int = 64
    num_attention_heads: int = 48
    num_key_value_heads: int = 8
    head_dim: int = 128
    max_position_embeddings: int = 131072
    rms_norm_eps: float = 1e-5
    sliding_window: int | None = 8192
    layer_types: list | None = None

    def __post_init__(self, **kwargs):
        if self.rope_parameters is None:
            self.rope_parameters = {"rope_type": "llama3", "rope_theta": 1000000.0, "factor": 16.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                                    "original_max_position_embeddings": 8192}
        if self.layer_types is None:
            self.layer_types = ["sliding_attention" if i % 4 else "full_attention" for i in range(self.num_hidden_layers)]
        super().__post_init__(**kwargs)


class CwmDecoderLayer(MinistralDecoderLayer):
    pass


class CwmModel(MinistralModel):
    layer = CwmDecoderLayer


class CwmForCausalLM(LlamaForCausalLM):
    config_class, decoder, _no_split_modules = CwmConfig, CwmModel, ["CwmDecoderLayer"]


causal_lm = CwmForCausalLM
