"""gpt2: positions of a table, fused query, key and value in GPT-2's own linear layer."""
from functools import partial

import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.configuration_utils import PreTrainedConfig
from transformers.masking_utils import create_causal_mask
from transformers.modeling_decoder import BaseModelOutputWithPast, CausalLM, attend, capture_outputs, embed, merge_with_config_defaults, weigh
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_stage_gpt import handed, stage_of
from transformers.modeling_utils import PreTrainedModel
from transformers.pytorch_utils import Conv1D


class GPT2Config(PreTrainedConfig):
    model_type = "gpt2"
    attribute_map = {"hidden_size": "n_embd", "max_position_embeddings": "n_positions", "num_attention_heads": "n_head", "num_hidden_layers": "n_layer"}
    vocab_size: int = 50257
    n_positions: int = 1024
    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12
    n_inner: int | None = None
    activation_function: str = "gelu_new"
    resid_pdrop: float = 0.1
    embd_pdrop: float = 0.1
    attn_pdrop: float = 0.1
    layer_norm_epsilon: float = 1e-5
    scale_attn_weights: bool = True
    reorder_and_upcast_attn: bool = False
    use_cache: bool = True
    tie_word_embeddings: bool = True


def eager_attention_forward(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **kwargs):
    drop = partial(nn.functional.dropout, p=dropout, training=module.training)
    output, weights = weigh(torch.matmul(query, key.transpose(-1, -2)) * scaling, value, attention_mask, drop)
    return output.transpose(1, 2), weights


class GPT2Attention(nn.Module):
    def __init__(self, config, layer_idx=None):
        super().__init__()
        width = config.hidden_size
        self.config, self.layer_idx, self.is_causal = config, layer_idx, True
        self.head_dim = width // config.num_attention_heads
        self.scaling = self.head_dim**-0.5 if config.scale_attn_weights else 1.0
        self.c_attn, self.c_proj = Conv1D(3 * width, width), Conv1D(width, width)
        self.attn_dropout, self.resid_dropout = nn.Dropout(config.attn_pdrop), nn.Dropout(config.resid_pdrop)

    def upcast_and_reordered(self, query, key, value, attention_mask=None):
        batch, heads, q_length, width, k_length = *query.size(), key.size(-2)
        weights = torch.empty(batch * heads, q_length, k_length, dtype=torch.float32, device=query.device)
        with torch.autocast(query.device.type, enabled=False):
            q, k = query.reshape(-1, q_length, width), key.transpose(-1, -2).reshape(-1, width, k_length)
            weights = torch.baddbmm(weights, q.float(), k.float(), beta=0, alpha=self.scaling).reshape(batch, heads, q_length, k_length)
        if attention_mask is not None:
            weights = weights + attention_mask
        weights = nn.functional.softmax(weights, dim=-1)
        weights = weights.type(value.dtype)
        weights = self.attn_dropout(weights)
        return torch.matmul(weights, value).transpose(1, 2), weights

    def forward(self, hidden_states, past_key_values=None, attention_mask=None, **kwargs):
        q, k, v = self.c_attn(hidden_states).split(hidden_states.shape[-1], dim=2)
        shape = (*k.shape[:-1], -1, self.head_dim)
        k, v, q = [x.view(shape).transpose(1, 2) for x in (k, v, q)]
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, self.layer_idx)
        if self.config._attn_implementation == "eager" and self.config.reorder_and_upcast_attn:
            output, weights = self.upcast_and_reordered(q, k, v, attention_mask)
        else:
            output, weights = attend(self, q, k, v, attention_mask, eager_attention_forward, scaling=self.scaling,
                                     dropout=self.attn_dropout.p if self.training else 0.0, **kwargs)
        output = output.reshape(*output.shape[:-2], -1).contiguous()
        output = self.c_proj(output)
        return self.resid_dropout(output), weights


class GPT2MLP(nn.Module):
    linear = staticmethod(lambda width, out: Conv1D(out, width))

    def __init__(self, inner, width, activation, dropout):
        super().__init__()
        self.c_fc = self.linear(width, inner)
        self.c_proj = self.linear(inner, width)
        self.act = ACT2FN[activation]
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.dropout(self.c_proj(self.act(self.c_fc(x))))


class GPT2Block(GradientCheckpointingLayer):
    attention, feed_forward = GPT2Attention, GPT2MLP

    def __init__(self, config, layer_idx=None):
        super().__init__()
        width = config.hidden_size
        self.ln_1 = nn.LayerNorm(width, eps=config.layer_norm_epsilon)
        self.attn = self.attention(config, layer_idx)
        self.ln_2 = nn.LayerNorm(width, eps=config.layer_norm_epsilon)
        self.mlp = self.feed_forward(config.n_inner if config.n_inner is not None else 4 * width, width, config.activation_function, config.resid_pdrop)

    def forward(self, hidden_states, past_key_values=None, attention_mask=None, cache_position=None, **kwargs):
        residual = hidden_states
        hidden_states = self.ln_1(hidden_states)
        attended, weights = self.attn(hidden_states, past_key_values=past_key_values, attention_mask=attention_mask, **kwargs)
        hidden_states = attended + residual
        residual = hidden_states
        hidden_states = self.ln_2(hidden_states)
        fed = self.mlp(hidden_states)
        return self.result(residual + fed, weights)

    def result(self, hidden_states, weights):
        return hidden_states


class GPT2PreTrainedModel(PreTrainedModel):
    config_class, base_model_prefix = GPT2Config, "transformer"
    _no_split_modules, _input_embed_layer = ["GPT2Block"], "wte"
    supports_gradient_checkpointing = _supports_flash_attn = _supports_sdpa = position_table = True


class GPT2Model(GPT2PreTrainedModel):
    block, positions = GPT2Block, True

    def __init__(self, config):
        super().__init__(config)
        self.wte = nn.Embedding(config.vocab_size, config.hidden_size)
        if self.positions:
            self.wpe = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.drop = nn.Dropout(config.embd_pdrop)
        self.h = nn.ModuleList([self.block(config, i) for i in range(config.num_hidden_layers)])
        self.ln_f = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_epsilon)
        self.gradient_checkpointing = False

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, past_key_values=None, attention_mask=None, position_ids=None, inputs_embeds=None, use_cache=None, **kwargs):
        inputs_embeds, past_key_values, position_ids = embed(self, input_ids, position_ids, past_key_values, inputs_embeds, use_cache)
        positions = self.wpe(position_ids)
        hidden_states = inputs_embeds + positions
        mask = create_causal_mask(config=self.config, inputs_embeds=inputs_embeds, attention_mask=attention_mask, past_key_values=past_key_values,
                                  position_ids=position_ids)
        hidden_states = self.drop(hidden_states)
        for block in self.h:
            hidden_states = block(hidden_states, past_key_values, mask, use_cache=use_cache, position_ids=position_ids, **kwargs)
        hidden_states = self.ln_f(hidden_states)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states.view(inputs_embeds.shape), past_key_values=past_key_values)


class GPT2LMHeadModel(CausalLM, GPT2PreTrainedModel):
    _tied_weights_keys = {"lm_head.weight": "transformer.wte.weight"}
    decoder, stage = GPT2Model, stage_of(handed)


causal_lm = GPT2LMHeadModel
