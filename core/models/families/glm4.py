"""glm4: glm with norms after attention and feed-forward too."""
from transformers.models.glm.modeling_glm import GlmConfig, GlmDecoderLayer, GlmForCausalLM, GlmModel


class Glm4Config(GlmConfig):
    model_type = "glm4"


class Glm4DecoderLayer(GlmDecoderLayer):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.post_self_attn_layernorm = self.norm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_mlp_layernorm = self.norm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(self, hidden_states, **kwargs):
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        hidden_states, _ = self.self_attn(hidden_states=hidden_states, **kwargs)
        hidden_states = self.post_self_attn_layernorm(hidden_states)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.post_attention_layernorm(hidden_states)
        hidden_states = self.mlp(hidden_states)
        hidden_states = self.post_mlp_layernorm(hidden_states)
        hidden_states = residual + hidden_states
        return hidden_states


class Glm4Model(GlmModel):
    layer = Glm4DecoderLayer


class Glm4ForCausalLM(GlmForCausalLM):
    config_class, decoder, _no_split_modules = Glm4Config, Glm4Model, ["Glm4DecoderLayer"]


causal_lm = Glm4ForCausalLM
