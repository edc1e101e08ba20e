"""Norms by the root of the mean square, which each decoder has as a class of its own; transformers has no such file."""
import torch
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps

    def forward(self, x):
        dtype = x.dtype
        x = x.to(torch.float32)
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.variance_epsilon)
        return self.weight * x.to(dtype)


class RMSNormCastLast(RMSNorm):
    """Weighted before it is cast back."""

    def forward(self, x):
        dtype = x.dtype
        x = x.to(torch.float32)
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.variance_epsilon)
        return (self.weight * x).to(dtype)


class RMSNormInFloat(RMSNorm):
    """The weight too."""

    def forward(self, x):
        dtype = x.dtype
        x = x.to(torch.float32)
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.variance_epsilon)
        return (self.weight.to(torch.float32) * x).to(dtype)


class RMSNormFromOne(nn.Module):
    """Weights are what one is off; all of it in fp32."""

    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.zeros(dim))

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        y = self._norm(x.float())
        y = y * (1.0 + self.weight.float())
        return y.type_as(x)


class L2Norm(nn.Module):
    """Without a weight."""

    def __init__(self, eps=1e-6):
        super().__init__()
        self.eps = eps

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        return self._norm(x.float()).type_as(x)


class RMSNormSplit(L2Norm):
    """The same, then a weight."""

    def __init__(self, hidden_size, eps=1e-5):
        super().__init__(eps)
        self.weight = nn.Parameter(torch.ones(hidden_size))

    def forward(self, x):
        output = self._norm(x.float()).type_as(x)
        return output * self.weight
