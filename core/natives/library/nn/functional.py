"""What else torch.nn.functional has can be named, but not used."""
from json import _Refused

import torch
from _script import import_by_name

_FORMULAS = ("nll_loss", "one_hot", "logsigmoid", "glu", "mse_loss", "binary_cross_entropy_with_logits", "group_norm", "hardtanh", "hardsigmoid",
             "cosine_similarity", "smooth_l1_loss", "huber_loss", "l1_loss", "kl_div", "binary_cross_entropy", "margin_ranking_loss", "avg_pool1d", "max_pool1d",
             "adaptive_avg_pool1d", "interpolate", "prelu", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout", "threshold",
             "hardshrink", "softshrink")


def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    denom = input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return input / denom


def softmin(input, dim=None, _stacklevel=3, dtype=None):
    return softmax(-input, dim, dtype=dtype)


def softsign(input):
    return input / (input.abs() + 1)


def tanhshrink(input):
    return input - input.tanh()


def selu(input, inplace=False):
    return elu(input, 1.6732632423543772, inplace)


def celu(input, alpha=1.0, inplace=False):
    return elu(input, alpha, inplace)


def relu_(input):
    return input.relu_()


def elu_(input, alpha=1.0):
    return elu(input, alpha, True)


def leaky_relu_(input, negative_slope=0.01):
    return leaky_relu(input, negative_slope, True)


def hardtanh_(input, min_val=-1.0, max_val=1.0):
    return input.hardtanh_()


threshold_ = hardtanh_


def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    gumbels = -torch.empty_like(logits).exponential_().log()
    gumbels = (logits + gumbels) / tau
    y_soft = gumbels.softmax(dim)
    if hard:
        index = y_soft.max(dim, keepdim=True)[1]
        y_hard = torch.zeros_like(logits).scatter_(dim, index, 1.0)
        ret = y_hard - y_soft.detach() + y_soft
    else:
        ret = y_soft
    return ret


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    if name in _FORMULAS:
        return getattr(import_by_name("torch._formulas"), name)
    return _Refused("torch.nn.functional." + name)
