"""torch/distributions/normal.py, over numbers: its two tensors lie on the host, as their checks do."""
import math

import torch
from _script import leave


class Normal:
    def __init__(self, loc, scale, validate_args=None):
        if torch.is_tensor(loc) or torch.is_tensor(scale):
            leave("torch.distributions.Normal() over tensors")
        self.loc, self.scale = torch.tensor(float(loc)), torch.tensor(float(scale))

    def icdf(self, value):
        return self.loc + self.scale * torch.erfinv(2 * value - 1) * math.sqrt(2)
