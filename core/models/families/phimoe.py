"""phimoe: mixtral with layer norms and routers that draw their two experts one after the other."""
import torch
from torch import nn

from transformers.modeling_moe import SparseMoeBlock, experts_tp_plan
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS, RotaryEmbedding, dynamic_rope_update
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaDecoderLayer
from transformers.models.mixtral.modeling_mixtral import MixtralConfig, MixtralExperts, MixtralForCausalLM, MixtralModel


class PhimoeConfig(MixtralConfig):
    model_type, base_model_tp_plan, leaves_head_dim = "phimoe", experts_tp_plan(), False
    vocab_size: int = 32064
    intermediate_size: int = 6400
    max_position_embeddings: int = 131072
    num_local_experts: int = 16
    router_jitter_noise: float = 0.01
    input_jitter_noise: float = 0.0
    attention_bias: bool = False
    lm_head_bias: bool = False


class PhimoeRotaryEmbedding(RotaryEmbedding):
    """Its frequencies are made anew at each forward."""

    @torch.no_grad()
    @dynamic_rope_update
    def forward(self, x, position_ids=None):
        longest = torch.max(position_ids) + 1
        make = self.compute_default_rope_parameters
        if self.rope_type != "default":
            make, _ = ROPE_INIT_FUNCTIONS[self.rope_type], longest > self.config.rope_parameters["original_max_position_embeddings"]
        inv_freq, scale = make(self.config)
        freqs = position_ids[..., None].float() * inv_freq.to(device=x.device, dtype=torch.float)
        angles = torch.cat((freqs, freqs), dim=-1)
        cos = angles.cos() * scale
        sin = angles.sin() * scale
        return cos.to(x.dtype), sin.to(x.dtype)


class PhimoeMultiplier(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores, multiplier, selected_experts, masked_gates, mask_for_one):
        ctx.save_for_backward(multiplier, selected_experts, masked_gates)
        return multiplier * mask_for_one

    @staticmethod
    def backward(ctx, grad):
        multiplier, selected_experts, masked_gates = ctx.saved_tensors
        grad = grad * multiplier
        of_scores = masked_gates * grad.mul(-1)
        of_scores.scatter_add_(dim=-1, index=selected_experts, src=grad)
        return of_scores, None, None, None, None


def drawn(gates):
    return (gates - torch.empty_like(gates).exponential_().log()).max(dim=-1)[1].unsqueeze(-1)


def sparsemixer(scores, jitter_eps, training):
    with torch.no_grad():
        threshold, highest = scores.max(dim=-1, keepdim=True)
        factor = scores.abs().clamp(min=threshold)
        threshold = ((threshold - scores) / factor) > (2 * jitter_eps)
    gates = scores.masked_fill(threshold, float("-inf"))
    first = drawn(gates) if training else highest
    gates = torch.softmax(gates, dim=-1)
    multiplier_o = gates.gather(dim=-1, index=first)
    multiplier = multiplier_o
    if training:
        max_scores, highest = gates.max(dim=-1, keepdim=True)
        for_one = torch.logical_or(first == highest, torch.rand_like(max_scores) > 0.75)
        for_one = torch.add(0.3333, for_one, alpha=0.6667).type_as(gates)
        multiplier = PhimoeMultiplier.apply(scores, multiplier_o, first, gates, for_one)
    masked_scores = torch.scatter(scores, -1, first, float("-inf"))
    with torch.no_grad():
        threshold, highest = masked_scores.max(dim=-1, keepdim=True)
        factor = scores.abs().clamp(min=threshold)
        threshold = ((threshold - scores) / factor) > (2 * jitter_eps)
    gates_2 = masked_scores.masked_fill(threshold, float("-inf"))
    second = drawn(gates_2) if training else highest
    gates_2 = torch.softmax(gates_2, dim=-1)
    multiplier_2_o = gates_2.gather(dim=-1, index=second)
    multiplier_2 = multiplier_2_o
    if training:
        max_scores, highest = gates_2.max(dim=-1, keepdim=True)
        for_one_2 = torch.logical_or(second == highest, torch.rand_like(max_scores).uniform_() > 0.75)
        for_one_2 = torch.add(0.3333, for_one_2, alpha=0.6667).type_as(gates_2)
        multiplier_2 = PhimoeMultiplier.apply(scores, multiplier_2_o, second, gates_2, for_one_2)
    multiplier = torch.concat((multiplier, multiplier_2), dim=-1)
    first = torch.concat((first, second), dim=-1)
    return multiplier, first


class PhimoeTopKRouter(nn.Linear):
    recorded = None

    def __init__(self, config):
        super().__init__(config.hidden_size, config.num_local_experts, bias=False)
        self.router_jitter_noise, self.input_jitter_noise = config.router_jitter_noise, config.input_jitter_noise

    def forward(self, hidden_states):
        if self.training and self.input_jitter_noise > 0:
            hidden_states *= torch.empty_like(hidden_states).uniform_(1.0 - self.input_jitter_noise, 1.0 + self.input_jitter_noise)
        router_logits = super().forward(hidden_states)
        weights, indices = sparsemixer(router_logits, self.router_jitter_noise, self.training)
        if self.recorded is not None:
            self.recorded.append(router_logits)
        return router_logits, weights, indices


class PhimoeSparseMoeBlock(SparseMoeBlock):
    router, experts_class, made = PhimoeTopKRouter, MixtralExperts, ("router", "experts")

    def __init__(self, config):
        super().__init__(config)
        self.input_jitter_noise = config.input_jitter_noise

    def forward(self, hidden_states):
        if self.training and self.input_jitter_noise > 0:
            hidden_states *= torch.empty_like(hidden_states).uniform_(1.0 - self.input_jitter_noise, 1.0 + self.input_jitter_noise)
        return super().forward(hidden_states)

    def route(self, hidden_states):
        return self.router(hidden_states)


class PhimoeDecoderLayer(LlamaDecoderLayer):
    attention, feed_forward, norm = LlamaAttention, PhimoeSparseMoeBlock, nn.LayerNorm


class PhimoeModel(MixtralModel):
    layer, rotary = PhimoeDecoderLayer, PhimoeRotaryEmbedding


class PhimoeForCausalLM(MixtralForCausalLM):
    config_class, decoder, _no_split_modules = PhimoeConfig, PhimoeModel, ["PhimoeDecoderLayer"]
    widened_by_autocast = True  # experts give what they take, and a layer norm hands them fp32

    def __init__(self, config):
        self.head_bias = config.lm_head_bias
        super().__init__(config)


causal_lm = PhimoeForCausalLM
