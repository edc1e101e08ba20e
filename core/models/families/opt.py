"""opt: positions of a table from an offset on, norms before or after, embeddings that may be narrower than the layers."""
import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.cache_utils import DynamicCache
from transformers.configuration_utils import PreTrainedConfig
from transformers.masking_utils import create_causal_mask
from transformers.modeling_decoder import CausalLM
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS, PreTrainedModel
from transformers.models.gpt_neox.modeling_gpt_neox import eager_attention_forward
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs


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
    layerdrop: float = 0.0
    use_cache: bool = True
    pad_token_id: int | None = 1
    bos_token_id: int | None = 2
    eos_token_id: int | None = 2
    enable_bias: bool = True
    layer_norm_elementwise_affine: bool = True
    tie_word_embeddings: bool = True

    def __post_init__(self, **kwargs):
        if self.word_embed_proj_dim is None:
            self.word_embed_proj_dim = self.hidden_size
        super().__post_init__(**kwargs)


class OPTLearnedPositionalEmbedding(nn.Embedding):
    def __init__(self, num_embeddings, embedding_dim):
        self.offset = 2
        super().__init__(num_embeddings + self.offset, embedding_dim)

    def forward(self, attention_mask, past_key_values_length=0, position_ids=None):
        return super().forward(position_ids + self.offset)


class OPTAttention(nn.Module):
    eager = staticmethod(eager_attention_forward)

    def __init__(self, config, layer_idx, dropout, bias=True):
        super().__init__()
        width = config.hidden_size
        self.config = config
        self.num_heads = config.num_attention_heads
        self.head_dim = width // self.num_heads
        self.dropout = dropout
        self.layer_idx = layer_idx
        self.is_causal = True
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
        k = k.view(shape).transpose(1, 2)
        v = v.view(shape).transpose(1, 2)
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, self.layer_idx)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, self.eager)
        output, weights = attend(self, q, k, v, attention_mask, dropout=self.dropout if self.training else 0.0, scaling=scaling, **kwargs)
        output = output.reshape(*rows, -1).contiguous()
        output = self.out_proj(output)
        return output, weights


class OPTDecoderLayer(GradientCheckpointingLayer):
    def __init__(self, config, layer_idx=None):
        super().__init__()
        width, affine = config.hidden_size, config.layer_norm_elementwise_affine
        self.self_attn = OPTAttention(config, layer_idx, config.attention_dropout, config.enable_bias)
        self.do_layer_norm_before = config.do_layer_norm_before
        self.dropout = config.dropout
        self.activation_fn = ACT2FN[config.activation_function]
        self.self_attn_layer_norm = nn.LayerNorm(width, elementwise_affine=affine)
        self.fc1 = nn.Linear(width, config.ffn_dim, bias=config.enable_bias)
        self.fc2 = nn.Linear(config.ffn_dim, width, bias=config.enable_bias)
        self.final_layer_norm = nn.LayerNorm(width, elementwise_affine=affine)

    def forward(self, hidden_states, attention_mask=None, past_key_values=None, use_cache=False, position_ids=None, **kwargs):
        residual = hidden_states
        if self.do_layer_norm_before:
            hidden_states = self.self_attn_layer_norm(hidden_states)
        hidden_states, _ = self.self_attn(hidden_states=hidden_states, past_key_values=past_key_values, position_ids=position_ids,
                                          attention_mask=attention_mask, **kwargs)
        hidden_states = nn.functional.dropout(hidden_states, p=self.dropout, training=self.training)
        hidden_states = residual + hidden_states
        if not self.do_layer_norm_before:
            hidden_states = self.self_attn_layer_norm(hidden_states)
        shape = hidden_states.shape
        hidden_states = hidden_states.reshape(-1, hidden_states.size(-1))
        residual = hidden_states
        if self.do_layer_norm_before:
            hidden_states = self.final_layer_norm(hidden_states)
        hidden_states = self.fc1(hidden_states)
        hidden_states = self.activation_fn(hidden_states)
        hidden_states = self.fc2(hidden_states)
        hidden_states = nn.functional.dropout(hidden_states, p=self.dropout, training=self.training)
        hidden_states = (residual + hidden_states).view(shape)
        if not self.do_layer_norm_before:
            hidden_states = self.final_layer_norm(hidden_states)
        return hidden_states


class OPTPreTrainedModel(PreTrainedModel):
    config_class = OPTConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["OPTDecoderLayer"]
    _supports_attention_backend = True
    _supports_flash_attn = True
    _supports_sdpa = True


class OPTDecoder(OPTPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        narrow, width = config.word_embed_proj_dim, config.hidden_size
        self.layerdrop = config.layerdrop
        self.embed_tokens = nn.Embedding(config.vocab_size, narrow, config.pad_token_id)
        self.embed_positions = OPTLearnedPositionalEmbedding(config.max_position_embeddings, width)
        self.project_out = nn.Linear(width, narrow, bias=False) if narrow != width else None
        self.project_in = nn.Linear(narrow, width, bias=False) if narrow != width else None
        self.final_layer_norm = None
        if config.do_layer_norm_before and not config._remove_final_layer_norm:
            self.final_layer_norm = nn.LayerNorm(width, elementwise_affine=config.layer_norm_elementwise_affine)
        self.layers = nn.ModuleList([OPTDecoderLayer(config, i) for i in range(config.num_hidden_layers)])
        self.gradient_checkpointing = False
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, attention_mask=None, past_key_values=None, inputs_embeds=None, use_cache=None, position_ids=None, **kwargs):
        if input_ids is not None:
            input_ids = input_ids.view(-1, input_ids.shape[-1])
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        if use_cache and past_key_values is None:
            past_key_values = DynamicCache(config=self.config)
        seen = past_key_values.get_seq_length() if past_key_values is not None else 0
        dense_mask = attention_mask
        if dense_mask is None:
            dense_mask = torch.ones(inputs_embeds.shape[0], seen + inputs_embeds.shape[1], device=inputs_embeds.device)
        if position_ids is None:
            position_ids = torch.cumsum(dense_mask, dim=1)
            position_ids = (position_ids * dense_mask - 1).long()
            position_ids = position_ids[:, seen:]
        mask = create_causal_mask(config=self.config, inputs_embeds=inputs_embeds, attention_mask=attention_mask, past_key_values=past_key_values)
        positions = self.embed_positions(dense_mask, seen, position_ids=position_ids)
        if self.project_in is not None:
            inputs_embeds = self.project_in(inputs_embeds)
        hidden_states = inputs_embeds + positions.to(inputs_embeds.device)
        for layer in self.layers:
            if self.training and self.layerdrop > 0.0:
                if torch.rand([]) < self.layerdrop:
                    continue
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
        self.post_init()

    def __call__(self, **given):
        """OPTForCausalLM calls the decoder itself."""
        return self.decoder(**given)


class OPTForCausalLM(CausalLM, OPTPreTrainedModel):
    _tied_weights_keys = {"lm_head.weight": "model.decoder.embed_tokens.weight"}
    decoder = OPTModel

    def head_width(self, config):
        return config.word_embed_proj_dim

    def get_input_embeddings(self):
        return self.model.decoder.embed_tokens


causal_lm = OPTForCausalLM
