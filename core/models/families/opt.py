"""opt: positions of a table from an offset on, norms before or after, embeddings that may be narrower than the layers."""
import torch
import torch.nn.functional as F
from torch import nn

from transformers.activations import ACT2FN
from transformers.configuration_utils import PreTrainedConfig
from transformers.masking_utils import create_causal_mask
from transformers.integrations.eager_attention import eager_attention_forward
from transformers.modeling_decoder import BaseModelOutputWithPast, CausalLM, attend, capture_outputs, look_up, merge_with_config_defaults
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_utils import PreTrainedModel


class OPTConfig(PreTrainedConfig):
    model_type = "opt"
    vocab_size: int = 50272
    hidden_size: int = 768
    num_hidden_layers: int = 12
    ffn_dim: int = 3072
    max_position_embeddings: int = 2048
    do_layer_norm_before: bool = True
    _remove_final_layer_norm: bool = False
    word_embed_proj_dim: int | None = None
    dropout: float = 0.1
    attention_dropout: float = 0.0
    num_attention_heads: int = 12
    activation_function: str = "relu"
    use_cache: bool = True
    pad_token_id: int | None = 1
    enable_bias: bool = True
    layer_norm_elementwise_affine: bool = True
    tie_word_embeddings: bool = True


class OPTLearnedPositionalEmbedding(nn.Embedding):
    offset = 2

    def __init__(self, num_embeddings, embedding_dim):
        super().__init__(num_embeddings + self.offset, embedding_dim)

    def forward(self, position_ids):
        return super().forward(position_ids + self.offset)


class OPTAttention(nn.Module):
    eager = staticmethod(eager_attention_forward)

    def __init__(self, config, layer_idx, dropout, bias=True):
        super().__init__()
        width = config.hidden_size
        self.config, self.layer_idx, self.dropout, self.is_causal = config, layer_idx, dropout, True
        self.num_key_value_groups = 1
        self.head_dim = width // config.num_attention_heads
        self.scaling = self.head_dim**-0.5
        self.k_proj = nn.Linear(width, width, bias=bias)
        self.v_proj = nn.Linear(width, width, bias=bias)
        self.q_proj = nn.Linear(width, width, bias=bias)
        self.out_proj = nn.Linear(width, width, bias=bias)

    def query(self, x):
        """The query, and what is left for the kernel to scale."""
        return self.q_proj(x) * self.scaling, 1.0

    def forward(self, hidden_states, past_key_values=None, attention_mask=None, **kwargs):
        rows = hidden_states.shape[:-1]
        shape = (*rows, -1, self.head_dim)
        q, scaling = self.query(hidden_states)
        q = q.view(shape).transpose(1, 2)
        k = self.k_proj(hidden_states)
        v = self.v_proj(hidden_states)
        k, v = k.view(shape).transpose(1, 2), v.view(shape).transpose(1, 2)
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, self.layer_idx)
        output, weights = attend(self, q, k, v, attention_mask, self.eager, dropout=self.dropout if self.training else 0.0, scaling=scaling,
                                 **kwargs)
        output = output.reshape(*rows, -1).contiguous()
        output = self.out_proj(output)
        return output, weights


class OPTDecoderLayer(GradientCheckpointingLayer):
    norm_first, flattens, activation_dropout = True, True, 0.0

    def __init__(self, config, layer_idx=None):
        super().__init__()
        self.norm_first, self.dropout = config.do_layer_norm_before, config.dropout
        self.parts(OPTAttention(config, layer_idx, config.attention_dropout, config.enable_bias), config.hidden_size, config.ffn_dim,
                   config.activation_function, config.enable_bias, config.layer_norm_elementwise_affine)

    def parts(self, attention, width, inner, activation, bias=True, affine=True):
        self.self_attn = attention
        self.activation_fn = ACT2FN[activation]
        self.self_attn_layer_norm = nn.LayerNorm(width, elementwise_affine=affine)
        self.fc1 = nn.Linear(width, inner, bias=bias)
        self.fc2 = nn.Linear(inner, width, bias=bias)
        self.final_layer_norm = nn.LayerNorm(width, elementwise_affine=affine)

    def forward(self, hidden_states, **kwargs):
        residual = hidden_states
        if self.norm_first:
            hidden_states = self.self_attn_layer_norm(hidden_states)
        hidden_states, weights = self.self_attn(hidden_states, **kwargs)
        hidden_states = F.dropout(hidden_states, p=self.dropout, training=self.training)
        hidden_states = residual + hidden_states
        if not self.norm_first:
            hidden_states = self.self_attn_layer_norm(hidden_states)
        shape = hidden_states.shape
        if self.flattens:
            hidden_states = hidden_states.reshape(-1, shape[-1])
        residual = hidden_states
        if self.norm_first:
            hidden_states = self.final_layer_norm(hidden_states)
        hidden_states = self.fc1(hidden_states)
        hidden_states = self.activation_fn(hidden_states)
        hidden_states = F.dropout(hidden_states, p=self.activation_dropout, training=self.training)
        hidden_states = self.fc2(hidden_states)
        hidden_states = F.dropout(hidden_states, p=self.dropout, training=self.training)
        hidden_states = residual + hidden_states
        if self.flattens:
            hidden_states = hidden_states.view(shape)
        return hidden_states if self.norm_first else self.final_layer_norm(hidden_states)


class OPTPreTrainedModel(PreTrainedModel):
    config_class = OPTConfig
    base_model_prefix = "model"
    _no_split_modules = ["OPTDecoderLayer"]
    supports_gradient_checkpointing = _supports_flash_attn = _supports_sdpa = position_table = True


class OPTDecoder(OPTPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        width, narrow = config.hidden_size, config.word_embed_proj_dim or config.hidden_size
        self.embed_tokens = nn.Embedding(config.vocab_size, narrow, config.pad_token_id)
        self.embed_positions = OPTLearnedPositionalEmbedding(config.max_position_embeddings, width)
        self.project_out = nn.Linear(width, narrow, bias=False) if narrow != width else None
        self.project_in = nn.Linear(narrow, width, bias=False) if narrow != width else None
        ends = config.do_layer_norm_before and not config._remove_final_layer_norm
        self.final_layer_norm = nn.LayerNorm(width, elementwise_affine=config.layer_norm_elementwise_affine) if ends else None
        self.layers = nn.ModuleList([OPTDecoderLayer(config, i) for i in range(config.num_hidden_layers)])
        self.gradient_checkpointing = False

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, attention_mask=None, past_key_values=None, inputs_embeds=None, use_cache=None, position_ids=None, **kwargs):
        inputs_embeds, past_key_values, seen = look_up(self, input_ids, inputs_embeds, past_key_values, use_cache)
        dense_mask = attention_mask
        if dense_mask is None:
            dense_mask = torch.ones(inputs_embeds.shape[0], seen + inputs_embeds.shape[1], device=inputs_embeds.device)
        if position_ids is None:
            position_ids = torch.cumsum(dense_mask, dim=1)
            position_ids = (position_ids * dense_mask - 1).long()
            position_ids = position_ids[:, seen:]
        mask = create_causal_mask(config=self.config, inputs_embeds=inputs_embeds, attention_mask=attention_mask, past_key_values=past_key_values)
        positions = self.embed_positions(position_ids)
        if self.project_in is not None:
            inputs_embeds = self.project_in(inputs_embeds)
        hidden_states = inputs_embeds + positions
        for layer in self.layers:  # all of them: layerdrop leaves some out at random
            hidden_states = layer(hidden_states, attention_mask=mask, position_ids=position_ids, past_key_values=past_key_values,
                                  use_cache=use_cache, **kwargs)
        if self.final_layer_norm is not None:
            hidden_states = self.final_layer_norm(hidden_states)
        if self.project_out is not None:
            hidden_states = self.project_out(hidden_states)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states, past_key_values=past_key_values)


class OPTModel(OPTPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.decoder = OPTDecoder(config)

    def __call__(self, **given):
        """OPTForCausalLM calls the decoder itself."""
        return self.decoder(**given)


class OPTForCausalLM(CausalLM, OPTPreTrainedModel):
    _tied_weights_keys = {"lm_head.weight": "model.decoder.embed_tokens.weight"}
    decoder = OPTModel

    def get_input_embeddings(self):
        return self.model.decoder.embed_tokens


causal_lm = OPTForCausalLM
