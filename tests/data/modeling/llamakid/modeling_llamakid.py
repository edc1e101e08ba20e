import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import (
    LlamaAttention, LlamaDecoderLayer, LlamaMLP, LlamaModel, LlamaRMSNorm, apply_rotary_pos_emb, eager_attention_forward,
)
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS


class KidConfig(LlamaConfig):
    model_type = "llamakid"

    def __init__(self, gate_rank=16, **kwargs):
        super().__init__(**kwargs)
        self.gate_rank = gate_rank


class KidAttention(LlamaAttention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.gate_down = nn.Linear(config.hidden_size, config.gate_rank, bias=False)
        self.gate_up = nn.Linear(config.gate_rank, config.num_attention_heads * self.head_dim)

    def forward(self, hidden_states, position_embeddings=None, attention_mask=None, past_key_values=None, **kwargs):
        input_shape = hidden_states.shape[:-1]
        hidden_shape = (*input_shape, -1, self.head_dim)
        query_states = self.q_proj(hidden_states).view(hidden_shape).transpose(1, 2)
        key_states = self.k_proj(hidden_states).view(hidden_shape).transpose(1, 2)
        value_states = self.v_proj(hidden_states).view(hidden_shape).transpose(1, 2)
        cos, sin = position_embeddings
        query_states, key_states = apply_rotary_pos_emb(query_states, key_states, cos, sin)
        if past_key_values is not None:
            key_states, value_states = past_key_values.update(key_states, value_states, self.layer_idx)
        attention_interface = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager_attention_forward)
        attn_output, attn_weights = attention_interface(
            self, query_states, key_states, value_states, attention_mask,
            dropout=0.0 if not self.training else self.attention_dropout, scaling=self.scaling, **kwargs)
        attn_output = attn_output.reshape(*input_shape, -1).contiguous()
        gate = torch.sigmoid(self.gate_up(self.gate_down(hidden_states)))
        return self.o_proj(attn_output * gate), attn_weights


class KidForCausalLM(LlamaForCausalLM):
    config_class = KidConfig

    def __init__(self, config):
        super().__init__(config)
        for i, layer in enumerate(self.model.layers):
            layer.self_attn = KidAttention(config, i)
        self.post_init()
