"""gemma2: norms before and after each part, scores and logits capped, a window in every other layer."""
import torch

from transformers.activations import ACT2FN
from transformers.modeling_decoder import DecoderOfKinds, ScaledEmbedding
from transformers.modeling_norm import RMSNormFromOne
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaMLP, LlamaModel


class Gemma2Config(LlamaConfig):
    model_type = "gemma2"
    vocab_size: int = 256000
    hidden_size: int = 2304
    intermediate_size: int = 9216
    num_hidden_layers: int = 26
    num_attention_heads: int = 8
    num_key_value_heads: int | None = 4
    head_dim: int | None = 256
    hidden_activation: str = "gelu_pytorch_tanh"
    max_position_embeddings: int = 8192
    pad_token_id: int | None = 0
    tie_word_embeddings: bool = True
    query_pre_attn_scalar: int = 256
    sliding_window: int | None = 4096
    layer_types: list | None = None
    final_logit_softcapping: float | None = 30.0
    attn_logit_softcapping: float | None = 50.0

    def __post_init__(self, **kwargs):
        if self.layer_types is None:
            self.layer_types = ["full_attention" if i % 2 else "sliding_attention" for i in range(self.num_hidden_layers)]
        super().__post_init__(**kwargs)


class Gemma2RMSNorm(RMSNormFromOne):
    pass


class Gemma2Attention(LlamaAttention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.scaling = config.query_pre_attn_scalar**-0.5
        window = config.sliding_window if config.layer_types[layer_idx] == "sliding_attention" else None
        self.keywords = {"sliding_window": window, "softcap": config.attn_logit_softcapping}


class Gemma2MLP(LlamaMLP):
    def __init__(self, config):
        super().__init__(config)
        self.act_fn = ACT2FN[config.hidden_activation]


class Gemma2DecoderLayer(LlamaDecoderLayer):
    attention, feed_forward, norm = Gemma2Attention, Gemma2MLP, Gemma2RMSNorm

    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.pre_feedforward_layernorm = Gemma2RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_feedforward_layernorm = Gemma2RMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(self, hidden_states, position_embeddings=None, attention_mask=None, position_ids=None, past_key_values=None, **kwargs):
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        hidden_states, _ = self.self_attn(hidden_states=hidden_states, position_embeddings=position_embeddings, attention_mask=attention_mask,
                                          position_ids=position_ids, past_key_values=past_key_values, **kwargs)
        hidden_states = self.post_attention_layernorm(hidden_states)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.pre_feedforward_layernorm(hidden_states)
        hidden_states = self.mlp(hidden_states)
        hidden_states = self.post_feedforward_layernorm(hidden_states)
        hidden_states = residual + hidden_states
        return hidden_states


class Gemma2Model(LlamaModel):
    layer, masks = Gemma2DecoderLayer, DecoderOfKinds.masks

    def embedding(self, config):
        return ScaledEmbedding(config.vocab_size, config.hidden_size, config.pad_token_id, config.hidden_size**0.5)


class Gemma2ForCausalLM(LlamaForCausalLM):
    config_class, decoder = Gemma2Config, Gemma2Model
    _no_split_modules, _supports_sdpa = ["Gemma2DecoderLayer"], False

    def logits(self, x):
        logits = self.lm_head(x)
        if self.config.final_logit_softcapping is not None:
            logits = logits / self.config.final_logit_softcapping
            logits = torch.tanh(logits)
            logits = logits * self.config.final_logit_softcapping
        return logits


causal_lm = Gemma2ForCausalLM
