"""axk1: deepseek_v3 with a norm on what experts give."""
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Config, DeepseekV3DecoderLayer, DeepseekV3ForCausalLM, DeepseekV3Model, DeepseekV3MoE
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3RMSNorm


class AXK1Config(DeepseekV3Config):
    model_type = "axk1"
    vocab_size: int = 163840
    num_attention_heads: int = 64
    num_key_value_heads: int | None = 64
    n_routed_experts: int = 192
    q_lora_rank: int = 1536
    max_position_embeddings: int = 32768
    mlp_layer_types: list | None = None
    first_k_dense_replace: int | None = 1
    moe_layer_freq: int = 1

    def __post_init__(self, **kwargs):
        if self.mlp_layer_types is None:
            first, every = self.first_k_dense_replace, self.moe_layer_freq
            self.mlp_layer_types = ["dense" if i < first or i % every else "sparse" for i in range(self.num_hidden_layers)]
        super().__post_init__(**kwargs)


class AXK1MoE(DeepseekV3MoE):
    def __init__(self, config):
        super().__init__(config)
        self.post_mlp_layernorm = DeepseekV3RMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(self, hidden_states):
        residuals = hidden_states
        shape = hidden_states.shape
        _, weights, indices = self.gate(hidden_states)
        hidden_states = hidden_states.view(-1, hidden_states.shape[-1])
        hidden_states = self.experts(hidden_states, indices, weights).view(*shape)
        hidden_states = hidden_states + self.shared_experts(residuals)
        return self.post_mlp_layernorm(hidden_states)


class AXK1DecoderLayer(DeepseekV3DecoderLayer):
    def make_mlp(self, config, layer_idx):
        return AXK1MoE(config) if config.mlp_layer_types[layer_idx] == "sparse" else self.feed_forward(config)


class AXK1Model(DeepseekV3Model):
    layer = AXK1DecoderLayer


class AXK1ForCausalLM(DeepseekV3ForCausalLM):
    config_class, decoder, _no_split_modules = AXK1Config, AXK1Model, ["AXK1DecoderLayer"]


causal_lm = AXK1ForCausalLM
