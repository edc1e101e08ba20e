"""apertus: llama with norms over heads, and arcee's feed-forward around an activation that is trained."""
from transformers.modeling_normed_heads import NormedHeads
from transformers.models.arcee.modeling_arcee import ArceeMLP
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaModel
from transformers.models.qwen3.modeling_qwen3 import Qwen3Config


class ApertusConfig(LlamaConfig):
    model_type, default_theta = "apertus", 12000000.0
    base_model_tp_plan = {k: v for k, v in Qwen3Config.base_model_tp_plan.items() if "gate_proj" not in k}
    vocab_size: int = 131072
    intermediate_size: int = 14336
    hidden_act: str = "xielu"
    max_position_embeddings: int = 65536
    rms_norm_eps: float = 1e-5
    pad_token_id: int | None = 3


class ApertusAttention(NormedHeads, LlamaAttention):
    pass


class ApertusDecoderLayer(LlamaDecoderLayer):
    attention, feed_forward = ApertusAttention, ArceeMLP

    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        del self.input_layernorm, self.post_attention_layernorm
        self.attention_layernorm = self.norm(config.hidden_size, eps=config.rms_norm_eps)
        self.feedforward_layernorm = self.norm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(self, hidden_states, **kwargs):
        residual = hidden_states
        hidden_states = self.attention_layernorm(hidden_states)
        hidden_states, _ = self.self_attn(hidden_states=hidden_states, **kwargs)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.feedforward_layernorm(hidden_states)
        hidden_states = self.mlp(hidden_states)
        hidden_states = residual + hidden_states
        return hidden_states


class ApertusModel(LlamaModel):
    layer = ApertusDecoderLayer


class ApertusForCausalLM(LlamaForCausalLM):
    config_class, decoder, _no_split_modules = ApertusConfig, ApertusModel, ["ApertusDecoderLayer"]


causal_lm = ApertusForCausalLM
