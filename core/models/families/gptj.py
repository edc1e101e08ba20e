"""gptj: rotary turns pairs on a part of each head, attention and feed-forward side by side, scores in fp32."""
import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.modeling_decoder import BaseModelOutputWithPast, CausalLM, begin, capture_outputs, kernel_dtype, merge_with_config_defaults, weigh
from transformers.modeling_flash_attention_utils import _flash_attention_forward
from transformers.modeling_interleaved_rope import apply_rotary_pos_emb, create_sinusoidal_positions
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_stage_gpt import handed_in_places, stage_of
from transformers.models.gpt2.modeling_gpt2 import GPT2Config, GPT2Model, GPT2PreTrainedModel


class GPTJConfig(GPT2Config):
    model_type = "gptj"
    vocab_size: int = 50400
    n_positions: int = 2048
    n_embd: int = 4096
    n_layer: int = 28
    n_head: int = 16
    rotary_dim: int = 64
    resid_pdrop: float = 0.0
    embd_pdrop: float = 0.0
    attn_pdrop: float = 0.0
    tie_word_embeddings: bool = False


class GPTJAttention(nn.Module):
    def __init__(self, config, layer_idx=None):
        super().__init__()
        width = config.hidden_size
        self.config, self.layer_idx, self.is_causal = config, layer_idx, True
        self.attn_dropout, self.resid_dropout = nn.Dropout(config.attn_pdrop), nn.Dropout(config.resid_pdrop)
        self.heads = config.num_attention_heads, width // config.num_attention_heads
        self.scale_attn = self.heads[1] ** 0.5
        self.projections(width)
        self.out_proj = nn.Linear(width, width, bias=False)
        self.embed_positions = nn.Buffer(create_sinusoidal_positions(config.max_position_embeddings, config.rotary_dim or width), persistent=False)

    def projections(self, width):
        self.k_proj = nn.Linear(width, width, bias=False)
        self.v_proj = nn.Linear(width, width, bias=False)
        self.q_proj = nn.Linear(width, width, bias=False)

    def project(self, x):
        """Query, key, value, and what forward keeps beside them."""
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        shape = x.shape[:-1] + self.heads
        return q.view(shape), k.view(shape), v.view(shape).permute(0, 2, 1, 3), None

    def table(self):
        return self.embed_positions

    def rows_of_table(self, position_ids, dtype):
        table = self.table().repeat(position_ids.shape[0], 1, 1)
        rows = position_ids.unsqueeze(-1).repeat(1, 1, table.shape[-1])
        return torch.gather(table, 1, rows).to(dtype), (table, rows)

    def cached(self, past_key_values, key, value, like):
        return *past_key_values.update(key, value, self.layer_idx), None

    def scaled(self, weights):
        return weights / self.scale_attn

    def _attn(self, query, key, value, attention_mask=None):
        query = query.to(torch.float32)
        key = key.to(torch.float32)
        return weigh(self.scaled(torch.matmul(query, key.transpose(-1, -2))), value, attention_mask, self.attn_dropout)

    def forward(self, hidden_states, past_key_values=None, attention_mask=None, position_ids=None):
        query, key, value, kept = self.project(hidden_states)
        sincos, looked_up = self.rows_of_table(position_ids, key.dtype)
        sin, cos = torch.split(sincos, sincos.shape[-1] // 2, dim=-1)
        turned = self.config.rotary_dim
        k_rot, k_pass = key[:, :, :, :turned], key[:, :, :, turned:]
        q_rot, q_pass = query[:, :, :, :turned], query[:, :, :, turned:]
        k_rot = apply_rotary_pos_emb(k_rot, sin, cos)
        q_rot = apply_rotary_pos_emb(q_rot, sin, cos)
        key = torch.cat([k_rot, k_pass], dim=-1)
        query = torch.cat([q_rot, q_pass], dim=-1)
        key, query = key.permute(0, 2, 1, 3), query.permute(0, 2, 1, 3)
        if past_key_values is not None:
            key, value, kept_key = self.cached(past_key_values, key, value, hidden_states)
        if self.config._attn_implementation == "flash_attention_2":
            key = key.permute(0, 2, 1, 3).contiguous()
            query = query.permute(0, 2, 1, 3).contiguous()
            value = value.permute(0, 2, 1, 3).contiguous()
            dtype = kernel_dtype(query, self.q_proj, self.config)
            query = query.to(dtype)
            key = key.to(dtype)
            value = value.to(dtype)
            weights = _flash_attention_forward(query, key, value, attention_mask, query.shape[1], is_causal=self.is_causal,
                                               dropout=self.config.attn_pdrop if self.training else 0.0)
            output = weights.reshape(hidden_states.shape)
        else:
            output, weights = self._attn(query, key, value, attention_mask)
            output = output.permute(0, 2, 1, 3).contiguous()
            output = output.view(hidden_states.shape)
        output = self.out_proj(output)
        return self.resid_dropout(output), weights


class GPTJMLP(nn.Module):
    def __init__(self, inner, config):
        super().__init__()
        self.fc_in = nn.Linear(config.n_embd, inner)
        self.fc_out = nn.Linear(inner, config.n_embd)
        self.act = ACT2FN[config.activation_function]
        self.dropout = nn.Dropout(config.resid_pdrop)

    def forward(self, x):
        return self.dropout(self.fc_out(self.act(self.fc_in(x))))


class GPTJBlock(GradientCheckpointingLayer):
    attention = GPTJAttention

    def __init__(self, config, layer_idx=None):
        super().__init__()
        width = config.n_embd
        self.ln_1 = nn.LayerNorm(width, eps=config.layer_norm_epsilon)
        self.attn = self.attention(config, layer_idx)
        self.mlp = GPTJMLP(config.n_inner if config.n_inner is not None else 4 * width, config)

    def forward(self, hidden_states, past_key_values=None, attention_mask=None, position_ids=None, use_cache=False):
        residual = hidden_states
        hidden_states = self.ln_1(hidden_states)
        attended, weights = self.attn(hidden_states, past_key_values, attention_mask, position_ids)
        fed = self.mlp(hidden_states)
        return attended + fed + residual, weights


class GPTJPreTrainedModel(GPT2PreTrainedModel):
    config_class = GPTJConfig
    _no_split_modules = ["GPTJBlock"]
    _supports_sdpa = False


class GPTJModel(GPTJPreTrainedModel, GPT2Model):
    block, positions = GPTJBlock, False

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, past_key_values=None, attention_mask=None, position_ids=None, inputs_embeds=None, use_cache=None, **kwargs):
        inputs_embeds, past_key_values, position_ids, mask = begin(
            self, input_ids, attention_mask, position_ids, past_key_values, inputs_embeds, use_cache)
        hidden_states = self.drop(inputs_embeds)
        for block in self.h:
            outputs = block(hidden_states, past_key_values=past_key_values, attention_mask=mask, position_ids=position_ids, use_cache=use_cache)
            hidden_states = outputs[0]
        hidden_states = self.ln_f(hidden_states)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states.view(inputs_embeds.shape), past_key_values=past_key_values)


class GPTJForCausalLM(CausalLM, GPTJPreTrainedModel):
    _tied_weights_keys = {"lm_head.weight": "transformer.wte.weight"}
    decoder, head_bias, stage = GPTJModel, True, stage_of(handed_in_places)


causal_lm = GPTJForCausalLM
