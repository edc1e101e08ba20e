"""layers/torch.py of einops 0.8.2: the functions as modules, and EinMix, a product with a weight of its own."""
import torch
from einops import _apply, _groups, _letters


class Rearrange(torch.nn.Module):
    def __init__(self, pattern, **axes_lengths):
        super().__init__()
        self.pattern, self.axes_lengths = pattern, axes_lengths

    def forward(self, input):
        return _apply(input, self.pattern, "rearrange", self.axes_lengths)


class Reduce(torch.nn.Module):
    def __init__(self, pattern, reduction, **axes_lengths):
        super().__init__()
        self.pattern, self.reduction, self.axes_lengths = pattern, reduction, axes_lengths

    def forward(self, input):
        return _apply(input, self.pattern, self.reduction, self.axes_lengths)


def _flat(groups):
    return " ".join(axis for group in groups for axis in group)


class EinMix(torch.nn.Module):
    def __init__(self, pattern, weight_shape, bias_shape=None, **axes_lengths):
        super().__init__()
        left, right = pattern.split("->")
        before, after = _groups(left, ["..."]), _groups(right, ["..."])
        self.pre_rearrange = self.post_rearrange = None
        if any(len(group) != 1 for group in before):
            known = {name: n for name, n in axes_lengths.items() if name in _flat(before).split()}
            self.pre_rearrange = Rearrange(f"{left}->{_flat(before)}", **known)
        if any(len(group) != 1 for group in after):
            self.post_rearrange = Rearrange(f"{_flat(after)}->{right}")
        self.weight = torch.nn.Parameter(torch.zeros([axes_lengths[axis] for axis in weight_shape.split()]).uniform_(-1, 1))
        self.bias = None
        if bias_shape is not None:
            named = bias_shape.split()
            sizes = [axes_lengths[axis] if axis in named else 1 for axis in _flat(after).split() if axis != "..."]
            self.bias = torch.nn.Parameter(torch.zeros(sizes).uniform_(-1, 1))
        self.einsum_pattern = _letters(f"{_flat(before)},{weight_shape}->{_flat(after)}")

    def forward(self, input):
        if self.pre_rearrange is not None:
            input = self.pre_rearrange(input)
        result = torch.einsum(self.einsum_pattern, input, self.weight)
        if self.bias is not None:
            result += self.bias
        if self.post_rearrange is not None:
            result = self.post_rearrange(result)
        return result
