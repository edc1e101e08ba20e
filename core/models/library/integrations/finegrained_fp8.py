"""Experts in fp8: integrations/finegrained_fp8.py of transformers 5.11 to 5.23 over kernels-community/finegrained-fp8, whose host code makes the output of a
product and nothing else (grouped.py, batched.py): inputs are quantised within the kernel."""
import torch

from transformers.releases import quirks
from triton import multiply

BLOCK = 128


def product(x, weight, rows, experts):
    """A byte a weight of the experts that rows meet, and their scales."""
    out = x.new_empty((rows, weight.size(1)))
    across, along = weight.size(1), weight.size(2)
    multiply(out, rows, along, across, min(rows, experts) * (across * along + 4 * (across // BLOCK) * (along // BLOCK)))
    return out


def of_experts(self, rows, weights, mask):
    """What the experts make of rows, weighted, and before: both forwards hold that to their end."""
    out = product(rows, self.gate_up_proj if self.has_gate else self.up_proj, rows.size(0), self.num_experts)
    out = self._apply_gate(out) if self.has_gate else self.act_fn(out)
    out = product(out, self.down_proj, rows.size(0), self.num_experts)
    weighted = out * weights.to(out.dtype).unsqueeze(-1)
    if mask is not None:
        weighted.masked_fill_(mask, 0.0)
    return out, weighted


def fp8_batched_mm_experts_forward(self, hidden_states, top_k_index, top_k_weights):
    top_k, tokens, width = top_k_index.size(-1), hidden_states.size(0), hidden_states.size(-1)
    rows = hidden_states.repeat_interleave(top_k, dim=0)
    weights = top_k_weights.reshape(-1)
    experts = top_k_index.reshape(-1)
    mask = (experts >= self.num_experts).unsqueeze(-1) if quirks.fp8_experts == 1 else None  # of rows that other ranks' experts have
    out, weighted = of_experts(self, rows, weights, mask)
    summed = weighted.view(tokens, top_k, width).sum(dim=1)
    return summed.to(hidden_states.dtype)


def fp8_grouped_mm_experts_forward(self, hidden_states, top_k_index, top_k_weights):
    device, top_k = hidden_states.device, top_k_index.size(-1)
    tokens, width = hidden_states.size(0), hidden_states.size(-1)
    weights = top_k_weights.reshape(-1)
    experts = top_k_index.reshape(-1)
    experts_sorted, order = torch.sort(experts)
    rows = hidden_states[order // top_k]
    weights_sorted = weights[order]
    counted = experts_sorted.int()
    counts = torch.histc(counted, bins=self.num_experts, min=0, max=self.num_experts - 1)
    offsets = torch.cumsum(counts, dim=0, dtype=torch.int32)
    mask = (experts_sorted >= self.num_experts).unsqueeze(-1) if quirks.fp8_experts == 1 else None
    out, weighted = of_experts(self, rows, weights_sorted, mask)
    back = torch.empty_like(order)
    back[order] = torch.arange(order.size(0), device=device)
    weighted = weighted[back]
    summed = weighted.view(tokens, top_k, width).sum(dim=1)
    return summed.to(hidden_states.dtype)


ALL_FP8_EXPERTS_FUNCTIONS = {"grouped_mm": fp8_grouped_mm_experts_forward, "batched_mm": fp8_batched_mm_experts_forward}
