"""Experts that all see every token, scaled by its score: llama4's. transformers has no such file."""
import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.models.llama.modeling_llama import LlamaMLP


class Llama4TextExperts(nn.Module):
    def __init__(self, config):
        super().__init__()
        experts, self.hidden_size, inner = config.num_local_experts, config.hidden_size, config.intermediate_size
        self.gate_up_proj = nn.Parameter(torch.zeros(experts, self.hidden_size, 2 * inner))
        self.down_proj = nn.Parameter(torch.empty(experts, inner, self.hidden_size))
        self.act_fn = ACT2FN[config.hidden_act]

    def forward(self, hidden_states):
        hidden_states = hidden_states.view(self.gate_up_proj.shape[0], -1, self.hidden_size)
        gate_up = torch.bmm(hidden_states, self.gate_up_proj)
        gate, up = gate_up.chunk(2, dim=-1)
        next_states = torch.bmm((up * self.act_fn(gate)), self.down_proj)
        next_states = next_states.view(-1, self.hidden_size)
        return next_states


class Llama4TextMLP(LlamaMLP):
    def forward(self, x):
        inner = self.act_fn(self.gate_proj(x)) * self.up_proj(x)
        return self.down_proj(inner)


class Llama4Router(nn.Linear):
    recorded = None

    def __init__(self, config):
        super().__init__(config.hidden_size, config.num_local_experts, bias=False)
        self.top_k = config.num_experts_per_tok

    def forward(self, hidden_states):
        router_logits = super().forward(hidden_states)
        top_value, indices = torch.topk(router_logits, self.top_k, dim=1)
        scores = torch.full_like(router_logits, float("-inf")).scatter_(1, indices, top_value)
        scores = nn.functional.sigmoid(scores.float()).to(scores.dtype)
        if self.recorded is not None:
            self.recorded.append(router_logits)
        return scores, router_logits


class Llama4TextMoe(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.hidden_dim = config.hidden_size
        self.experts = Llama4TextExperts(config)
        self.router = Llama4Router(config)
        self.shared_expert = Llama4TextMLP(config)

    def forward(self, hidden_states):
        hidden_states = hidden_states.reshape(-1, self.hidden_dim)
        scores, router_logits = self.router(hidden_states)
        routed_in = hidden_states.repeat(scores.shape[1], 1)
        routed_in = routed_in * scores.transpose(0, 1).reshape(-1, 1)
        routed_out = self.experts(routed_in)
        out = self.shared_expert(hidden_states)
        out.add_(routed_out.reshape(scores.shape[1], -1, routed_out.shape[-1]).sum(dim=0))
        return out, router_logits
