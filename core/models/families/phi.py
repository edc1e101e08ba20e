"""phi: attention and feed-forward side by side behind one norm, biases everywhere, a part of each head rotated."""
import torch
from torch import nn

from transformers.modeling_plain_mlp import PlainMLP
from transformers.modeling_tp import tp_plan
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaModel
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb


class PhiConfig(LlamaConfig):
    model_type, attribute_map, partial_rotary_factor = "phi", {"rms_norm_eps": "layer_norm_eps"}, 0.5
    base_model_tp_plan = tp_plan(colwise="self_attn.q_proj self_attn.k_proj self_attn.v_proj mlp.fc1", rowwise="self_attn.dense mlp.fc2")
    vocab_size: int = 51200
    hidden_size: int = 2048
    intermediate_size: int = 8192
    num_hidden_layers: int = 24
    resid_pdrop: float = 0.0
    embd_pdrop: float = 0.0
    hidden_act: str = "gelu_new"
    layer_norm_eps: float = 1e-5
    qk_layernorm: bool = False


class PartlyRotated(LlamaAttention):
    """Attention whose frame holds the parts of its heads; stablelm's too."""

    def rotate(self, q, k, cos, sin):
        n = int(self.head_dim * self.config.rope_parameters["partial_rotary_factor"])
        q_part, q_rest = q[..., :n], q[..., n:]
        k_part, k_rest = k[..., :n], k[..., n:]
        q_part, k_part = apply_rotary_pos_emb(q_part, k_part, cos, sin)
        q = torch.cat((q_part, q_rest), dim=-1)
        k = torch.cat((k_part, k_rest), dim=-1)
        return q, k, q_part, q_rest, k_part, k_rest

    def project(self, x):
        q, k, v = super().project(x)
        if self.config.qk_layernorm:
            q = self.q_layernorm(q)
            k = self.k_layernorm(k)
        return q, k, v


class PhiAttention(PartlyRotated):
    out = "dense"

    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        if config.qk_layernorm:
            self.q_layernorm = nn.LayerNorm(config.hidden_size // config.num_attention_heads, eps=config.layer_norm_eps)
            self.k_layernorm = nn.LayerNorm(config.hidden_size // config.num_attention_heads, eps=config.layer_norm_eps)

    def biases(self, config):
        return True, True


class PhiDecoderLayer(LlamaDecoderLayer):
    attention, feed_forward, norm = PhiAttention, PlainMLP, nn.LayerNorm

    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        del self.post_attention_layernorm
        self.resid_dropout = nn.Dropout(config.resid_pdrop)

    def forward(self, hidden_states, **kwargs):
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        attended, _ = self.self_attn(hidden_states=hidden_states, **kwargs)
        attended = self.resid_dropout(attended)
        fed = self.resid_dropout(self.mlp(hidden_states))
        hidden_states = attended + fed + residual
        return hidden_states


class PhiModel(LlamaModel):
    layer = PhiDecoderLayer

    def finish(self, config):
        self.rotary_emb = self.rotary(config)
        self.embed_dropout = nn.Dropout(config.embd_pdrop)
        self.final_layernorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def last_norm(self):
        return self.final_layernorm

    def embedded(self, x):
        return self.embed_dropout(x)


class PhiForCausalLM(LlamaForCausalLM):
    config_class, decoder, head_bias, _no_split_modules = PhiConfig, PhiModel, True, ["PhiDecoderLayer"]


causal_lm = PhiForCausalLM
