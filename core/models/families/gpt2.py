"""gpt2: positions of a table, fused query, key and value in GPT-2's own linear layer."""
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
from transformers.pytorch_utils import Conv1D
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs


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
    scale_attn_by_inverse_layer_idx: bool = False
    reorder_and_upcast_attn: bool = False
    use_cache: bool = True
    bos_token_id: int | None = 50256
    eos_token_id: int | None = 50256
    pad_token_id: int | None = None
    add_cross_attention: bool = False
    tie_word_embeddings: bool = True


def eager_attention_forward(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **kwargs):
    weights = torch.matmul(query, key.transpose(-1, -2)) * scaling
    if attention_mask is not None:
        weights = weights + attention_mask
    weights = nn.functional.softmax(weights, dim=-1)
    weights = weights.type(value.dtype)
    weights = nn.functional.dropout(weights, p=dropout, training=module.training)
    output = torch.matmul(weights, value)
    output = output.transpose(1, 2)
    return output, weights


class GPT2Attention(nn.Module):
    def __init__(self, config, layer_idx=None):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.split_size = config.hidden_size
        self.head_dim = config.hidden_size // config.num_attention_heads
        self.scaling = self.head_dim**-0.5 if config.scale_attn_weights else 1.0
        self.is_causal = True
        self.c_attn = Conv1D(3 * config.hidden_size, config.hidden_size)
        self.c_proj = Conv1D(config.hidden_size, config.hidden_size)
        self.attn_dropout = nn.Dropout(config.attn_pdrop)
        self.resid_dropout = nn.Dropout(config.resid_pdrop)

    def upcast_and_reordered(self, query, key, value, attention_mask=None):
        batch, heads, q_length, width = query.size()
        k_length = key.size(-2)
        weights = torch.empty(batch * heads, q_length, k_length, dtype=torch.float32, device=query.device)
        with torch.autocast(query.device.type, enabled=False):
            q, k = query.reshape(-1, q_length, width), key.transpose(-1, -2).reshape(-1, width, k_length)
            weights = torch.baddbmm(weights, q.float(), k.float(), beta=0, alpha=self.scaling)
            weights = weights.reshape(batch, heads, q_length, k_length)
        if attention_mask is not None:
            weights = weights + attention_mask
        weights = nn.functional.softmax(weights, dim=-1)
        weights = weights.type(value.dtype)
        weights = self.attn_dropout(weights)
        output = torch.matmul(weights, value)
        output = output.transpose(1, 2)
        return output, weights

    def forward(self, hidden_states, past_key_values=None, attention_mask=None, **kwargs):
        q, k, v = self.c_attn(hidden_states).split(self.split_size, dim=2)
        shape = (*k.shape[:-1], -1, self.head_dim)
        k = k.view(shape).transpose(1, 2)
        v = v.view(shape).transpose(1, 2)
        q = q.view(shape).transpose(1, 2)
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, self.layer_idx)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager_attention_forward)
        if self.config._attn_implementation == "eager" and self.config.reorder_and_upcast_attn:
            output, weights = self.upcast_and_reordered(q, k, v, attention_mask)
        else:
            output, weights = attend(self, q, k, v, attention_mask, dropout=self.attn_dropout.p if self.training else 0.0,
                                     scaling=self.scaling, **kwargs)
        output = output.reshape(*output.shape[:-2], -1).contiguous()
        output = self.c_proj(output)
        output = self.resid_dropout(output)
        return output, weights


class GPT2MLP(nn.Module):
    def __init__(self, inner, config):
        super().__init__()
        self.c_fc = Conv1D(inner, config.hidden_size)
        self.c_proj = Conv1D(config.hidden_size, inner)
        self.act = ACT2FN[config.activation_function]
        self.dropout = nn.Dropout(config.resid_pdrop)

    def forward(self, x):
        x = self.c_fc(x)
        x = self.act(x)
        x = self.c_proj(x)
        x = self.dropout(x)
        return x


class GPT2Block(GradientCheckpointingLayer):
    def __init__(self, config, layer_idx=None):
        super().__init__()
        width = config.hidden_size
        self.ln_1 = nn.LayerNorm(width, eps=config.layer_norm_epsilon)
        self.attn = GPT2Attention(config, layer_idx)
        self.ln_2 = nn.LayerNorm(width, eps=config.layer_norm_epsilon)
        self.mlp = GPT2MLP(config.n_inner if config.n_inner is not None else 4 * width, config)

    def forward(self, hidden_states, past_key_values=None, attention_mask=None, use_cache=False, **kwargs):
        residual = hidden_states
        hidden_states = self.ln_1(hidden_states)
        attended, _ = self.attn(hidden_states, past_key_values=past_key_values, attention_mask=attention_mask, use_cache=use_cache, **kwargs)
        hidden_states = attended + residual
        residual = hidden_states
        hidden_states = self.ln_2(hidden_states)
        fed = self.mlp(hidden_states)
        hidden_states = residual + fed
        return hidden_states


class GPT2PreTrainedModel(PreTrainedModel):
    config_class = GPT2Config
    base_model_prefix = "transformer"
    supports_gradient_checkpointing = True
    _no_split_modules = ["GPT2Block"]
    _supports_flash_attn = True
    _supports_sdpa = True
    _supports_attention_backend = True


class GPT2Model(GPT2PreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.wte = nn.Embedding(config.vocab_size, config.hidden_size)
        self.wpe = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.drop = nn.Dropout(config.embd_pdrop)
        self.h = nn.ModuleList([GPT2Block(config, i) for i in range(config.num_hidden_layers)])
        self.ln_f = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_epsilon)
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self):
        return self.wte

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, past_key_values=None, attention_mask=None, position_ids=None, inputs_embeds=None, use_cache=None, **kwargs):
        shape = input_ids.size()
        input_ids = input_ids.view(-1, shape[-1])
        if use_cache and past_key_values is None:
            past_key_values = DynamicCache(config=self.config)
        if inputs_embeds is None:
            inputs_embeds = self.wte(input_ids)
        if position_ids is None:
            seen = past_key_values.get_seq_length() if past_key_values is not None else 0
            position_ids = torch.arange(inputs_embeds.shape[1], device=inputs_embeds.device) + seen
            position_ids = position_ids.unsqueeze(0)
        positions = self.wpe(position_ids)
        hidden_states = inputs_embeds + positions.to(inputs_embeds.device)
        if attention_mask is not None and attention_mask.ndim < 4:
            attention_mask = attention_mask.view(input_ids.shape[0], -1)
        mask = create_causal_mask(config=self.config, inputs_embeds=inputs_embeds, attention_mask=attention_mask, past_key_values=past_key_values,
                                  position_ids=position_ids)
        hidden_states = self.drop(hidden_states)
        for block in self.h:
            hidden_states = block(hidden_states, past_key_values if not (self.gradient_checkpointing and self.training) else None, mask,
                                  use_cache=use_cache, position_ids=position_ids, **kwargs)
        hidden_states = self.ln_f(hidden_states)
        hidden_states = hidden_states.view((-1,) + shape[1:] + (hidden_states.size(-1),))
        past_key_values = past_key_values if use_cache else None
        return BaseModelOutputWithPast(last_hidden_state=hidden_states, past_key_values=past_key_values)


class GPT2LMHeadModel(CausalLM, GPT2PreTrainedModel):
    _tied_weights_keys = {"lm_head.weight": "transformer.wte.weight"}
    decoder = GPT2Model


causal_lm = GPT2LMHeadModel
