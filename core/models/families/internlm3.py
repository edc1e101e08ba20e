"""internlm3: llama's classes under a name of its own; one bias for all that attention projects."""
from transformers.models.llama.modeling_llama import LlamaConfig, LlamaForCausalLM, LlamaModel
from transformers.releases import refuse


class InternLM3Config(LlamaConfig):
    model_type, attribute_map = "internlm3", {"qkv_bias": "attention_bias", "bias": "mlp_bias"}
    vocab_size: int = 128512
    intermediate_size: int = 10240
    num_hidden_layers: int = 48
    num_key_value_heads: int | None = 2
    max_position_embeddings: int = 32768
    rms_norm_eps: float = 1e-5
    pad_token_id: int | None = 2
    head_dim: int | None = 128

    def __post_init__(self, **kwargs):
        if self.hidden_size % self.num_attention_heads:
            refuse("/config/hidden_size", "InternLM3Config wants a multiple of num_attention_heads")
        if self.attention_bias != self.mlp_bias:
            refuse("/config/qkv_bias", "InternLM3Config wants the same of bias and qkv_bias")
        super().__post_init__(**kwargs)


class InternLM3Model(LlamaModel):
    config_class = InternLM3Config


class InternLM3ForCausalLM(LlamaForCausalLM):
    config_class, decoder = InternLM3Config, InternLM3Model


causal_lm = InternLM3ForCausalLM
