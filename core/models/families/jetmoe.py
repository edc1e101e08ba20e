"""jetmoe: experts for queries and for what attention gives, around keys and values that all share; experts in the feed-forward."""
import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.modeling_decoder import attend
from transformers.modeling_moe import MoeCausalLM
from transformers.modeling_moe_sorted import ParallelExperts, TopKGating, back_in_place
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaModel, LlamaRMSNorm
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb
from transformers.releases import refuse


class JetMoeConfig(LlamaConfig):
    model_type, base_model_tp_plan = "jetmoe", None
    attribute_map = {"head_dim": "kv_channels", "num_experts": "num_local_experts", "router_aux_loss_coef": "aux_loss_coef"}
    hidden_size: int = 2048
    num_hidden_layers: int = 12
    num_key_value_heads: int = 16
    kv_channels: int = 128
    intermediate_size: int = 5632
    max_position_embeddings: int = 4096
    activation_function: str = "silu"
    num_local_experts: int = 8
    num_experts_per_tok: int = 2
    output_router_logits: bool = False
    aux_loss_coef: float = 0.01
    tie_word_embeddings: bool = True

    def __post_init__(self, **kwargs):
        self.num_attention_heads, self.head_dim = self.num_key_value_heads * self.num_experts_per_tok, self.kv_channels
        super().__post_init__(**kwargs)
        if self.num_experts_per_tok > self.num_local_experts:
            refuse("/config/num_experts_per_tok", "JetMoeConfig wants no more than num_local_experts")


class JetMoeMoE(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.width, self.inner, experts = config.hidden_size, config.intermediate_size, config.num_local_experts
        self.bias = nn.Parameter(torch.empty(self.width))
        self.make(config)
        self.router = TopKGating(self.width, experts, config.num_experts_per_tok)

    def make(self, config):
        self.activation = ACT2FN[config.activation_function]
        self.input_linear = ParallelExperts(config.num_local_experts, self.width, self.inner * 2)
        self.output_linear = ParallelExperts(config.num_local_experts, self.inner, self.width)

    def forward(self, layer_input):
        bsz, length, width = layer_input.size()
        layer_input = layer_input.reshape(-1, width)
        _, batch_index, batch_gates, expert_size, router_logits = self.router(layer_input)
        expert_inputs = layer_input[batch_index]
        hidden_states = self.input_linear(expert_inputs, expert_size)
        chunks = hidden_states.chunk(2, dim=-1)
        hidden_states = self.activation(chunks[0]) * chunks[1]
        return back_in_place(self.output_linear(hidden_states, expert_size), batch_index, batch_gates, bsz, length, self.bias)


class JetMoeMoA(JetMoeMoE):
    def make(self, config):
        self.top_k, self.inner = config.num_experts_per_tok, config.kv_channels * config.num_key_value_heads
        self.input_linear = ParallelExperts(config.num_local_experts, self.width, self.inner)
        self.output_linear = ParallelExperts(config.num_local_experts, self.inner, self.width)

    def map(self, layer_input):
        bsz, length, width = layer_input.size()
        layer_input = layer_input.reshape(-1, width)
        order, batch_index, batch_gates, expert_size, router_logits = self.router(layer_input)
        topo_info = order, batch_index, batch_gates, expert_size
        expert_inputs = layer_input[batch_index]
        expert_outputs = self.input_linear(expert_inputs, expert_size)
        zeros = torch.zeros((bsz * length * self.top_k, self.inner), dtype=expert_outputs.dtype, device=expert_outputs.device)
        layer_output = zeros.index_add(0, order, expert_outputs)
        layer_output = layer_output.view(bsz, length, self.top_k, -1)
        return layer_output, router_logits, topo_info

    def reduce(self, layer_input, topo_info):
        bsz, length, _, width = layer_input.size()
        layer_input = layer_input.reshape(-1, width)
        order, batch_index, batch_gates, expert_size = topo_info
        expert_inputs = layer_input[order]
        return back_in_place(self.output_linear(expert_inputs, expert_size), batch_index, batch_gates, bsz, length, self.bias)


class JetMoeAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config, self.layer_idx, self.is_causal = config, layer_idx, True
        self.num_key_value_groups, self.top_k, self.attention_dropout = 1, config.num_experts_per_tok, config.attention_dropout
        self.head_dim = config.kv_channels
        self.scaling = self.head_dim**-0.5
        self.experts = JetMoeMoA(config)
        self.kv_proj = nn.Linear(config.hidden_size, config.kv_channels * config.num_key_value_heads * 2, bias=False)

    def forward(self, hidden_states, attention_mask=None, position_embeddings=None, past_key_values=None, **kwargs):
        rows = hidden_states.shape[:-1]
        shape = (*rows, -1, self.head_dim)
        q, router_logits, topo_info = self.experts.map(hidden_states)
        k, v = self.kv_proj(hidden_states).chunk(2, dim=-1)
        q = q.view(shape).transpose(1, 2)
        k = k.view(shape).transpose(1, 2)
        v = v.view(shape).transpose(1, 2)
        cos, sin = position_embeddings
        q, k = apply_rotary_pos_emb(q, k, cos, sin)
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, self.layer_idx)
        k = k.repeat(1, self.top_k, 1, 1)
        v = v.repeat(1, self.top_k, 1, 1)
        output, weights = attend(self, q, k, v, attention_mask, LlamaAttention.eager, dropout=self.attention_dropout if self.training else 0.0,
                                 scaling=self.scaling, **kwargs)
        output = output.view(*rows, self.top_k, -1)
        output = self.experts.reduce(output, topo_info)
        output = output.view(*rows, -1)
        self.experts.router.record(router_logits)  # as what attention hands out too
        return output, weights, router_logits


class JetMoeDecoderLayer(LlamaDecoderLayer):
    norm = LlamaRMSNorm

    def __init__(self, config, layer_idx):
        nn.Module.__init__(self)
        self.mlp = JetMoeMoE(config)
        self.input_layernorm = LlamaRMSNorm(config.hidden_size)
        self.post_attention_layernorm = LlamaRMSNorm(config.hidden_size)
        self.self_attention = JetMoeAttention(config, layer_idx)

    def forward(self, hidden_states, **kwargs):
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        hidden_states, _, _ = self.self_attention(hidden_states=hidden_states, **kwargs)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.post_attention_layernorm(hidden_states)
        hidden_states = self.mlp(hidden_states)
        hidden_states = residual + hidden_states
        return hidden_states


class JetMoeModel(LlamaModel):
    layer = JetMoeDecoderLayer


class JetMoeForCausalLM(MoeCausalLM, LlamaForCausalLM):
    config_class, decoder, _no_split_modules, _tp_plan = JetMoeConfig, JetMoeModel, ["JetMoeDecoderLayer"], None
    supports_gradient_checkpointing = False


causal_lm = JetMoeForCausalLM
