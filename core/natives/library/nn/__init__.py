"""What else torch.nn has can be named, but not used."""
from json import _Refused

import torch
from _script import import_by_name, leave


_MORE = ("AvgPool1d", "AvgPool2d", "MaxPool1d", "MaxPool2d", "AdaptiveAvgPool1d", "AdaptiveAvgPool2d",
         "GroupNorm", "MultiheadAttention", "Transformer", "TransformerEncoderLayer", "ParameterList",
         "ParameterDict", "Softplus", "LogSoftmax", "ELU", "GLU", "LogSigmoid", "Mish", "Softsign",
         "Flatten", "Unflatten", "CosineSimilarity", "ZeroPad1d", "ConstantPad1d", "MSELoss", "BCEWithLogitsLoss", "TransformerEncoder", "Hardtanh",
         "Hardsigmoid", "SELU", "CELU", "Tanhshrink", "Softmin", "L1Loss", "NLLLoss", "Upsample", "PReLU", "Threshold", "Hardshrink", "Softshrink", "Dropout1d",
         "Dropout2d", "AlphaDropout", "ReflectionPad1d", "ReplicationPad1d", "SmoothL1Loss", "HuberLoss", "KLDivLoss", "BCELoss",
         "MarginRankingLoss", "RNNCell", "GRUCell", "LSTMCell")


class RMSNorm(Module):
    def __init__(self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None):
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        if elementwise_affine:
            self.weight = Parameter(torch.empty(self.normalized_shape))
        else:
            self.register_parameter("weight", None)

    def forward(self, x):
        return torch.nn.functional.rms_norm(x, self.normalized_shape, self.weight, self.eps)


class Conv1d(Module):
    """conv.py _ConvNd"""

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, padding_mode="zeros",
                 device=None, dtype=None):
        super().__init__()
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride, self.dilation = [(n,) if isinstance(n, int) else tuple(n) for n in (kernel_size, stride, dilation)]
        self.padding = (padding,) if isinstance(padding, int) else padding
        self.padding_mode = padding_mode
        self.weight = Parameter(torch.empty((out_channels, in_channels // groups, *self.kernel_size)))
        if bias:
            self.bias = Parameter(torch.empty((out_channels,)))
        else:
            self.register_parameter("bias", None)

    def forward(self, input):
        return torch.nn.functional.conv1d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class _ConvNd(Module):
    """Convolutions that are cuDNN's: their parameters; a forward through them is not modelled."""

    dims, transposed = 2, False

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, *rest, dilation=1, groups=1, bias=True, padding_mode="zeros",
                 output_padding=0, device=None, dtype=None):
        super().__init__()
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = (kernel_size,) * self.dims if isinstance(kernel_size, int) else tuple(kernel_size)
        self.stride, self.padding = stride, padding
        a, b = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        if rest or len(self.kernel_size) > 3:
            leave(f"torch.nn.{type(self).__name__}() of these arguments")
        self.weight = Parameter(torch.empty((a, b // groups, *self.kernel_size)))
        if bias:
            self.bias = Parameter(torch.empty((out_channels,)))
        else:
            self.register_parameter("bias", None)

    def forward(self, input):
        leave(f"a forward through torch.nn.{type(self).__name__}")


class Conv2d(_ConvNd):
    pass


class Conv3d(_ConvNd):
    dims = 3


class ConvTranspose1d(_ConvNd):
    dims, transposed = 1, True


class ConvTranspose2d(_ConvNd):
    transposed = True


class ZeroPad2d(Module):
    def __init__(self, padding):
        super().__init__()
        self.padding = padding

    def forward(self, input):
        return torch.nn.functional.pad(input, self.padding)


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    if name in ("init", "functional", "utils", "attention", "parameter", "modules"):
        return import_by_name("torch.nn." + name)
    if name in _MORE:
        return getattr(import_by_name("torch.nn._more"), name)
    return _Refused("torch.nn." + name)
