"""granitemoe: llama with experts, and multipliers of embeddings, scores, residuals and logits."""
import torch
from torch import nn

from transformers.modeling_moe import Experts, MoeCausalLM, TopKRouter, experts_tp_plan
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaDecoderLayer, LlamaForCausalLM, LlamaModel


class GraniteMoeConfig(LlamaConfig):
    model_type = "granitemoe"
    attribute_map = {"num_experts": "num_local_experts"}
    base_model_tp_plan = experts_tp_plan("layers.*.block_sparse_moe.experts")
    embedding_multiplier: float = 1.0
    logits_scaling: float = 1.0
    residual_multiplier: float = 1.0
    attention_multiplier: float = 1.0
    num_local_experts: int = 8
    num_experts_per_tok: int = 2
    output_router_logits: bool = False
    router_aux_loss_coef: float = 0.001


class GraniteMoeTopKRouter(TopKRouter):
    def forward(self, hidden_states):
        router_logits = nn.functional.linear(hidden_states, self.weight).float()
        top_logits, indices = router_logits.topk(self.top_k, dim=-1)
        weights = torch.softmax(top_logits, dim=-1).type_as(hidden_states)
        self.record(router_logits)
        return router_logits, weights, indices


class GraniteMoeExperts(Experts):
    width = "intermediate_size"


class GraniteMoeMoE(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.router = GraniteMoeTopKRouter(config)
        self.experts = GraniteMoeExperts(config)

    def forward(self, layer_input):
        batch, length, width = layer_input.size()
        hidden_states = layer_input.reshape(-1, width)
        _, weights, indices = self.router(hidden_states)
        out = self.experts(hidden_states, indices, weights)
        return out.view(batch, length, width)


class GraniteMoeAttention(LlamaAttention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.scaling = config.attention_multiplier


def given(out):
    """What the experts hand out, by earlier releases with their router's logits."""
    return out if isinstance(out, tuple) else (out,)


class GraniteMoeDecoderLayer(LlamaDecoderLayer):
    attention = GraniteMoeAttention

    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.block_sparse_moe, self.multiplier = GraniteMoeMoE(config), config.residual_multiplier
        del self.mlp

    def forward(self, hidden_states, **kwargs):
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        hidden_states, _ = self.self_attn(hidden_states=hidden_states, **kwargs)
        hidden_states = residual + hidden_states * self.multiplier
        residual = hidden_states
        hidden_states = self.post_attention_layernorm(hidden_states)
        hidden_states, *_logits = given(self.block_sparse_moe(hidden_states))
        hidden_states = residual + hidden_states * self.multiplier
        return hidden_states


class GraniteMoeModel(LlamaModel):
    layer = GraniteMoeDecoderLayer

    def embedded(self, x):
        return x * self.config.embedding_multiplier


class GraniteMoeForCausalLM(MoeCausalLM, LlamaForCausalLM):
    config_class, decoder, _no_split_modules = GraniteMoeConfig, GraniteMoeModel, ["GraniteMoeDecoderLayer"]
    names_num_experts = False  # its config has num_local_experts alone: trl 1.16 raises an AttributeError

    def logits(self, x):
        logits = self.lm_head(x)
        return logits / self.config.logits_scaling


causal_lm = GraniteMoeForCausalLM
