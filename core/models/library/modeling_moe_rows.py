"""Experts as rows of three tables, which a loop has one after the other: dbrx's. transformers has no such file."""
import torch
from torch import nn

from transformers.activations import ACT2FN


class DbrxRouter(nn.Module):
    recorded = None

    def __init__(self, config):
        super().__init__()
        self.jitter = config.jitter
        self.layer = nn.Linear(config.d_model, config.num_experts, bias=False)

    def forward(self, hidden_states):
        if self.training and self.jitter is not None:
            hidden_states *= torch.empty_like(hidden_states).uniform_(1.0 - self.jitter, 1.0 + self.jitter)
        hidden_states = hidden_states.view(-1, hidden_states.shape[-1])
        router_logits = self.layer(hidden_states)
        if self.recorded is not None:
            self.recorded.append(router_logits)
        return router_logits


class DbrxExpertGLU(nn.Module):
    def __init__(self, config):
        super().__init__()
        rows = config.num_experts * config.inner
        self.w1 = nn.Parameter(torch.empty(rows, config.d_model))
        self.v1 = nn.Parameter(torch.empty(rows, config.d_model))
        self.w2 = nn.Parameter(torch.empty(rows, config.d_model))
        self.activation_fn = ACT2FN[config.expert_act]

    def forward(self, x, expert_w1, expert_v1, expert_w2):
        gate_proj = x.matmul(expert_w1.T)
        up_proj = x.matmul(expert_v1.T)
        gate_proj = self.activation_fn(gate_proj)
        intermediate_states = gate_proj * up_proj
        return intermediate_states.matmul(expert_w2)


class DbrxExperts(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.mlp, self.inner, self.num_experts = DbrxExpertGLU(config), config.inner, config.num_experts

    def forward(self, hidden_states, top_k_index, top_k_weights):
        batch_size, width = hidden_states.shape[0], hidden_states.shape[-1]
        hidden_states = hidden_states.reshape(-1, width)
        next_states = torch.zeros_like(hidden_states, dtype=hidden_states.dtype, device=hidden_states.device)
        with torch.no_grad():
            expert_mask = nn.functional.one_hot(top_k_index, num_classes=self.num_experts + 1)
            expert_mask = expert_mask.permute(2, 1, 0)
            expert_hit = torch.greater(expert_mask.sum(dim=(-1, -2)), 0).nonzero()
        shape = (-1, self.inner, width)
        for expert_idx in range(self.num_experts):
            with torch.no_grad():
                idx, token_idx = torch.where(expert_mask[expert_idx])
            v1 = self.mlp.v1.view(shape)[expert_idx]
            w1 = self.mlp.w1.view(shape)[expert_idx]
            w2 = self.mlp.w2.view(shape)[expert_idx]
            states = self.mlp(hidden_states[token_idx], w1, v1, w2)
            states = states.view(-1, width) * top_k_weights[token_idx, idx, None]
            next_states.index_add_(0, token_idx, states)
        return next_states.view(batch_size, -1, width)


class DbrxFFN(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.router, self.experts = DbrxRouter(config), DbrxExperts(config)
        self.norm_power, self.top_k = config.norm_power, config.num_experts_per_tok

    def route(self, router_logits):
        router_logits = nn.functional.softmax(router_logits, dim=1, dtype=router_logits.dtype)
        top_value, indices = torch.topk(router_logits, self.top_k, dim=-1)
        if self.norm_power is not None:
            top_value = top_value / torch.norm(top_value, p=self.norm_power, dim=-1, keepdim=True)
        return top_value, indices

    def forward(self, hidden_states):
        router_logits = self.router(hidden_states)
        weights, indices = self.route(router_logits)
        return self.experts(hidden_states, indices, weights)
