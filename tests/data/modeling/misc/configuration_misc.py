from dataclasses import dataclass
from transformers import PreTrainedConfig
try:
    from huggingface_hub.dataclasses import strict
except ImportError:
    strict = lambda c: c


@strict
class MiscConfig(PreTrainedConfig):
    model_type = "misc_lm"
    keys_to_ignore_at_inference = ["past_key_values"]

    vocab_size: int = 500
    hidden_size: int = 64
    num_hidden_layers: int | None = 2
    image_token_id: int = 499
    rope_scaling: dict | None = None

    def __post_init__(self, **kwargs):
        self.head_dim = self.hidden_size // 4
        super().__post_init__(**kwargs)
