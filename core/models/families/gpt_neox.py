"""gpt_neox: fused query, key and value, rotary on a part of each head, attention and feed-forward side by side."""
import torch
from torch import nn

from transformers.configuration_utils import PreTrainedConfig
from transformers.integrations.eager_attention import eager_attention_forward
from transformers.modeling_decoder import BaseModelOutputWithPast, CausalLM, attend, begin, capture_outputs, merge_with_config_defaults
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_plain_mlp import PlainMLP
from transformers.modeling_rope_utils import RotaryEmbedding, apply_rotary_pos_emb
from transformers.modeling_stage_gpt import handed, stage_of
from transformers.modeling_tp import tp_plan
from transformers.modeling_utils import PreTrainedModel


class GPTNeoXConfig(PreTrainedConfig):
    model_type = "gpt_neox"
    base_model_tp_plan = tp_plan(colwise="attention.query_key_value mlp.dense_h_to_4h", rowwise="attention.dense mlp.dense_4h_to_h")
    vocab_size: int = 50432
    hidden_size: int = 6144
    num_hidden_layers: int = 44
    num_attention_heads: int = 64
    intermediate_size: int = 24576
    hidden_act: str = "gelu"
    attention_dropout: float = 0.0
    hidden_dropout: float = 0.0
    max_position_embeddings: int = 2048
    layer_norm_eps: float = 1e-5
    use_cache: bool = True
    tie_word_embeddings: bool = False
    use_parallel_residual: bool = True
    rope_parameters: dict | None = None
    attention_bias: bool = True

    def __post_init__(self, **kwargs):
        kwargs["rope_theta"] = kwargs.pop("rotary_emb_base", 10000.0)
        kwargs["partial_rotary_factor"] = kwargs.pop("rotary_pct", 0.25)
        super().__post_init__(**kwargs)


class GPTNeoXMLP(PlainMLP):
    names = "dense_h_to_4h", "act", "dense_4h_to_h"


class GPTNeoXRotaryEmbedding(RotaryEmbedding):
    @staticmethod
    def compute_default_rope_parameters(config):
        dim = int(config.hidden_size // config.num_attention_heads * config.rope_parameters.get("partial_rotary_factor", 1.0))
        return 1.0 / config.rope_parameters["rope_theta"] ** (torch.arange(0, dim, 2, dtype=torch.float) / dim), 1.0


def turn_part(q, k, cos, sin):
    turned = cos.shape[-1]
    q_turned, q_rest = q[..., :turned], q[..., turned:]
    k_turned, k_rest = k[..., :turned], k[..., turned:]
    q_out, k_out = apply_rotary_pos_emb(q_turned, k_turned, cos, sin)
    q_out = torch.cat([q_out, q_rest], dim=-1)
    k_out = torch.cat([k_out, k_rest], dim=-1)
    return q_out, k_out


class GPTNeoXAttention(nn.Module):
    def __init__(self, config, layer_idx=None):
        super().__init__()
        self.config, self.layer_idx, self.is_causal = config, layer_idx, True
        self.num_key_value_groups = 1
        self.head_size = config.hidden_size // config.num_attention_heads
        self.scaling = self.head_size**-0.5
        self.query_key_value = nn.Linear(config.hidden_size, 3 * config.hidden_size, bias=config.attention_bias)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size, bias=config.attention_bias)

    def forward(self, hidden_states, attention_mask, past_key_values=None, position_embeddings=None, **kwargs):
        rows = hidden_states.shape[:-1]
        qkv = self.query_key_value(hidden_states).view((*rows, -1, 3 * self.head_size)).transpose(1, 2)
        q, k, v = qkv.chunk(3, dim=-1)
        cos, sin = position_embeddings
        q, k = turn_part(q, k, cos, sin)
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, self.layer_idx)
        output, weights = attend(self, q, k, v, attention_mask, eager_attention_forward, scaling=self.scaling,
                                 dropout=self.config.attention_dropout if self.training else 0.0, **kwargs)
        output = output.reshape(*rows, -1).contiguous()
        output = self.dense(output)
        return output, weights


class GPTNeoXLayer(GradientCheckpointingLayer):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.use_parallel_residual = config.use_parallel_residual
        self.input_layernorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.post_attention_layernorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.post_attention_dropout = nn.Dropout(config.hidden_dropout)
        self.post_mlp_dropout = nn.Dropout(config.hidden_dropout)
        self.attention = GPTNeoXAttention(config, layer_idx)
        self.mlp = GPTNeoXMLP(config)

    def forward(self, hidden_states, **kwargs):
        attended, weights = self.attention(self.input_layernorm(hidden_states), **kwargs)
        attended = self.post_attention_dropout(attended)
        if self.use_parallel_residual:
            fed = self.mlp(self.post_attention_layernorm(hidden_states))
            fed = self.post_mlp_dropout(fed)
            return fed + attended + hidden_states
        attended = attended + hidden_states
        fed = self.mlp(self.post_attention_layernorm(attended))
        fed = self.post_mlp_dropout(fed)
        return fed + attended


class GPTNeoXPreTrainedModel(PreTrainedModel):
    config_class = GPTNeoXConfig
    base_model_prefix = "gpt_neox"
    _no_split_modules = ["GPTNeoXLayer"]
    _input_embed_layer = "embed_in"
    supports_gradient_checkpointing = _supports_flash_attn = _supports_sdpa = True


class GPTNeoXModel(GPTNeoXPreTrainedModel):
    rotary = GPTNeoXRotaryEmbedding

    def __init__(self, config):
        super().__init__(config)
        self.embed_in = nn.Embedding(config.vocab_size, config.hidden_size)
        self.emb_dropout = nn.Dropout(config.hidden_dropout)
        self.layers = nn.ModuleList([GPTNeoXLayer(config, i) for i in range(config.num_hidden_layers)])
        self.final_layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.rotary_emb = self.rotary(config)
        self.gradient_checkpointing = False

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, attention_mask=None, position_ids=None, inputs_embeds=None, past_key_values=None, use_cache=None, **kwargs):
        inputs_embeds, past_key_values, position_ids, mask = begin(
            self, input_ids, attention_mask, position_ids, past_key_values, inputs_embeds, use_cache)
        hidden_states = self.emb_dropout(inputs_embeds)
        tables = self.rotary_emb(hidden_states, position_ids=position_ids)
        for layer in self.layers:
            hidden_states = layer(hidden_states, attention_mask=mask, position_ids=position_ids, past_key_values=past_key_values, use_cache=use_cache,
                                  position_embeddings=tables, **kwargs)
        hidden_states = self.final_layer_norm(hidden_states)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states, past_key_values=past_key_values)


class GPTNeoXForCausalLM(CausalLM, GPTNeoXPreTrainedModel):
    _tied_weights_keys = {"lm_head.weight": "gpt_neox.embed_in.weight"}
    _tp_plan = {"lm_head": "colwise_gather_output"}
    decoder, stage = GPTNeoXModel, stage_of(handed)


causal_lm = GPTNeoXForCausalLM
