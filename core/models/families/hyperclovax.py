"""hyperclovax: granite with norms behind attention and feed-forward too, and logits that are multiplied."""
from torch import nn

from transformers.models.granite.modeling_granite import GraniteConfig, GraniteDecoderLayer, GraniteForCausalLM, GraniteModel, GraniteRMSNorm
from transformers.releases import refuse


class HyperCLOVAXConfig(GraniteConfig):
    model_type = "hyperclovax"
    attention_multiplier: float | None = None
    use_post_norm: bool = True

    def __post_init__(self, **kwargs):
        super().__post_init__(**kwargs)
        if self.attention_multiplier is None:
            self.attention_multiplier = self.head_dim**-0.5
        if self.hidden_size % self.num_attention_heads:
            refuse("/config/hidden_size", "HyperCLOVAXConfig wants a multiple of num_attention_heads")


class HyperCLOVAXDecoderLayer(GraniteDecoderLayer):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        for name in "post_norm1", "post_norm2":
            setattr(self, name, GraniteRMSNorm(config.hidden_size, eps=config.rms_norm_eps) if config.use_post_norm else nn.Identity())

    def forward(self, hidden_states, **kwargs):
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        hidden_states, _ = self.self_attn(hidden_states=hidden_states, **kwargs)
        hidden_states = self.post_norm1(hidden_states)
        hidden_states = residual + hidden_states * self.residual_multiplier
        residual = hidden_states
        hidden_states = self.post_attention_layernorm(hidden_states)
        hidden_states = self.mlp(hidden_states)
        hidden_states = self.post_norm2(hidden_states)
        hidden_states = residual + hidden_states * self.residual_multiplier
        return hidden_states


class HyperCLOVAXModel(GraniteModel):
    layer = HyperCLOVAXDecoderLayer


class HyperCLOVAXForCausalLM(GraniteForCausalLM):
    config_class, decoder, _no_split_modules = HyperCLOVAXConfig, HyperCLOVAXModel, ["HyperCLOVAXDecoderLayer"]

    def logits(self, x):
        return self.lm_head(x) * self.config.logits_scaling


causal_lm = HyperCLOVAXForCausalLM
