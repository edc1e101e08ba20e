"""iquestcoder: llama in sizes of its own."""
from transformers.models.llama.modeling_llama import LlamaConfig, LlamaForCausalLM
from transformers.releases import refuse


class IQuestCoderConfig(LlamaConfig):
    model_type = "iquestcoder"
    vocab_size: int = 76800
    hidden_size: int = 5120
    intermediate_size: int = 27648
    num_hidden_layers: int = 80
    num_attention_heads: int = 40
    num_key_value_heads: int | None = 8
    head_dim: int | None = 128
    max_position_embeddings: int = 131072
    rms_norm_eps: float = 1e-5

    def __post_init__(self, **kwargs):
        for name in "clip_qkv", "use_sliding_window":
            if kwargs.get(name):
                refuse("/config/" + name, "IQuestCoderConfig does not take it")
        super().__post_init__(**kwargs)
        if self.hidden_size % self.num_attention_heads:
            refuse("/config/hidden_size", "LlamaConfig wants a multiple of num_attention_heads")


class IQuestCoderForCausalLM(LlamaForCausalLM):
    config_class = IQuestCoderConfig


causal_lm = IQuestCoderForCausalLM
