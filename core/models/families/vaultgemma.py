"""vaultgemma: gemma2 without the norms that follow attention and feed-forward."""
from transformers.models.gemma2.modeling_gemma2 import Gemma2Config, Gemma2DecoderLayer, Gemma2ForCausalLM, Gemma2Model


class VaultGemmaConfig(Gemma2Config):
    model_type = "vaultgemma"


class VaultGemmaDecoderLayer(Gemma2DecoderLayer):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        del self.post_attention_layernorm, self.post_feedforward_layernorm

    def forward(self, hidden_states, **kwargs):
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        hidden_states, _ = self.self_attn(hidden_states=hidden_states, **kwargs)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.pre_feedforward_layernorm(hidden_states)
        hidden_states = self.mlp(hidden_states)
        hidden_states = residual + hidden_states
        return hidden_states


class VaultGemmaModel(Gemma2Model):
    layer = VaultGemmaDecoderLayer


class VaultGemmaForCausalLM(Gemma2ForCausalLM):
    config_class, decoder, _no_split_modules = VaultGemmaConfig, VaultGemmaModel, ["VaultGemmaDecoderLayer"]


causal_lm = VaultGemmaForCausalLM
