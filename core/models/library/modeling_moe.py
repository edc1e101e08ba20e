"""What files of mixtures of experts would each say again; transformers has no such file."""
import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.integrations.finegrained_fp8 import ALL_FP8_EXPERTS_FUNCTIONS
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS
from transformers.modeling_decoder import CausalLM
from transformers.modeling_outputs import MoeCausalLMOutputWithPast
from transformers.modeling_utils import slice_logits_to_keep
from transformers.utils.generic import can_return_tuple

EXPERTS_TP_PLAN = {"gate_up_proj": "packed_colwise", "down_proj": "rowwise", "": "moe_tp_experts"}


def experts_tp_plan(at="layers.*.mlp.experts"):
    return {at + ("." if name else "") + name: style for name, style in EXPERTS_TP_PLAN.items()}


class Experts(nn.Module):
    """All experts of a layer, [experts, out, in] a weight. `width` names the config's member that says how wide one is."""

    width, has_gate, has_bias, is_transposed = "moe_intermediate_size", True, False, False

    def __init__(self, config):
        super().__init__()
        self.config, self.num_experts = config, config.num_experts
        hidden, inner = config.hidden_size, getattr(config, self.width)
        self.gate_up_proj = nn.Parameter(torch.empty(self.num_experts, 2 * inner, hidden))
        self.down_proj = nn.Parameter(torch.empty(self.num_experts, hidden, inner))
        self.act_fn = ACT2FN[config.hidden_act]

    def _apply_gate(self, gate_up):
        gate, up = gate_up.chunk(2, dim=-1)
        return self.act_fn(gate) * up

    def forward(self, hidden_states, top_k_index, top_k_weights):
        how = getattr(self.config, "_experts_implementation", "grouped_mm")
        packed = getattr(self.config, "_experts_packed", None) == "fp8" and self.down_proj.dtype == torch.uint8  # some may be left alone
        functions = ALL_FP8_EXPERTS_FUNCTIONS if packed else ALL_EXPERTS_FUNCTIONS
        return functions[how](self, hidden_states, top_k_index, top_k_weights)


class ExpertsWithoutGate(Experts):
    """`hidden`: of what they are given."""

    has_gate = False

    def __init__(self, config, hidden, activation):
        nn.Module.__init__(self)
        self.config, self.num_experts, inner = config, config.num_experts, getattr(config, self.width)
        self.up_proj = nn.Parameter(torch.empty(self.num_experts, inner, hidden))
        self.down_proj = nn.Parameter(torch.empty(self.num_experts, hidden, inner))
        self.act_fn = ACT2FN[activation]


class TopKRouter(nn.Module):
    """Logits of experts, weights and indices of those that are taken. `recorded` is a list where logits are asked for."""

    recorded = None

    def __init__(self, config):
        super().__init__()
        self.top_k, self.num_experts, self.hidden_dim = config.num_experts_per_tok, config.num_experts, config.hidden_size
        self.norm_topk_prob = getattr(config, "norm_topk_prob", False)
        self.weight = nn.Parameter(torch.zeros(self.num_experts, self.hidden_dim))

    def record(self, router_logits):
        if self.recorded is not None:
            self.recorded.append(router_logits)

    def forward(self, hidden_states):
        hidden_states = hidden_states.reshape(-1, self.hidden_dim)
        router_logits = nn.functional.linear(hidden_states, self.weight)
        probs = nn.functional.softmax(router_logits, dtype=torch.float, dim=-1)
        top_value, indices = torch.topk(probs, self.top_k, dim=-1)
        if self.norm_topk_prob:
            top_value /= top_value.sum(dim=-1, keepdim=True)
        top_value = top_value.to(router_logits.dtype)
        self.record(router_logits)
        return router_logits, top_value, indices


class GroupedRouter(TopKRouter):
    """Experts of the best groups alone, chosen by biased scores."""

    correction = None  # dtype; None: the model's

    def __init__(self, config):
        super().__init__(config)
        self.routed_scaling_factor, self.num_group, self.topk_group = config.routed_scaling_factor, config.n_group, config.topk_group
        self.register_buffer("e_score_correction_bias", torch.zeros(self.num_experts, dtype=self.correction))

    def forward(self, hidden_states):
        hidden_states = hidden_states.view(-1, self.hidden_dim)
        router_logits = nn.functional.linear(hidden_states.type(torch.float32), self.weight.type(torch.float32))
        scores = router_logits.sigmoid()
        choice = scores + self.e_score_correction_bias
        group_scores = choice.view(-1, self.num_group, self.num_experts // self.num_group).topk(2, dim=-1)[0].sum(dim=-1)
        groups = torch.topk(group_scores, k=self.topk_group, dim=-1, sorted=False)[1]
        mask = torch.zeros_like(group_scores)
        mask.scatter_(1, groups, 1)
        expert_mask = mask.unsqueeze(-1).expand(-1, self.num_group, self.num_experts // self.num_group).reshape(-1, self.num_experts)
        choice = choice.masked_fill(~expert_mask.bool(), float("-inf"))
        indices = torch.topk(choice, k=self.top_k, dim=-1, sorted=False)[1]
        weights = scores.gather(1, indices)
        if self.norm_topk_prob:
            total = weights.sum(dim=-1, keepdim=True) + 1e-20
            weights /= total
        weights = weights * self.routed_scaling_factor
        self.record(router_logits)
        return router_logits, weights, indices


class SparseMoeBlock(nn.Module):
    """A router and experts; classes name theirs, in the order in which they are made."""

    router, experts_class, made = TopKRouter, Experts, ("gate", "experts")

    def __init__(self, config):
        super().__init__()
        for name in self.made:
            setattr(self, name, self.experts_class(config) if name == "experts" else self.router(config))

    def forward(self, hidden_states):
        batch_size, sequence_length, hidden_dim = hidden_states.shape
        hidden_states = hidden_states.view(-1, hidden_dim)
        _, weights, indices = self.route(hidden_states)
        out = self.experts(hidden_states, indices, weights)
        return out.reshape(batch_size, sequence_length, hidden_dim)

    def route(self, hidden_states):
        return self.gate(hidden_states)


def counts_of(selected, num_experts):
    return torch.histc(selected.to(torch.int32), bins=num_experts, min=0, max=num_experts)


def load_balancing_loss_func(gate_logits, num_experts, top_k, attention_mask=None):
    device = gate_logits[0].device
    tokens_sum = torch.zeros(num_experts, dtype=torch.float32, device=device)
    prob_sum = torch.zeros(num_experts, dtype=torch.float32, device=device)
    rows = 0.0
    if attention_mask is not None:
        flat_mask = attention_mask.reshape(-1).to(device=device, dtype=torch.float32)
    for gate in gate_logits:
        routing = nn.functional.softmax(gate.to(device), dim=-1)
        _, selected = torch.topk(routing, top_k, dim=-1)
        if attention_mask is None:
            tokens_sum = tokens_sum + counts_of(selected.reshape(-1), num_experts)
            prob_sum = prob_sum + routing.float().sum(dim=0)
            rows = rows + routing.shape[0]
        else:
            tokens_sum = tokens_sum + torch.zeros(num_experts, dtype=torch.float32, device=device).scatter_add_(
                0, selected.reshape(-1), flat_mask.repeat_interleave(top_k))
            prob_sum = prob_sum + (routing.float() * flat_mask.unsqueeze(-1)).sum(dim=0)
            rows = rows + flat_mask.sum()
    tokens_per_expert = tokens_sum / rows
    prob_per_expert = prob_sum / rows
    overall = torch.sum(tokens_per_expert * prob_per_expert.unsqueeze(0))
    return overall * num_experts


def balanced(config, outputs, logits, loss, attention_mask, asked):
    aux_loss = None
    if asked:
        aux_loss = load_balancing_loss_func(outputs.router_logits, config.num_experts, config.num_experts_per_tok, attention_mask)
        if loss is not None:
            loss += config.router_aux_loss_coef * aux_loss.to(loss.device)
    return MoeCausalLMOutputWithPast(loss=loss, aux_loss=aux_loss, logits=logits, past_key_values=outputs.past_key_values,
                                     router_logits=getattr(outputs, "router_logits", None))


class MoeCausalLM(CausalLM):
    """CausalLM with the loss that balances experts, where router logits are asked for."""

    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, inputs_embeds=None, labels=None, use_cache=None,
                output_router_logits=None, logits_to_keep=0, **kwargs):
        asked = output_router_logits if output_router_logits is not None else self.config.output_router_logits
        outputs = getattr(self, self.base_model_prefix)(
            input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, past_key_values=past_key_values,
            inputs_embeds=inputs_embeds, use_cache=use_cache, output_router_logits=asked, **kwargs)
        hidden_states = outputs.last_hidden_state
        hidden_states = slice_logits_to_keep(hidden_states, logits_to_keep)
        logits = self.logits(hidden_states)
        loss = None
        if labels is not None:
            loss = self.loss_function(logits, labels, self.config.vocab_size, **kwargs)
        return balanced(self.config, outputs, logits, loss, attention_mask, asked)
