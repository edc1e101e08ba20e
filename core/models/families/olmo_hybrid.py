"""olmo_hybrid: olmo3's attention in every fourth layer, a gated delta rule whose projections stand apart in the others; rotation is left out where theta is null."""
import torch
import torch.nn.functional as F
from torch import nn

from transformers.masking_utils import masks_of_kinds
from transformers.modeling_conv import apply_mask_to_padding_states, convolve, state_of
from transformers.modeling_delta import GatedDeltaNet, RMSNormThenGate, chunk_gated_delta_rule, recurrent_gated_delta_rule
from transformers.models.llama.modeling_llama import LlamaDecoderLayer
from transformers.models.olmo2.modeling_olmo2 import Olmo2Attention, Olmo2Config, Olmo2DecoderLayer, Olmo2ForCausalLM, Olmo2Model, Olmo2RMSNorm
from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextDecoderLayer
from transformers.releases import refuse


class OlmoHybridConfig(Olmo2Config):
    model_type = "olmo_hybrid"
    vocab_size: int = 100352
    hidden_size: int = 3840
    num_attention_heads: int = 30
    max_position_embeddings: int = 65536
    rms_norm_eps: float = 1e-6
    pad_token_id: int | None = 100277
    layer_types: list | None = None
    linear_num_key_heads: int | None = None
    linear_num_value_heads: int | None = None
    linear_key_head_dim: int | None = None
    linear_value_head_dim: int | None = None
    linear_conv_kernel_dim: int = 4
    linear_allow_neg_eigval: bool = True

    def __post_init__(self, **kwargs):
        if self.layer_types is None:
            self.layer_types = ["full_attention" if i % 4 == 3 else "linear_attention" for i in range(self.num_hidden_layers)]
            if "full_attention" not in self.layer_types:
                self.layer_types[-1] = "full_attention"
        self.linear_num_key_heads = self.num_attention_heads if self.linear_num_key_heads is None else self.linear_num_key_heads
        self.linear_num_value_heads = self.num_attention_heads if self.linear_num_value_heads is None else self.linear_num_value_heads
        if self.linear_key_head_dim is None:
            self.linear_key_head_dim = int(0.75 * self.hidden_size / self.linear_num_key_heads)
        if self.linear_value_head_dim is None:
            self.linear_value_head_dim = 2 * self.linear_key_head_dim
        super().__post_init__(**kwargs)
        for kind, name in ("linear_attention", "linear attention"), ("full_attention", "attention"):
            if kind not in self.layer_types:
                refuse("/config/layer_types", "OlmoHybridConfig wants at least one layer of " + name)


class OlmoHybridAttention(Olmo2Attention):
    @staticmethod
    def rotate(q, k, cos, sin):
        return (q, k) if cos is None else Olmo2Attention.rotate(q, k, cos, sin)


class OlmoHybridGatedDeltaNet(GatedDeltaNet):
    def __init__(self, config, layer_idx):
        nn.Module.__init__(self)
        self.num_v_heads, self.num_k_heads = config.linear_num_value_heads, config.linear_num_key_heads
        self.layer_idx, self.activation, self.conv_kernel_size = layer_idx, config.hidden_act, config.linear_conv_kernel_dim
        self.head_k_dim, self.head_v_dim, self.allow_neg_eigval = config.linear_key_head_dim, config.linear_value_head_dim, config.linear_allow_neg_eigval
        self.key_dim, self.value_dim = self.head_k_dim * self.num_k_heads, self.head_v_dim * self.num_v_heads
        heads = self.num_v_heads
        for name, width in ("q", self.key_dim), ("k", self.key_dim), ("v", self.value_dim), ("a", heads), ("b", heads), ("g", self.value_dim):
            setattr(self, name + "_proj", nn.Linear(config.hidden_size, width, bias=False))
        self.o_proj = nn.Linear(self.value_dim, config.hidden_size, bias=False)
        wide = self.key_dim * 2 + self.value_dim
        self.conv1d = nn.Conv1d(wide, wide, bias=False, kernel_size=self.conv_kernel_size, groups=wide, padding=self.conv_kernel_size - 1)
        self.A_log = nn.Parameter(torch.empty(heads, dtype=torch.float32))
        self.dt_bias = nn.Parameter(torch.ones(heads))
        self.o_norm = RMSNormThenGate(self.head_v_dim, eps=1e-5)

    def forward(self, hidden_states, cache_params=None, attention_mask=None, **kwargs):
        hidden_states = apply_mask_to_padding_states(hidden_states, attention_mask)
        batch, seq_len = hidden_states.shape[:2]
        conv_state, recurrent_state = state_of(self, cache_params)
        mixed = torch.cat([self.q_proj(hidden_states), self.k_proj(hidden_states), self.v_proj(hidden_states)], dim=-1).transpose(1, 2)
        mixed = convolve(self, mixed, conv_state, cache_params, cut=True)
        query, key, value = torch.split(mixed.transpose(1, 2), [self.key_dim, self.key_dim, self.value_dim], dim=-1)
        query = query.view(batch, seq_len, -1, self.head_k_dim)
        key = key.view(batch, seq_len, -1, self.head_k_dim)
        value = value.view(batch, seq_len, -1, self.head_v_dim)
        query, key, _ = self.ruled(query, key, None)
        beta = self.b_proj(hidden_states).sigmoid()
        if self.allow_neg_eigval:
            beta = beta * 2.0
        g = -self.A_log.float().exp() * F.softplus(self.a_proj(hidden_states).float() + self.dt_bias)
        if recurrent_state is not None and seq_len == 1:
            output, state = recurrent_gated_delta_rule(query, key, value, g, beta, recurrent_state)
        else:
            output, state = chunk_gated_delta_rule(query, key, value, g, beta, recurrent_state, cache_params is not None)
        if cache_params is not None:
            cache_params.update_recurrent_state(state, self.layer_idx)
        gate = self.g_proj(hidden_states)
        output = output.reshape(-1, self.head_v_dim)
        gate = gate.reshape(-1, self.head_v_dim)
        output = self.o_norm(output, gate)
        output = output.reshape(batch, seq_len, -1)
        output = self.o_proj(output)
        return output


class OlmoHybridAttentionDecoderLayer(Olmo2DecoderLayer):
    attention = OlmoHybridAttention


class OlmoHybridLinearAttentionDecoderLayer(LlamaDecoderLayer):
    norm, block_type, forward = Olmo2RMSNorm, "linear_attention", Qwen3NextDecoderLayer.forward

    def __init__(self, config, layer_idx):
        nn.Module.__init__(self)
        self.mlp = self.make_mlp(config, layer_idx)
        self.input_layernorm = self.norm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = self.norm(config.hidden_size, eps=config.rms_norm_eps)
        self.linear_attn = OlmoHybridGatedDeltaNet(config, layer_idx)


class OlmoHybridModel(Olmo2Model):
    config_class, masks = OlmoHybridConfig, masks_of_kinds
    _no_split_modules = ["OlmoHybridAttentionDecoderLayer", "OlmoHybridLinearAttentionDecoderLayer"]

    @staticmethod
    def layer(config, layer_idx):
        linear = config.layer_types[layer_idx] == "linear_attention"
        return (OlmoHybridLinearAttentionDecoderLayer if linear else OlmoHybridAttentionDecoderLayer)(config, layer_idx)

    def finish(self, config):
        self.norm = Olmo2RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.rotary_emb = self.rotary(config) if config.rope_parameters.get("rope_theta") is not None else None

    def tables(self, hidden_states, position_ids):
        turn = None, None
        if self.rotary_emb is not None:
            turn = self.rotary_emb(hidden_states, position_ids)
        return [turn if kind == "full_attention" else None for kind in self.config.layer_types]


class OlmoHybridForCausalLM(Olmo2ForCausalLM):
    config_class, decoder = OlmoHybridConfig, OlmoHybridModel
    _no_split_modules = OlmoHybridModel._no_split_modules
    turn = (64, 48, 0, "fla")


causal_lm = OlmoHybridForCausalLM
