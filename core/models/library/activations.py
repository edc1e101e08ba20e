"""ACT2FN: an activation module by the name that configs use."""
import math

import torch
from torch import nn


class GELUTanh(nn.Module):
    def forward(self, x):
        return nn.functional.gelu(x, approximate="tanh")


class NewGELUActivation(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class GELUActivation(nn.Module):
    def forward(self, x):
        return nn.functional.gelu(x)


class FastGELUActivation(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(x * 0.7978845608 * (1.0 + 0.044715 * x * x)))


class QuickGELUActivation(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(1.702 * x)


class SiLUActivation(nn.Module):
    def forward(self, x):
        return nn.functional.silu(x)


class ReLUSquaredActivation(nn.Module):
    def forward(self, x):
        relu = nn.functional.relu(x)
        squared = torch.square(relu)
        return squared


class LinearActivation(nn.Module):
    def forward(self, x):
        return x


class GELUPython(nn.Module):
    def forward(self, x):
        return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))


class GELUTanhPython(nn.Module):
    def forward(self, x):
        return x * 0.5 * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class AccurateGELUActivation(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3))))


class XIELUActivation(nn.Module):
    """The one in PyTorch's operators, which runs where the package xielu is not."""

    def __init__(self):
        super().__init__()
        self.alpha_p = nn.Parameter(torch.zeros(1))
        self.alpha_n = nn.Parameter(torch.zeros(1))
        self.register_buffer("beta", torch.zeros(()))
        self.register_buffer("eps", torch.zeros(()))

    def forward(self, x):
        alpha_p = nn.functional.softplus(self.alpha_p)
        alpha_n = self.beta + nn.functional.softplus(self.alpha_n)
        return torch.where(x > 0, alpha_p * x * x + self.beta * x, (torch.expm1(torch.min(x, self.eps)) - x) * alpha_n + self.beta * x)


class LaplaceActivation(nn.Module):
    def forward(self, x, mu=0.707107, sigma=0.282095):
        x = (x - mu).div(sigma * math.sqrt(2.0))
        return 0.5 * (1.0 + torch.erf(x))


class ClippedGELUActivation(nn.Module):
    def forward(self, x):
        return torch.clamp(nn.functional.gelu(x), -10, 10)


class SqrtSoftplusActivation(nn.Module):
    def forward(self, x):
        return nn.functional.softplus(x).sqrt()


class Activations(dict):
    def __getitem__(self, name):
        if name not in self:
            raise ValueError(f"the activation '{name}' is not modelled; known are " + ", ".join(self.keys()))
        return super().__getitem__(name)()


class GeLUFunction(torch.autograd.Function):
    """Of modeling_bloom.py: a backward of its own, which keeps the input alone."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 0.5 * (1.0 + torch.tanh(0.79788456 * x * (1 + 0.044715 * x * x)))

    @staticmethod
    def backward(ctx, grad_output):
        x = ctx.saved_tensors[0]
        tanh_out = torch.tanh(0.79788456 * x * (1 + 0.044715 * x * x))
        slope = 0.5 * x * ((1 - tanh_out * tanh_out) * (0.79788456 + 0.1070322243 * x * x)) + 0.5 * (1 + tanh_out)
        return slope * grad_output


class BloomGelu(nn.Module):
    def forward(self, x):
        return GeLUFunction.apply(x)


ACT2FN = Activations(
    gelu=GELUActivation, gelu_10=ClippedGELUActivation, gelu_accurate=AccurateGELUActivation, gelu_fast=FastGELUActivation, gelu_new=NewGELUActivation, gelu_python=GELUPython,
    gelu_python_tanh=GELUTanhPython, gelu_pytorch_tanh=GELUTanh, hardswish=nn.Hardswish, laplace=LaplaceActivation, leaky_relu=nn.LeakyReLU,
    linear=LinearActivation, mish=nn.Mish,
    quick_gelu=QuickGELUActivation, relu=nn.ReLU, relu2=ReLUSquaredActivation, relu6=nn.ReLU6, sigmoid=nn.Sigmoid, silu=SiLUActivation,
    sqrtsoftplus=SqrtSoftplusActivation,
    swish=nn.SiLU, tanh=nn.Tanh, xielu=XIELUActivation,
)


def get_activation(name):
    return ACT2FN[name]
