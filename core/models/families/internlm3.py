"""internlm3: llama's classes under a name of its own; one bias for all that attention projects."""
from transformers.models.llama.modeling_llama import LlamaConfig, LlamaForCausalLM, LlamaModel


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


class InternLM3Model(LlamaModel):
    config_class = InternLM3Config


class InternLM3ForCausalLM(LlamaForCausalLM):
    config_class, decoder = InternLM3Config, InternLM3Model


causal_lm = InternLM3ForCausalLM
