from dataclasses import dataclass, field
from typing import List, Optional

from transformers.configuration_utils import PretrainedConfig


class SlidingConfig(PretrainedConfig):
    model_type = "sliding"

    vocab_size: int = 1000
    hidden_size: int = 256
    num_hidden_layers: int = 4
    num_attention_heads: int = 8
    intermediate_size: int = 640
    max_position_embeddings: int = 1024
    window: int = 64
    layer_types: Optional[List[str]] = None
    attention_dropout: float = 0.1
    use_cache: bool = False
    norm_eps: float = 1e-5
    tie_word_embeddings: bool = True

    def __post_init__(self, **kwargs):
        if self.layer_types is None:
            self.layer_types = ["full_attention" if (i + 1) % 4 == 0 else "sliding_attention" for i in range(self.num_hidden_layers)]
        super().__post_init__(**kwargs)
