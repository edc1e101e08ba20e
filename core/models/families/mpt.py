"""mpt: alibi instead of positions, whatever learned_pos_emb says; norms and linears without biases."""
import math

import torch
import torch.nn.functional as F
from torch import nn

from transformers.configuration_utils import PreTrainedConfig
from transformers.masking_utils import create_causal_mask
from transformers.modeling_alibi import build_mpt_alibi_tensor
from transformers.modeling_decoder import BaseModelOutputWithPast, CausalLM, look_up
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_stage_gpt import handed_mpt, stage_of
from transformers.modeling_utils import PreTrainedModel
from transformers.releases import refuse


class MptAttentionConfig(PreTrainedConfig):
    attn_type: str = "multihead_attention"
    attn_pdrop: float = 0
    clip_qkv: float | None = None
    softmax_scale: float | None = None
    alibi_bias_max: int = 8


class MptConfig(PreTrainedConfig):
    model_type = "mpt"
    attribute_map = {"num_attention_heads": "n_heads", "hidden_size": "d_model", "num_hidden_layers": "n_layers"}
    bos_token_id: int | None = None
    d_model: int = 2048
    n_heads: int = 16
    n_layers: int = 24
    expansion_ratio: int = 4
    max_seq_len: int = 2048
    vocab_size: int = 50368
    layer_norm_epsilon: float = 1e-5
    attn_config: dict | None = None
    use_cache: bool = False
    tie_word_embeddings: bool = True

    def __post_init__(self, **others):
        super().__post_init__(**others)
        self.attn_config = MptAttentionConfig(**(self.attn_config or {}))
        if self.attn_config.attn_type not in ("multihead_attention", "multiquery_attention"):
            refuse("/attn_config/attn_type", f"{self.attn_config.attn_type}: MptConfig of transformers takes multihead_attention and multiquery_attention")


class MptAttention(nn.Module):
    def __init__(self, config, layer_idx=None):
        super().__init__()
        width, own = config.hidden_size, config.attn_config
        self.n_heads, self.head_dim, self.layer_idx = config.n_heads, width // config.n_heads, layer_idx
        self.softmax_scale = own.softmax_scale if own.softmax_scale is not None else 1 / math.sqrt(width / config.n_heads)
        self.attn_dropout_p, self.clip_qkv = own.attn_pdrop, own.clip_qkv
        self.Wqkv = nn.Linear(width, 3 * width, bias=False)
        self.out_proj = nn.Linear(width, width, bias=False)

    def forward(self, hidden_states, position_bias, past_key_values=None, attention_mask=None):
        batch, length = hidden_states.shape[:2]
        mixed_qkv = self.Wqkv(hidden_states)
        if self.clip_qkv:
            mixed_qkv = mixed_qkv.clamp(min=-self.clip_qkv, max=self.clip_qkv)
        query, key, value = mixed_qkv.chunk(3, dim=2)
        query = query.reshape(batch, length, self.n_heads, self.head_dim).transpose(1, 2)
        key = key.reshape(batch, length, self.n_heads, self.head_dim).transpose(1, 2)
        value = value.reshape(batch, length, self.n_heads, self.head_dim).transpose(1, 2)
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, self.layer_idx)
        scores = torch.matmul(query, key.transpose(-1, -2)) * self.softmax_scale
        query_length = length if past_key_values is None else length + past_key_values.get_seq_length()
        first_query, first_key = max(0, position_bias.size(1) - query_length), max(0, position_bias.size(2) - key.shape[-2])
        scores = scores + position_bias[:, first_query:, first_key:]
        if attention_mask is not None:
            scores = scores.masked_fill(attention_mask, torch.finfo(query.dtype).min)
        weights = F.softmax(scores.float(), dim=-1).to(value.dtype)
        weights = F.dropout(weights, p=self.attn_dropout_p, training=self.training)
        context = torch.matmul(weights, value)
        context = context.permute(0, 2, 1, 3).contiguous().view(batch, length, -1)
        output = self.out_proj(context)
        return output, weights


class MptMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config.hidden_size
        self.up_proj = nn.Linear(width, 4 * width, bias=False)
        self.act = nn.GELU(approximate="none")
        self.down_proj = nn.Linear(4 * width, width, bias=False)
        self.hidden_dropout = config.attn_config.attn_pdrop

    def forward(self, hidden_states, residual):
        hidden_states = self.act(self.up_proj(hidden_states))
        intermediate_output = self.down_proj(hidden_states)
        output = F.dropout(intermediate_output, p=self.hidden_dropout, training=self.training)
        output = output + residual
        return output


class MptBlock(GradientCheckpointingLayer):
    def __init__(self, config, layer_idx=None):
        super().__init__()
        self.norm_1 = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_epsilon, bias=False)
        self.attn = MptAttention(config, layer_idx)
        self.norm_2 = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_epsilon, bias=False)
        self.ffn = MptMLP(config)
        self.resid_attn_dropout = nn.Dropout(config.attn_config.attn_pdrop)

    def forward(self, hidden_states, position_bias, attention_mask, layer_past=None, use_cache=False, **kwargs):
        layernorm_output = self.norm_1(hidden_states)
        residual = hidden_states
        attn_outputs, attn_weights = self.attn(layernorm_output, position_bias=position_bias, attention_mask=attention_mask, past_key_values=layer_past)
        hidden_states = self.resid_attn_dropout(attn_outputs) + residual
        layernorm_output = self.norm_2(hidden_states)
        residual = hidden_states
        output = self.ffn(layernorm_output, residual)
        return output, attn_weights


class MptPreTrainedModel(PreTrainedModel):
    config_class, base_model_prefix, supports_gradient_checkpointing = MptConfig, "transformer", True
    _no_split_modules, _input_embed_layer = ["MptBlock"], "wte"
    position_table = True  # alibi is as long as max_seq_len


class MptModel(MptPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.wte = nn.Embedding(config.vocab_size, config.hidden_size)
        self.blocks = nn.ModuleList([MptBlock(config, i) for i in range(config.n_layers)])
        self.norm_f = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_epsilon, bias=False)
        self.gradient_checkpointing = False

    def forward(self, input_ids=None, past_key_values=None, attention_mask=None, inputs_embeds=None, use_cache=None, **kwargs):
        use_cache = use_cache if use_cache is not None else self.config.use_cache
        if self.gradient_checkpointing and self.training:
            use_cache = False
        inputs_embeds, past_key_values, seen = look_up(self, input_ids, inputs_embeds, past_key_values, use_cache)
        hidden_states = inputs_embeds
        alibi = build_mpt_alibi_tensor(self.config.n_heads, self.config.max_seq_len, device=hidden_states.device)
        causal_mask = create_causal_mask(config=self.config, inputs_embeds=inputs_embeds, attention_mask=attention_mask,
                                         past_key_values=past_key_values).to(torch.bool)
        for block in self.blocks:
            outputs = block(hidden_states, layer_past=past_key_values, attention_mask=causal_mask, use_cache=use_cache, position_bias=alibi)
            hidden_states = outputs[0]
        hidden_states = self.norm_f(hidden_states)
        return BaseModelOutputWithPast(last_hidden_state=hidden_states, past_key_values=past_key_values)


class MptForCausalLM(CausalLM, MptPreTrainedModel):
    _tied_weights_keys = {"lm_head.weight": "transformer.wte.weight"}
    decoder = MptModel
    stage = stage_of(handed_mpt)
    takes_positions = False


causal_lm = MptForCausalLM
