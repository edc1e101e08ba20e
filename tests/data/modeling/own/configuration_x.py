from transformers.configuration_utils import PreTrainedConfig


class XConfig(PreTrainedConfig):
    model_type = "xmodel"
    vocab_size: int = 1000
    hidden_size: int = 256
    num_hidden_layers: int = 2
    num_attention_heads: int = 8
    max_position_embeddings: int = 512
    use_cache: bool = False
