"""jamba: mixers of Mamba with normed steps and matrices, attention without positions in every eighth layer, experts in every other."""
import math

import torch
from torch import nn

from transformers.masking_utils import masks_of_kinds
from transformers.modeling_mamba import MambaMixer
from transformers.modeling_moe import Experts, MoeCausalLM, SparseMoeBlock, TopKRouter, experts_tp_plan
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaMLP, LlamaModel, LlamaRMSNorm


class JambaConfig(LlamaConfig):
    model_type = "jamba"
    attribute_map = {"num_local_experts": "num_experts"}
    base_model_tp_plan = experts_tp_plan("layers.*.feed_forward.experts")
    vocab_size: int = 65536
    intermediate_size: int = 14336
    num_key_value_heads: int | None = 8
    output_router_logits: bool = False
    router_aux_loss_coef: float = 0.001
    pad_token_id: int | None = 0
    max_position_embeddings: int = 262144
    num_experts_per_tok: int = 2
    num_experts: int = 16
    expert_layer_period: int = 2
    expert_layer_offset: int = 1
    attn_layer_period: int = 8
    attn_layer_offset: int = 4
    mamba_d_state: int = 16
    mamba_d_conv: int = 4
    mamba_expand: int = 2
    mamba_dt_rank: int | str = "auto"
    mamba_conv_bias: bool = True
    mamba_proj_bias: bool = False

    def __post_init__(self, **kwargs):
        self.mamba_dt_rank = math.ceil(self.hidden_size / 16) if self.mamba_dt_rank == "auto" else self.mamba_dt_rank
        super().__post_init__(**kwargs)

    @property
    def layer_types(self):
        return ["full_attention" if i % self.attn_layer_period == self.attn_layer_offset else "linear_attention" for i in range(self.num_hidden_layers)]


class JambaAttention(LlamaAttention):
    rotate = staticmethod(lambda q, k, cos, sin: (q, k))

    def biases(self, config):
        return False, False


class JambaMambaMixer(MambaMixer):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.config = config
        for name, width in ("dt", self.time_step_rank), ("b", self.ssm_state_size), ("c", self.ssm_state_size):
            setattr(self, name + "_layernorm", LlamaRMSNorm(width, eps=config.rms_norm_eps))

    def sizes(self, config):
        self.intermediate_size, self.ssm_state_size = config.mamba_expand * config.hidden_size, config.mamba_d_state
        self.conv_kernel_size, self.time_step_rank, self.activation = config.mamba_d_conv, config.mamba_dt_rank, config.hidden_act
        self.use_conv_bias, self.use_bias = config.mamba_conv_bias, config.mamba_proj_bias

    def fused(self, projected_states, A):
        """No kernel does norms where this class has them."""

    def normed(self, time_step, B, C):
        return self.dt_layernorm(time_step), self.b_layernorm(B), self.c_layernorm(C)

    def stepped(self, time_step):
        if hasattr(self.config, "_is_quantized"):  # packed weights are no factor
            return (self.dt_proj(time_step) - self.dt_proj.bias).transpose(1, 2)
        return super().stepped(time_step)


class JambaExperts(Experts):
    width = "intermediate_size"


class JambaTopKRouter(TopKRouter):
    def forward(self, hidden_states):
        router_logits = nn.functional.linear(hidden_states, self.weight)
        weights = nn.functional.softmax(router_logits, dim=-1, dtype=torch.float)
        top_weights, indices = torch.topk(weights, self.top_k, dim=-1)
        self.record(router_logits)
        return router_logits, top_weights.to(hidden_states.dtype), indices


class JambaSparseMoeBlock(SparseMoeBlock):
    router, experts_class, made = JambaTopKRouter, JambaExperts, ("router", "experts")

    def forward(self, hidden_states):
        batch_size, sequence_length, hidden_dim = hidden_states.shape
        hidden_states = hidden_states.view(-1, hidden_dim)
        _, weights, indices = self.router(hidden_states)
        hidden_states = self.experts(hidden_states, indices, weights)
        return hidden_states.reshape(batch_size, sequence_length, hidden_dim)


class JambaDecoderLayer(LlamaDecoderLayer):
    def __init__(self, config, layer_idx):
        nn.Module.__init__(self)
        self.scans = config.layer_types[layer_idx] == "linear_attention"
        if self.scans:
            self.mamba = JambaMambaMixer(config, layer_idx)
        else:
            self.self_attn = JambaAttention(config, layer_idx)
        routed = config.num_experts > 1 and layer_idx % config.expert_layer_period == config.expert_layer_offset
        self.feed_forward = JambaSparseMoeBlock(config) if routed else LlamaMLP(config)
        self.input_layernorm = self.norm(config.hidden_size, eps=config.rms_norm_eps)
        self.pre_ff_layernorm = self.norm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(self, hidden_states, attention_mask=None, past_key_values=None, position_embeddings=None, **kwargs):
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        if self.scans:
            hidden_states = self.mamba(hidden_states=hidden_states, cache_params=past_key_values, attention_mask=attention_mask)
        else:
            hidden_states, _ = self.self_attn(hidden_states=hidden_states, attention_mask=attention_mask, past_key_values=past_key_values,
                                              position_embeddings=(None, None), **kwargs)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.pre_ff_layernorm(hidden_states)
        hidden_states = self.feed_forward(hidden_states)
        hidden_states = residual + hidden_states
        return hidden_states


class JambaAttentionDecoderLayer(JambaDecoderLayer):
    pass


class JambaMambaDecoderLayer(JambaDecoderLayer):
    pass


class JambaModel(LlamaModel):
    masks = masks_of_kinds

    @staticmethod
    def layer(config, i):
        return (JambaMambaDecoderLayer if config.layer_types[i] == "linear_attention" else JambaAttentionDecoderLayer)(config, i)

    def finish(self, config):
        self.final_layernorm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def last_norm(self):
        return self.final_layernorm

    def tables(self, hidden_states, position_ids):
        return [None] * len(self.layers)


class JambaForCausalLM(MoeCausalLM, LlamaForCausalLM):
    config_class, decoder, _no_split_modules = JambaConfig, JambaModel, ["JambaAttentionDecoderLayer", "JambaMambaDecoderLayer"]
    turn = (1, 16, 0, "mamba_ssm")


causal_lm = JambaForCausalLM
