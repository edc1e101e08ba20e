"""xglm: a decoder of bart's kind with sinusoids for positions, its attention written out for any kernel."""
import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.configuration_utils import PreTrainedConfig
from transformers.masking_utils import create_causal_mask
from transformers.modeling_bart import ScaledWordEmbedding, SinusoidalPositionalEmbedding
from transformers.modeling_decoder import BaseModelOutputWithPast, CausalLM, capture_outputs, look_up, merge_with_config_defaults
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_stage_gpt import handed, stage_of
from transformers.modeling_utils import PreTrainedModel


class XGLMConfig(PreTrainedConfig):
    model_type = "xglm"
    attribute_map = {"num_attention_heads": "attention_heads", "hidden_size": "d_model", "num_hidden_layers": "num_layers"}
    vocab_size: int = 256008
    max_position_embeddings: int = 2048
    d_model: int = 1024
    ffn_dim: int = 4096
    num_layers: int = 24
    attention_heads: int = 16
    activation_function: str = "gelu"
    dropout: float = 0.1
    attention_dropout: float = 0.1
    activation_dropout: float = 0.0
    scale_embedding: bool = True
    use_cache: bool = True
    pad_token_id: int | None = 1
    tie_word_embeddings: bool = True


class XGLMSinusoidalPositionalEmbedding(SinusoidalPositionalEmbedding):
    pass


class XGLMAttention(nn.Module):
    def __init__(self, config, layer_idx=None):
        super().__init__()
        width = config.d_model
        self.layer_idx, self.dropout, self.num_heads = layer_idx, config.attention_dropout, config.attention_heads
        self.head_dim = width // config.attention_heads
        self.scaling = self.head_dim**-0.5
        self.k_proj = nn.Linear(width, width)
        self.v_proj = nn.Linear(width, width)
        self.q_proj = nn.Linear(width, width)
        self.out_proj = nn.Linear(width, width)

    def heads(self, x):
        return x.view(*x.shape[:2], -1, self.head_dim).transpose(1, 2)

    def project(self, hidden_states):
        query = self.q_proj(hidden_states) * self.scaling
        key = self.k_proj(hidden_states)
        value = self.v_proj(hidden_states)
        return query, self.heads(key), self.heads(value)

    def beside(self, weights, key, value):
        """What the layer holds until it ends."""
        return weights

    def forward(self, hidden_states, past_key_values=None, attention_mask=None, **kwargs):
        rows = hidden_states.shape[:2]
        query, key, value = self.project(hidden_states)
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, self.layer_idx)
        query = self.heads(query)
        query = query.reshape(-1, *query.shape[2:])
        key = key.reshape(-1, *key.shape[2:])
        value = value.reshape(-1, *value.shape[2:])
        weights = torch.bmm(query, key.transpose(1, 2))
        shape = weights.shape
        if attention_mask is not None:
            weights = weights.view(rows[0], -1, *shape[1:]) + attention_mask
            weights = torch.max(weights, torch.full((), torch.finfo(weights.dtype).min, device=weights.device))
            weights = weights.view(shape)
        if weights.dtype == torch.float16:
            weights = nn.functional.softmax(weights, dim=-1, dtype=torch.float32).to(torch.float16)
        else:
            weights = nn.functional.softmax(weights, dim=-1)
        seen = weights.view(rows[0], -1, *shape[1:])
        weights = seen.view(shape)
        probs = nn.functional.dropout(weights, p=self.dropout, training=self.training)
        output = torch.bmm(probs, value)
        output = output.view(rows[0], -1, rows[1], self.head_dim).transpose(1, 2)
        output = output.reshape(*rows, -1)
        output = self.out_proj(output)
        return output, self.beside(seen, key, value)


class XGLMDecoderLayer(GradientCheckpointingLayer):
    def __init__(self, config, layer_idx=None):
        super().__init__()
        self.self_attn = XGLMAttention(config, layer_idx)
        self.dropout, self.activation_dropout, self.activation_fn = config.dropout, config.activation_dropout, ACT2FN[config.activation_function]
        self.self_attn_layer_norm = nn.LayerNorm(config.d_model)
        self.fc1 = nn.Linear(config.d_model, config.ffn_dim)
        self.fc2 = nn.Linear(config.ffn_dim, config.d_model)
        self.final_layer_norm = nn.LayerNorm(config.d_model)

    def forward(self, hidden_states, attention_mask=None, past_key_values=None, use_cache=True, **kwargs):
        residual = hidden_states
        hidden_states = self.self_attn_layer_norm(hidden_states)
        hidden_states, beside = self.self_attn(hidden_states, past_key_values=past_key_values, attention_mask=attention_mask, **kwargs)
        hidden_states = nn.functional.dropout(hidden_states, p=self.dropout, training=self.training)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.final_layer_norm(hidden_states)
        hidden_states = self.activation_fn(self.fc1(hidden_states))
        hidden_states = nn.functional.dropout(hidden_states, p=self.activation_dropout, training=self.training)
        hidden_states = self.fc2(hidden_states)
        hidden_states = nn.functional.dropout(hidden_states, p=self.dropout, training=self.training)
        hidden_states = residual + hidden_states
        return hidden_states


class XGLMPreTrainedModel(PreTrainedModel):
    config_class, base_model_prefix, _no_split_modules = XGLMConfig, "model", ["XGLMDecoderLayer"]
    supports_gradient_checkpointing = True


class XGLMModel(XGLMPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        width = config.d_model
        self.dropout = config.dropout
        self.embed_tokens = ScaledWordEmbedding(config.vocab_size, width, config.pad_token_id, width**0.5 if config.scale_embedding else 1.0)
        self.embed_positions = XGLMSinusoidalPositionalEmbedding(config.max_position_embeddings, width)
        self.layers = nn.ModuleList([XGLMDecoderLayer(config, i) for i in range(config.num_layers)])
        self.layer_norm = nn.LayerNorm(width)
        self.gradient_checkpointing = False

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, inputs_embeds=None, use_cache=None, **kwargs):
        inputs_embeds, past_key_values, seen = look_up(self, input_ids, inputs_embeds, past_key_values, use_cache)
        attention_mask = create_causal_mask(config=self.config, inputs_embeds=inputs_embeds, attention_mask=attention_mask,
                                            past_key_values=past_key_values)
        if position_ids is None:
            position_ids = torch.arange(seen, seen + inputs_embeds.shape[1], device=inputs_embeds.device)
            position_ids = position_ids.unsqueeze(0)
        hidden_states = inputs_embeds + self.embed_positions(position_ids, seen)
        hidden_states = nn.functional.dropout(hidden_states, p=self.dropout, training=self.training)
        for layer in self.layers:  # all of them: layerdrop leaves some out at random
            hidden_states = layer(hidden_states, attention_mask, past_key_values=past_key_values, use_cache=use_cache, **kwargs)
        hidden_states = self.layer_norm(hidden_states)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states, past_key_values=past_key_values)


class XGLMForCausalLM(CausalLM, XGLMPreTrainedModel):
    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}
    decoder = XGLMModel
    stage = stage_of(handed)


causal_lm = XGLMForCausalLM
