"""phi3: llama with query, key and value in one projection, gate and up in another, and a part of each head rotated."""
import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.modeling_tp import tp_plan
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, rotate_half
from transformers.models.mistral.modeling_mistral import MistralForCausalLM, MistralModel, MistralRMSNorm


class Phi3Config(LlamaConfig):
    model_type = "phi3"
    base_model_tp_plan = tp_plan(colwise_gather_output="self_attn.qkv_proj mlp.gate_up_proj", rowwise_split_input="self_attn.o_proj mlp.down_proj")
    vocab_size: int = 32064
    hidden_size: int = 3072
    intermediate_size: int = 8192
    resid_pdrop: float = 0.0
    max_position_embeddings: int = 4096
    original_max_position_embeddings: int = 4096
    rms_norm_eps: float = 1e-5
    pad_token_id: int | None = 32000
    sliding_window: int | None = None

    def __post_init__(self, **kwargs):
        super().__post_init__(**kwargs)
        if self.rope_parameters["rope_type"] in ("su", "yarn"):
            self.rope_parameters["rope_type"] = "longrope"
        self.rope_parameters.setdefault("original_max_position_embeddings", self.original_max_position_embeddings)


class Phi3MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_up_proj = nn.Linear(config.hidden_size, 2 * config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)
        self.activation_fn = ACT2FN[config.hidden_act]

    def forward(self, x):
        up = self.gate_up_proj(x)
        gate, up = up.chunk(2, dim=-1)
        up = up * self.activation_fn(gate)
        return self.down_proj(up)


class Phi3Attention(LlamaAttention):
    def __init__(self, config, layer_idx):
        nn.Module.__init__(self)
        self.config, self.layer_idx = config, layer_idx
        self.head_dim, self.num_key_value_heads = config.head_dim, config.num_key_value_heads
        self.num_key_value_groups = config.num_attention_heads // config.num_key_value_heads
        self.scaling, self.attention_dropout, self.is_causal = self.head_dim**-0.5, config.attention_dropout, True
        self.keywords = {"sliding_window": config.sliding_window}
        q = config.num_attention_heads * self.head_dim
        self.o_proj = nn.Linear(q, config.hidden_size, bias=False)
        self.qkv_proj = nn.Linear(config.hidden_size, q + 2 * config.num_key_value_heads * self.head_dim, bias=False)

    def project(self, x):
        shape = (*x.shape[:-1], -1, self.head_dim)
        qkv = self.qkv_proj(x)
        first = self.config.num_attention_heads * self.head_dim
        then = first + self.num_key_value_heads * self.head_dim
        q = qkv[..., :first]
        k = qkv[..., first:then]
        v = qkv[..., then:]
        q = q.view(shape).transpose(1, 2)
        k = k.view(shape).transpose(1, 2)
        v = v.view(shape).transpose(1, 2)
        return q, k, v, qkv

    @staticmethod
    def rotate(q, k, cos, sin):
        cos = cos.unsqueeze(1)
        sin = sin.unsqueeze(1)
        turned = cos.shape[-1]
        q_part, q_rest = q[..., :turned], q[..., turned:]
        k_part, k_rest = k[..., :turned], k[..., turned:]
        q = torch.cat([(q_part * cos) + (rotate_half(q_part) * sin), q_rest], dim=-1)
        k = torch.cat([(k_part * cos) + (rotate_half(k_part) * sin), k_rest], dim=-1)
        return q, k


class Phi3DecoderLayer(LlamaDecoderLayer):
    attention, feed_forward, norm = Phi3Attention, Phi3MLP, MistralRMSNorm

    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.resid_attn_dropout = nn.Dropout(config.resid_pdrop)
        self.resid_mlp_dropout = nn.Dropout(config.resid_pdrop)

    def forward(self, hidden_states, attention_mask=None, position_ids=None, past_key_values=None, use_cache=False,
                position_embeddings=None, **kwargs):
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        hidden_states, _ = self.self_attn(
            hidden_states=hidden_states, attention_mask=attention_mask, position_ids=position_ids, past_key_values=past_key_values,
            use_cache=use_cache, position_embeddings=position_embeddings, **kwargs)
        hidden_states = residual + self.resid_attn_dropout(hidden_states)
        residual = hidden_states
        hidden_states = self.post_attention_layernorm(hidden_states)
        hidden_states = self.mlp(hidden_states)
        hidden_states = residual + self.resid_mlp_dropout(hidden_states)
        return hidden_states


class Phi3Model(MistralModel):
    layer = Phi3DecoderLayer


class Phi3ForCausalLM(MistralForCausalLM):
    config_class, decoder, _no_split_modules = Phi3Config, Phi3Model, ["Phi3DecoderLayer"]


causal_lm = Phi3ForCausalLM
