"""granite: llama with factors on embeddings, scores, residuals and logits."""
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaModel, LlamaRMSNorm


class GraniteConfig(LlamaConfig):
    model_type = "granite"
    embedding_multiplier: float = 1.0
    logits_scaling: float = 1.0
    residual_multiplier: float = 1.0
    attention_multiplier: float = 1.0


class GraniteAttention(LlamaAttention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.scaling = config.attention_multiplier


class GraniteRMSNorm(LlamaRMSNorm):
    pass


class GraniteDecoderLayer(LlamaDecoderLayer):
    attention, norm = GraniteAttention, GraniteRMSNorm

    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.residual_multiplier = config.residual_multiplier

    def forward(self, hidden_states, **kwargs):
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        hidden_states, _ = self.self_attn(hidden_states=hidden_states, **kwargs)
        hidden_states = residual + hidden_states * self.residual_multiplier
        residual = hidden_states
        hidden_states = self.post_attention_layernorm(hidden_states)
        hidden_states = self.mlp(hidden_states)
        hidden_states = residual + hidden_states * self.residual_multiplier
        return hidden_states


class GraniteModel(LlamaModel):
    layer = GraniteDecoderLayer

    def scaled(self, inputs_embeds):
        return inputs_embeds * self.config.embedding_multiplier


class GraniteForCausalLM(LlamaForCausalLM):
    config_class, decoder, _no_split_modules = GraniteConfig, GraniteModel, ["GraniteDecoderLayer"]

    def logits(self, x):
        logits = self.lm_head(x)
        logits = logits / self.config.logits_scaling
        return logits


causal_lm = GraniteForCausalLM
