"""bloom: alibi instead of positions, queries, keys and values of one projection, a GeLU with a backward of its own."""
import math

import torch
import torch.nn.functional as F
from torch import nn

from transformers.activations import BloomGelu
from transformers.configuration_utils import PreTrainedConfig
from transformers.masking_utils import create_causal_mask
from transformers.modeling_alibi import _get_alibi_slopes, build_alibi_tensor
from transformers.modeling_decoder import BaseModelOutputWithPast, CausalLM, capture_outputs, look_up, merge_with_config_defaults
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_stage_gpt import handed_bloom, stage_of
from transformers.modeling_utils import PreTrainedModel


class BloomConfig(PreTrainedConfig):
    model_type = "bloom"
    attribute_map = {"num_hidden_layers": "n_layer", "num_attention_heads": "n_head"}
    vocab_size: int = 250880
    hidden_size: int = 64
    n_layer: int = 2
    n_head: int = 8
    layer_norm_epsilon: float = 1e-5
    use_cache: bool = True
    apply_residual_connection_post_layernorm: bool = False
    hidden_dropout: float = 0.0
    attention_dropout: float = 0.0
    tie_word_embeddings: bool = True

    def __post_init__(self, **kwargs):
        self.hidden_size = kwargs.pop("n_embed", None) or self.hidden_size
        super().__post_init__(**kwargs)


def dropout_add(x, residual, p, training):
    out = F.dropout(x, p=p, training=training)
    return residual + out


class BloomAttention(nn.Module):
    def __init__(self, config, layer_idx=None):
        super().__init__()
        width = config.hidden_size
        self.heads = config.n_head, width // config.n_head
        self.hidden_dropout, self.layer_idx = config.hidden_dropout, layer_idx
        self.inv_norm_factor = 1.0 / math.sqrt(self.heads[1])
        self.query_key_value = nn.Linear(width, 3 * width, bias=True)
        self.dense = nn.Linear(width, width)
        self.attention_dropout = nn.Dropout(config.attention_dropout)

    def forward(self, hidden_states, residual, alibi, attention_mask, past_key_values=None, **kwargs):
        batch, q_length, _ = hidden_states.shape
        fused = self.query_key_value(hidden_states)
        parts = fused.view(batch, q_length, self.heads[0], 3, self.heads[1])
        q, k, v = [parts[..., i, :].transpose(1, 2) for i in range(3)]
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, self.layer_idx)
        rows, head_dim = batch * self.heads[0], self.heads[1]
        q = q.reshape(rows, -1, head_dim)
        k = k.reshape(rows, -1, head_dim).transpose(-1, -2)
        v = v.reshape(rows, -1, head_dim)
        scores = alibi.baddbmm(batch1=q, batch2=k, beta=1.0, alpha=self.inv_norm_factor)
        weights = scores.view(batch, self.heads[0], q_length, -1)
        if attention_mask is not None:
            weights = weights + attention_mask
        probs = F.softmax(weights, dim=-1, dtype=torch.float32).to(q.dtype)
        probs = self.attention_dropout(probs)
        context = torch.bmm(probs.view(rows, q_length, -1), v)
        context = context.view(batch, self.heads[0], q_length, -1).permute(0, 2, 1, 3).reshape(hidden_states.shape)
        output = self.dense(context)
        output = dropout_add(output, residual, self.hidden_dropout, self.training)
        return output, probs


class BloomMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config.hidden_size
        self.dense_h_to_4h = nn.Linear(width, 4 * width)
        self.gelu_impl = BloomGelu()
        self.dense_4h_to_h = nn.Linear(4 * width, width)
        self.hidden_dropout = config.hidden_dropout

    def forward(self, hidden_states, residual):
        hidden_states = self.gelu_impl(self.dense_h_to_4h(hidden_states))
        inner = self.dense_4h_to_h(hidden_states)
        return dropout_add(inner, residual, self.hidden_dropout, self.training)


class BloomBlock(GradientCheckpointingLayer):
    def __init__(self, config, layer_idx=None):
        super().__init__()
        self.input_layernorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_epsilon)
        self.self_attention = BloomAttention(config, layer_idx)
        self.post_attention_layernorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_epsilon)
        self.mlp = BloomMLP(config)
        self.residual_after_norm = config.apply_residual_connection_post_layernorm

    def forward(self, hidden_states, alibi, attention_mask, past_key_values=None, **kwargs):
        normed = self.input_layernorm(hidden_states)
        residual = normed if self.residual_after_norm else hidden_states
        attended, weights = self.self_attention(normed, residual, alibi, attention_mask, past_key_values, **kwargs)
        normed = self.post_attention_layernorm(attended)
        residual = normed if self.residual_after_norm else attended
        return self.mlp(normed, residual), weights


class BloomPreTrainedModel(PreTrainedModel):
    config_class, base_model_prefix, supports_gradient_checkpointing = BloomConfig, "transformer", True
    _no_split_modules = ["BloomBlock"]
    _input_embed_layer = "word_embeddings"


class BloomModel(BloomPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        width = config.hidden_size
        self.word_embeddings = nn.Embedding(config.vocab_size, width)
        self.word_embeddings_layernorm = nn.LayerNorm(width, eps=config.layer_norm_epsilon)
        self.h = nn.ModuleList([BloomBlock(config, i) for i in range(config.num_hidden_layers)])
        self.ln_f = nn.LayerNorm(width, eps=config.layer_norm_epsilon)
        self.gradient_checkpointing = False

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, past_key_values=None, attention_mask=None, inputs_embeds=None, use_cache=None, **kwargs):
        inputs_embeds, past_key_values, seen = look_up(self, input_ids, inputs_embeds, past_key_values, use_cache)
        batch, seq, _ = inputs_embeds.shape
        hidden_states = self.word_embeddings_layernorm(inputs_embeds)
        if attention_mask is None:
            slopes = _get_alibi_slopes(self.config.n_head, hidden_states.device)
            alibi = slopes[:, None, None] * torch.arange(seen + seq, device=hidden_states.device)
            alibi = alibi.repeat(batch, 1, 1).to(hidden_states.dtype)
        else:
            alibi = build_alibi_tensor(attention_mask, self.config.n_head, dtype=hidden_states.dtype)
        mask = create_causal_mask(config=self.config, inputs_embeds=inputs_embeds, attention_mask=attention_mask, past_key_values=past_key_values)
        for block in self.h:
            outputs = block(hidden_states, past_key_values=past_key_values, attention_mask=mask, use_cache=use_cache, alibi=alibi)
            hidden_states = outputs[0]
        hidden_states = self.ln_f(hidden_states)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states, past_key_values=past_key_values)


class BloomForCausalLM(CausalLM, BloomPreTrainedModel):
    _tied_weights_keys = {"lm_head.weight": "transformer.word_embeddings.weight"}
    decoder = BloomModel
    stage = stage_of(handed_bloom)
    widened_by_autocast = True  # by the norm of its embeddings
    takes_positions = False


causal_lm = BloomForCausalLM
