"""Experts as grouped products, integrations/moe of transformers 5: tokens sorted by expert, one product for all of them."""
import torch

from transformers.releases import quirks
from transformers.utils.generic import GeneralInterface


@torch.library.custom_op("transformers::grouped_mm_fallback", mutates_args=())
def looped(x, weight, offsets):
    """A product an expert, where the GPU has no grouped ones."""
    out = torch.zeros(x.size(0), weight.size(2), device=x.device, dtype=x.dtype)
    start = 0
    for expert, end in enumerate(offsets.tolist()):
        if start < end:
            torch.mm(x[start:end], weight[expert], out=out[start:end])
        start = end
    return out


@torch.library.custom_op("transformers::grouped_mm_fallback_backward", mutates_args=())
def looped_backward(x, weight, offsets, grad):
    grad_x, grad_weight = torch.zeros_like(x), torch.zeros_like(weight)
    start = 0
    for expert, end in enumerate(offsets.tolist()):
        if start < end:
            torch.mm(grad[start:end], weight[expert].T, out=grad_x[start:end])
            torch.mm(x[start:end].T, grad[start:end], out=grad_weight[expert])
        start = end
    return grad_x, grad_weight


def keep(ctx, inputs, output):
    ctx.save_for_backward(inputs[0], inputs[1])
    ctx.offs = inputs[2]


def backward(ctx, grad):
    x, weight = ctx.saved_tensors
    grad_x, grad_weight = looped_backward(x, weight, ctx.offs, grad)
    return grad_x, grad_weight, None


looped.register_autograd(backward, setup_context=keep)


def grouped_linear(x, weight, offsets, bias=None, is_transposed=False):
    weight = weight if is_transposed else weight.transpose(-2, -1)
    if quirks.experts_fall_back and torch.cuda.get_device_capability() < (8, 0):
        out = looped(x.to(weight.dtype), weight, offsets)
    else:
        out = torch.nn.functional.grouped_mm(x.to(weight.dtype), weight, offs=offsets)
    if bias is not None:
        out.add_(bias)
    return out


def grouped_mm_experts_forward(self, hidden_states, top_k_index, top_k_weights):
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
    first = self.gate_up_proj if self.has_gate else self.up_proj
    bias = getattr(self, "gate_up_proj_bias" if self.has_gate else "up_proj_bias")[experts_sorted] if self.has_bias else None
    out = grouped_linear(rows, first, offsets, bias, self.is_transposed)
    out = self._apply_gate(out) if self.has_gate else self.act_fn(out)
    second = self.down_proj
    bias = self.down_proj_bias[experts_sorted] if self.has_bias else None
    out = grouped_linear(out, second, offsets, bias, self.is_transposed)
    weighted = out * weights_sorted.unsqueeze(-1)
    back = torch.empty_like(order)
    back[order] = torch.arange(order.size(0), device=device)
    weighted = weighted[back]
    summed = weighted.view(tokens, top_k, width).sum(dim=1)
    return summed.to(hidden_states.dtype)


def batched_linear(x, weight, bias=None, is_transposed=False):
    out = torch.bmm(x.unsqueeze(1), weight).squeeze(1) if is_transposed else torch.bmm(weight, x.unsqueeze(-1)).squeeze(-1)
    if bias is not None:
        out.add_(bias)
    return out


def batched_mm_experts_forward(self, hidden_states, top_k_index, top_k_weights):
    """A copy of an expert's weights for each token that it has: of the tokens that generate() makes."""
    top_k, tokens, width = top_k_index.size(-1), hidden_states.size(0), hidden_states.size(-1)
    rows = hidden_states.repeat_interleave(top_k, dim=0)
    weights = top_k_weights.reshape(-1)
    experts = top_k_index.reshape(-1)
    first = (self.gate_up_proj if self.has_gate else self.up_proj)[experts]
    bias = getattr(self, "gate_up_proj_bias" if self.has_gate else "up_proj_bias")[experts] if self.has_bias else None
    out = batched_linear(rows, first, bias, self.is_transposed)
    out = self._apply_gate(out) if self.has_gate else self.act_fn(out)
    first = self.down_proj[experts]
    bias = self.down_proj_bias[experts] if self.has_bias else None
    out = batched_linear(out, first, bias, self.is_transposed)
    weighted = out * weights.unsqueeze(-1)
    summed = weighted.view(tokens, top_k, width).sum(dim=1)
    return summed.to(hidden_states.dtype)


class ExpertsInterface(GeneralInterface):
    _global_mapping = {"grouped_mm": grouped_mm_experts_forward, "batched_mm": batched_mm_experts_forward}


ALL_EXPERTS_FUNCTIONS = ExpertsInterface()
