"""gptj: rotary turns pairs on a part of each head, attention and feed-forward side by side, scores in fp32."""
import math

import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.configuration_utils import PreTrainedConfig
from transformers.modeling_flash_attention_utils import _flash_attention_forward
from transformers.modeling_decoder import CausalLM, begin
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.modeling_utils import PreTrainedModel
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs


class GPTJConfig(PreTrainedConfig):
    model_type = "gptj"
    attribute_map = {"max_position_embeddings": "n_positions", "hidden_size": "n_embd", "num_attention_heads": "n_head", "num_hidden_layers": "n_layer"}
    vocab_size: int = 50400
    n_positions: int = 2048
    n_embd: int = 4096
    n_layer: int = 28
    n_head: int = 16
    rotary_dim: int = 64
    n_inner: int | None = None
    activation_function: str = "gelu_new"
    resid_pdrop: float = 0.0
    embd_pdrop: float = 0.0
    attn_pdrop: float = 0.0
    layer_norm_epsilon: float = 1e-5
    use_cache: bool = True
    bos_token_id: int | None = 50256
    eos_token_id: int | None = 50256
    pad_token_id: int | None = None
    tie_word_embeddings: bool = False


def create_sinusoidal_positions(length, dim):
    inv_freq = 1.0 / (10000 ** (torch.arange(0, dim, 2, dtype=torch.int64) / dim))
    angles = torch.arange(length, dtype=torch.int64).float()[:, None] * inv_freq
    return torch.cat((torch.sin(angles), torch.cos(angles)), dim=1)


def rotate_every_two(x):
    even = x[:, :, :, ::2]
    odd = x[:, :, :, 1::2]
    x = torch.stack((-odd, even), dim=-1)
    return x.flatten(-2)


def apply_rotary_pos_emb(x, sin, cos):
    sin = torch.repeat_interleave(sin[:, :, None, :], 2, 3)
    cos = torch.repeat_interleave(cos[:, :, None, :], 2, 3)
    return (x * cos) + (rotate_every_two(x) * sin)


class GPTJAttention(nn.Module):
    def __init__(self, config, layer_idx=None):
        super().__init__()
        self.config = config
        self.attn_dropout = nn.Dropout(config.attn_pdrop)
        self.resid_dropout = nn.Dropout(config.resid_pdrop)
        self.is_causal = True
        self.layer_idx = layer_idx
        self.num_heads = config.num_attention_heads
        self.embed_dim = config.hidden_size
        self.head_dim = self.embed_dim // self.num_heads
        self.scale_attn = math.sqrt(self.head_dim)
        self.projections(self.embed_dim)
        self.rotary_dim = config.rotary_dim
        table = create_sinusoidal_positions(config.max_position_embeddings, self.rotary_dim or self.embed_dim)
        self.embed_positions = nn.Buffer(table, persistent=False)

    def projections(self, width):
        self.k_proj = nn.Linear(width, width, bias=False)
        self.v_proj = nn.Linear(width, width, bias=False)
        self.q_proj = nn.Linear(width, width, bias=False)
        self.out_proj = nn.Linear(width, width, bias=False)

    def project(self, x):
        """Query, key, value, and what forward keeps beside them."""
        q = self.q_proj(x)
        k = self.k_proj(x)
        v = self.v_proj(x)
        shape = (*x.shape[:-1], self.num_heads, self.head_dim)
        return q.view(shape), k.view(shape), v.view(shape).permute(0, 2, 1, 3), None

    def rows_of_table(self, position_ids, dtype):
        table = self.embed_positions.repeat(position_ids.shape[0], 1, 1)
        rows = position_ids.unsqueeze(-1).repeat(1, 1, table.shape[-1])
        return torch.gather(table, 1, rows).to(dtype), (table, rows)

    def cached_key(self, key, like):
        return key

    def _merge_heads(self, x):
        x = x.permute(0, 2, 1, 3).contiguous()
        return x.view(x.size()[:-2] + (self.embed_dim,))

    def _attn(self, query, key, value, attention_mask=None):
        query = query.to(torch.float32)
        key = key.to(torch.float32)
        weights = torch.matmul(query, key.transpose(-1, -2))
        weights = weights / self.scale_attn
        if attention_mask is not None:
            weights = weights + attention_mask
        weights = nn.functional.softmax(weights, dim=-1)
        weights = weights.to(value.dtype)
        weights = self.attn_dropout(weights)
        output = torch.matmul(weights, value)
        return output, weights

    def forward(self, hidden_states, layer_past=None, attention_mask=None, position_ids=None, use_cache=False):
        query, key, value, kept = self.project(hidden_states)
        sincos, looked_up = self.rows_of_table(position_ids, key.dtype)
        sin, cos = torch.split(sincos, sincos.shape[-1] // 2, dim=-1)
        k_rot = key[:, :, :, : self.rotary_dim]
        k_pass = key[:, :, :, self.rotary_dim :]
        q_rot = query[:, :, :, : self.rotary_dim]
        q_pass = query[:, :, :, self.rotary_dim :]
        k_rot = apply_rotary_pos_emb(k_rot, sin, cos)
        q_rot = apply_rotary_pos_emb(q_rot, sin, cos)
        key = torch.cat([k_rot, k_pass], dim=-1)
        query = torch.cat([q_rot, q_pass], dim=-1)
        key = key.permute(0, 2, 1, 3)
        query = query.permute(0, 2, 1, 3)
        if layer_past is not None:
            key, value = layer_past.update(self.cached_key(key, hidden_states), value, self.layer_idx)
        if self.config._attn_implementation == "flash_attention_2":
            key = key.permute(0, 2, 1, 3).contiguous()
            query = query.permute(0, 2, 1, 3).contiguous()
            value = value.permute(0, 2, 1, 3).contiguous()
            if query.dtype == torch.float32:
                dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else self.q_proj.weight.dtype
                query = query.to(dtype)
                key = key.to(dtype)
                value = value.to(dtype)
            weights = _flash_attention_forward(query, key, value, attention_mask, query.shape[1], is_causal=self.is_causal,
                                               dropout=self.config.attn_pdrop if self.training else 0.0)
            output = weights.reshape(*weights.shape[:2], self.embed_dim)
        else:
            output, weights = self._attn(query, key, value, attention_mask)
            output = self._merge_heads(output)
        output = self.out_proj(output)
        output = self.resid_dropout(output)
        return output, weights


class GPTJMLP(nn.Module):
    def __init__(self, inner, config):
        super().__init__()
        self.fc_in = nn.Linear(config.n_embd, inner)
        self.fc_out = nn.Linear(inner, config.n_embd)
        self.act = ACT2FN[config.activation_function]
        self.dropout = nn.Dropout(config.resid_pdrop)

    def forward(self, x):
        x = self.fc_in(x)
        x = self.act(x)
        x = self.fc_out(x)
        x = self.dropout(x)
        return x


class GPTJBlock(GradientCheckpointingLayer):
    attention = GPTJAttention

    def __init__(self, config, layer_idx=None):
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd, eps=config.layer_norm_epsilon)
        self.attn = self.attention(config, layer_idx)
        self.mlp = GPTJMLP(config.n_inner if config.n_inner is not None else 4 * config.n_embd, config)

    def forward(self, hidden_states, layer_past=None, attention_mask=None, position_ids=None, use_cache=False, **kwargs):
        residual = hidden_states
        hidden_states = self.ln_1(hidden_states)
        attended, weights = self.attn(hidden_states=hidden_states, layer_past=layer_past, attention_mask=attention_mask, position_ids=position_ids,
                                      use_cache=use_cache)
        fed = self.mlp(hidden_states)
        hidden_states = attended + fed + residual
        return hidden_states, weights


class GPTJPreTrainedModel(PreTrainedModel):
    config_class = GPTJConfig
    base_model_prefix = "transformer"
    supports_gradient_checkpointing = True
    _no_split_modules = ["GPTJBlock"]
    _supports_flash_attn = True


class GPTJModel(GPTJPreTrainedModel):
    block = GPTJBlock

    def __init__(self, config):
        super().__init__(config)
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.drop = nn.Dropout(config.embd_pdrop)
        self.h = nn.ModuleList([self.block(config, i) for i in range(config.n_layer)])
        self.ln_f = nn.LayerNorm(config.n_embd, eps=config.layer_norm_epsilon)
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self):
        return self.wte

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, past_key_values=None, attention_mask=None, position_ids=None, inputs_embeds=None, use_cache=None, **kwargs):
        inputs_embeds, past_key_values, position_ids, mask = begin(
            self, input_ids, attention_mask, position_ids, past_key_values, inputs_embeds, use_cache)
        hidden_states = self.drop(inputs_embeds)
        shape = (-1, *hidden_states.shape[1:])
        for block in self.h:
            outputs = block(hidden_states, layer_past=past_key_values, attention_mask=mask, position_ids=position_ids, use_cache=use_cache)
            hidden_states = outputs[0]
        hidden_states = self.ln_f(hidden_states)
        hidden_states = hidden_states.view(shape)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states, past_key_values=past_key_values)


class GPTJForCausalLM(CausalLM, GPTJPreTrainedModel):
    _tied_weights_keys = {"lm_head.weight": "transformer.wte.weight"}
    decoder, head_bias = GPTJModel, True


causal_lm = GPTJForCausalLM
