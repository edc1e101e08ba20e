"""biogpt: OPT's layer with dropout after the activation too, and embeddings that are scaled."""
import math

import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.cache_utils import DynamicCache
from transformers.configuration_utils import PreTrainedConfig
from transformers.masking_utils import create_causal_mask
from transformers.modeling_decoder import CausalLM
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.modeling_utils import PreTrainedModel
from transformers.models.opt.modeling_opt import OPTAttention, OPTLearnedPositionalEmbedding
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs


class BioGptConfig(PreTrainedConfig):
    model_type = "biogpt"
    vocab_size: int = 42384
    hidden_size: int = 1024
    num_hidden_layers: int = 24
    num_attention_heads: int = 16
    intermediate_size: int = 4096
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 1024
    layer_norm_eps: float = 1e-12
    scale_embedding: bool = True
    use_cache: bool = True
    layerdrop: float = 0.0
    activation_dropout: float = 0.0
    pad_token_id: int | None = 1
    bos_token_id: int | None = 0
    eos_token_id: int | None = 2
    tie_word_embeddings: bool = True


class BioGptScaledWordEmbedding(nn.Embedding):
    def __init__(self, num_embeddings, embedding_dim, padding_idx, embed_scale=1.0):
        super().__init__(num_embeddings, embedding_dim, padding_idx)
        self.embed_scale = embed_scale

    def forward(self, input_ids):
        return super().forward(input_ids) * self.embed_scale


def eager_attention_forward(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **kwargs):
    weights = torch.matmul(query, key.transpose(2, 3)) * scaling
    if attention_mask is not None:
        weights = weights + attention_mask
    weights = nn.functional.softmax(weights, dim=-1)
    weights = nn.functional.dropout(weights, p=dropout, training=module.training)
    output = torch.matmul(weights, value)
    output = output.transpose(1, 2).contiguous()
    return output, weights


class BioGptAttention(OPTAttention):
    eager = staticmethod(eager_attention_forward)

    def query(self, x):
        return self.q_proj(x), self.scaling


class BioGptDecoderLayer(GradientCheckpointingLayer):
    def __init__(self, config, layer_idx=None):
        super().__init__()
        width = config.hidden_size
        self.self_attn = BioGptAttention(config, layer_idx, config.attention_probs_dropout_prob)
        self.dropout = config.hidden_dropout_prob
        self.activation_fn = ACT2FN[config.hidden_act]
        self.activation_dropout = config.activation_dropout
        self.self_attn_layer_norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, config.intermediate_size)
        self.fc2 = nn.Linear(config.intermediate_size, width)
        self.final_layer_norm = nn.LayerNorm(width)

    def forward(self, hidden_states, attention_mask=None, past_key_values=None, use_cache=True, position_ids=None, **kwargs):
        residual = hidden_states
        hidden_states = self.self_attn_layer_norm(hidden_states)
        hidden_states, _ = self.self_attn(hidden_states=hidden_states, past_key_values=past_key_values, attention_mask=attention_mask,
                                          position_ids=position_ids, **kwargs)
        hidden_states = nn.functional.dropout(hidden_states, p=self.dropout, training=self.training)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.final_layer_norm(hidden_states)
        hidden_states = self.fc1(hidden_states)
        hidden_states = self.activation_fn(hidden_states)
        hidden_states = nn.functional.dropout(hidden_states, p=self.activation_dropout, training=self.training)
        hidden_states = self.fc2(hidden_states)
        hidden_states = nn.functional.dropout(hidden_states, p=self.dropout, training=self.training)
        hidden_states = residual + hidden_states
        return hidden_states


class BioGptPreTrainedModel(PreTrainedModel):
    config_class = BioGptConfig
    base_model_prefix = "biogpt"
    supports_gradient_checkpointing = True
    _supports_flash_attn = True
    _supports_sdpa = True


class BioGptModel(BioGptPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        width = config.hidden_size
        self.layerdrop = config.layerdrop
        self.dropout = config.hidden_dropout_prob
        self.embed_tokens = BioGptScaledWordEmbedding(config.vocab_size, width, config.pad_token_id,
                                                      embed_scale=math.sqrt(width) if config.scale_embedding else 1.0)
        self.embed_positions = OPTLearnedPositionalEmbedding(config.max_position_embeddings, width)
        self.layers = nn.ModuleList([BioGptDecoderLayer(config, i) for i in range(config.num_hidden_layers)])
        self.layer_norm = nn.LayerNorm(width)
        self.gradient_checkpointing = False
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, attention_mask=None, inputs_embeds=None, past_key_values=None, use_cache=None, position_ids=None, **kwargs):
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        if use_cache and past_key_values is None:
            past_key_values = DynamicCache(config=self.config)
        batch, seq = inputs_embeds.size()[:-1]
        seen = past_key_values.get_seq_length() if past_key_values is not None else 0
        if attention_mask is None:
            attention_mask = torch.ones(batch, seen + seq, device=inputs_embeds.device)
        mask = create_causal_mask(config=self.config, inputs_embeds=inputs_embeds, attention_mask=attention_mask, past_key_values=past_key_values)
        if position_ids is None:
            position_ids = torch.arange(seq, device=inputs_embeds.device) + seen
            position_ids = position_ids.unsqueeze(0)
        positions = self.embed_positions(attention_mask, seen, position_ids=position_ids)
        hidden_states = inputs_embeds + positions
        hidden_states = nn.functional.dropout(hidden_states, p=self.dropout, training=self.training)
        for layer in self.layers:
            if self.training and self.layerdrop > 0.0:
                if torch.rand([]) < self.layerdrop:
                    continue
            hidden_states = layer(hidden_states, attention_mask=mask, past_key_values=past_key_values, use_cache=use_cache,
                                  position_ids=position_ids, **kwargs)
        hidden_states = self.layer_norm(hidden_states)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states, past_key_values=past_key_values)


class BioGptForCausalLM(CausalLM, BioGptPreTrainedModel):
    _tied_weights_keys = {"output_projection.weight": "biogpt.embed_tokens.weight"}
    decoder, head = BioGptModel, "output_projection"


causal_lm = BioGptForCausalLM
