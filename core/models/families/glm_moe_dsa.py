"""glm_moe_dsa: deepseek_v32 whose layers may share an indexer. Its parameters; a step is not modelled."""
from transformers.models.deepseek_v32.modeling_deepseek_v32 import DeepseekV32Config, DeepseekV32ForCausalLM


class GlmMoeDsaConfig(DeepseekV32Config):
    model_type = "glm_moe_dsa"
    vocab_size: int = 154880
    hidden_size: int = 6144
    intermediate_size: int = 12288
    num_hidden_layers: int = 78
    num_attention_heads: int = 64
    num_key_value_heads: int = 64
    q_lora_rank: int = 2048
    v_head_dim: int = 256
    qk_nope_head_dim: int = 192
    n_group: int = 1
    topk_group: int = 1
    max_position_embeddings: int = 202752
    rms_norm_eps: float = 1e-5
    index_n_heads: int = 32

    def __post_init__(self, **kwargs):
        pattern = kwargs.get("index_topk_pattern")
        if self.indexer_types is None and pattern is not None:
            self.indexer_types = [{"F": "full", "S": "shared"}[c] for c in pattern] if isinstance(pattern, str) else list(pattern)
        if self.indexer_types is None:
            every, offset = max(kwargs.get("index_topk_freq", 1), 1), kwargs.get("index_skip_topk_offset", 2)
            self.indexer_types = ["full" if max(i - offset + 1, 0) % every == 0 else "shared" for i in range(self.num_hidden_layers)]
        super().__post_init__(**kwargs)


class GlmMoeDsaForCausalLM(DeepseekV32ForCausalLM):
    config_class, inventory_only = GlmMoeDsaConfig, True


causal_lm = GlmMoeDsaForCausalLM
