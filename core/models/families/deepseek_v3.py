"""deepseek_v3: latents for queries and for keys with values, experts in groups beside shared ones, dense layers first."""
import math

import torch
from torch import nn

from transformers.modeling_interleaved_rope import apply_rotary_pos_emb_interleave
from transformers.modeling_moe import Experts, GroupedRouter, experts_tp_plan
from transformers.modeling_rope_utils import apply_rotary_pos_emb
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaMLP, LlamaModel, LlamaRMSNorm


EXPERTS_BESIDE_SHARED = experts_tp_plan() | {
    f"layers.*.mlp.{at}{n}_proj": "rowwise" if n == "down" else "colwise" for at in ("shared_experts.", "") for n in ("gate", "up", "down")}


class DeepseekV3Config(LlamaConfig):
    model_type = "deepseek_v3"
    attribute_map = {"num_experts": "n_routed_experts", "num_local_experts": "n_routed_experts"}
    base_model_tp_plan = EXPERTS_BESIDE_SHARED
    vocab_size: int = 129280
    hidden_size: int = 7168
    intermediate_size: int = 18432
    moe_intermediate_size: int = 2048
    num_hidden_layers: int = 61
    num_attention_heads: int = 128
    num_key_value_heads: int | None = 128
    n_shared_experts: int = 1
    n_routed_experts: int = 256
    output_router_logits: bool = False
    routed_scaling_factor: float = 2.5
    kv_lora_rank: int = 512
    q_lora_rank: int | None = 1536
    qk_rope_head_dim: int = 64
    v_head_dim: int | None = 128
    qk_nope_head_dim: int = 128
    n_group: int | None = 8
    topk_group: int | None = 4
    num_experts_per_tok: int | None = 8
    first_k_dense_replace: int | None = 3
    norm_topk_prob: bool | None = True
    max_position_embeddings: int = 4096
    rope_interleave: bool | None = True

    def __post_init__(self, **kwargs):
        self.head_dim = self.qk_rope_head_dim
        super().__post_init__(**kwargs)
        self.head_dim = self.qk_rope_head_dim


class DeepseekV3MoE(nn.Module):
    router = GroupedRouter

    def __init__(self, config):
        super().__init__()
        self.experts = Experts(config)
        self.gate = self.router(config)
        self.shared_experts = LlamaMLP(config, config.moe_intermediate_size * config.n_shared_experts)

    def forward(self, hidden_states):
        residuals = hidden_states
        shape = hidden_states.shape
        _, weights, indices = self.gate(hidden_states)
        hidden_states = hidden_states.view(-1, hidden_states.shape[-1])
        hidden_states = self.experts(hidden_states, indices, weights).view(*shape)
        hidden_states = hidden_states + self.shared_experts(residuals)
        return hidden_states


def scaled_for_yarn(rope, scaling):
    all_dim = rope.get("mscale_all_dim", 0) if rope.get("rope_type", "default") != "default" else 0
    scale = 0.1 * all_dim * math.log(rope["factor"]) + 1.0 if all_dim and rope["factor"] > 1 else 1.0
    return scaling * scale * scale


class DeepseekV3RMSNorm(LlamaRMSNorm):
    pass


class DeepseekV3Attention(LlamaAttention):
    def __init__(self, config, layer_idx):
        nn.Module.__init__(self)
        self.config, self.layer_idx, self.is_causal = config, layer_idx, True
        self.attention_dropout, self.num_key_value_groups = config.attention_dropout, config.num_attention_heads // config.num_key_value_heads
        heads, self.rope_dim, self.nope_dim, self.value_dim = config.num_attention_heads, config.qk_rope_head_dim, config.qk_nope_head_dim, config.v_head_dim
        self.head_dim, bias = self.nope_dim + self.rope_dim, config.attention_bias
        if config.q_lora_rank is None:
            self.q_proj = nn.Linear(config.hidden_size, heads * self.head_dim, bias=False)
        else:
            self.q_a_proj = nn.Linear(config.hidden_size, config.q_lora_rank, bias=bias)
            self.q_a_layernorm = DeepseekV3RMSNorm(config.q_lora_rank)
            self.q_b_proj = nn.Linear(config.q_lora_rank, heads * self.head_dim, bias=False)
        self.kv_a_proj_with_mqa = nn.Linear(config.hidden_size, config.kv_lora_rank + self.rope_dim, bias=bias)
        self.kv_a_layernorm = DeepseekV3RMSNorm(config.kv_lora_rank)
        self.kv_b_proj = nn.Linear(config.kv_lora_rank, heads * (self.nope_dim + self.value_dim), bias=False)
        self.o_proj = nn.Linear(heads * self.value_dim, config.hidden_size, bias=bias)
        self.scaling = scaled_for_yarn(config.rope_parameters, self.head_dim**-0.5)

    def turn(self, q, k, tables):
        cos, sin = tables
        return apply_rotary_pos_emb_interleave(q, k, cos, sin) if self.config.rope_interleave else apply_rotary_pos_emb(q, k, cos, sin)

    def queries(self, x):
        return self.q_proj(x) if self.config.q_lora_rank is None else self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x)))

    def expand_kv(self, latent, k_rot):
        batch, _, length, _ = latent.shape
        latent = self.kv_b_proj(latent).view((batch, length, -1, self.nope_dim + self.value_dim)).transpose(1, 2)
        k_pass, v = torch.split(latent, [self.nope_dim, self.value_dim], dim=-1)
        k_rot = k_rot.expand(-1, k_pass.shape[1], -1, -1)
        k = latent.new_empty(*latent.shape[:-1], self.nope_dim + self.rope_dim)
        k[..., : self.nope_dim].copy_(k_pass)
        k[..., self.nope_dim :].copy_(k_rot)
        return k, v

    def forward(self, hidden_states, position_embeddings=None, attention_mask=None, past_key_values=None, **kwargs):
        batch, length = hidden_states.shape[:-1]
        q = self.queries(hidden_states)
        q = q.view((batch, length, -1, self.head_dim)).transpose(1, 2)
        q_pass, q_rot = torch.split(q, [self.nope_dim, self.rope_dim], dim=-1)
        compressed = self.kv_a_proj_with_mqa(hidden_states)
        latent, k_rot = torch.split(compressed, [self.config.kv_lora_rank, self.rope_dim], dim=-1)
        latent = self.kv_a_layernorm(latent)
        latent = latent.view(batch, 1, length, self.config.kv_lora_rank)
        k_rot = k_rot.view(batch, 1, length, self.rope_dim)
        q_rot, k_rot = self.turn(q_rot, k_rot, position_embeddings)
        if past_key_values is not None:
            latent, k_rot = past_key_values.update(latent, k_rot, self.layer_idx)
        query = torch.cat((q_pass, q_rot), dim=-1)
        key, value = self.expand_kv(latent, k_rot)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, self.eager)
        output, weights = attend(self, query, key, value, attention_mask, dropout=self.attention_dropout if self.training else 0.0,
                                 scaling=self.scaling, **kwargs)
        output = output.reshape(batch, length, -1).contiguous()
        output = self.o_proj(output)
        return output, weights


class DeepseekV3DecoderLayer(LlamaDecoderLayer):
    attention, sparse, norm = DeepseekV3Attention, DeepseekV3MoE, DeepseekV3RMSNorm

    def make_mlp(self, config, layer_idx):
        return self.sparse(config) if layer_idx >= config.first_k_dense_replace else self.feed_forward(config)


class DeepseekV3Model(LlamaModel):
    layer = DeepseekV3DecoderLayer


class DeepseekV3ForCausalLM(LlamaForCausalLM):
    config_class, decoder, _no_split_modules = DeepseekV3Config, DeepseekV3Model, ["DeepseekV3DecoderLayer"]


causal_lm = DeepseekV3ForCausalLM
