"""Losses of torch.nn.functional: Loss.cpp, LossNLL.cpp, and what torch/nn/functional.py makes of several operators."""
from _script import leave
from torch import empty_like, is_autocast_enabled
from torch._formulas import _apply, _Formula, _full, _no_weights, _reduced_loss, _several, xlogy
from torch._switches import strided


class _OfBoth(_Formula):
    """Each argument's gradient from the same saved two, as zeros that are filled"""

    @staticmethod
    def forward(ctx, x, target, reduction, whole):
        ctx.save_for_backward(x, target)
        y = empty_like(x)
        if reduction == "none":
            return y
        if not whole:
            return _reduced_loss(y, reduction)
        loss = empty_like(x)  # the result, whose room stays as wide as it was made, is a number of it: mean_out(result, loss)
        del loss
        return strided(y, [], [])

    @staticmethod
    def backward(ctx, grad):
        x, target = ctx.saved_tensors
        of_x = empty_like(x) if ctx.needs_input_grad[0] else None
        return of_x, empty_like(target) if ctx.needs_input_grad[1] else None, None, None


def _of_both(input, target, reduction, whole):
    target_ = _full(target)  # arguments of C++, from the last
    x = _full(input)
    if x.shape != target_.shape:
        leave("a loss of two shapes")
    return _several(_OfBoth, (x, target_), x, target_, reduction, whole)


def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    _no_weights("mse_loss", size_average, reduce, weight)
    return _of_both(input, target, reduction, True)


def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    _no_weights("smooth_l1_loss", size_average, reduce)
    if beta == 0:
        leave("smooth_l1_loss(beta=0)")
    return _of_both(input, target, reduction, True)


def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    _no_weights("huber_loss", weight)
    return _of_both(input, target, reduction, False)


def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """Loss.cpp: composite"""
    _no_weights("l1_loss", size_average, reduce, weight)
    target_ = _full(target)
    input_ = _full(input)
    apart = input_ - target_
    loss = apart.abs()
    del apart
    return _reduced_loss(loss, reduction)


def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """Loss.cpp: composite"""
    _no_weights("kl_div", size_average, reduce)
    if reduction == "batchmean":
        return _divergence(input, target, "sum", log_target) / input.shape[0]
    return _divergence(input, target, reduction, log_target)


def _divergence(input, target, reduction, log_target):
    target_ = _full(target)
    input_ = _full(input)
    if log_target:
        apart = target_ - input_
        loss = target_.exp() * apart
        del apart
    else:
        product = target_ * input_
        loss = xlogy(target_, target_) - product
        del product
    return _reduced_loss(loss, reduction)


class _BinaryCrossEntropy(_Formula):
    """cuda/Loss.cu: what it is reduced to is copied into the room of the whole"""

    @staticmethod
    def forward(ctx, x, target, reduction):
        ctx.save_for_backward(x, target)
        y = empty_like(x)
        if reduction == "none":
            return y
        reduced = _reduced_loss(y, reduction)
        del reduced
        return strided(y, [], [])

    @staticmethod
    def backward(ctx, grad):
        return empty_like(ctx.saved_tensors[0]), None, None


def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    _no_weights("binary_cross_entropy", weight, size_average, reduce)
    if is_autocast_enabled("cuda"):
        raise RuntimeError("torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.")
    if target.requires_grad:
        leave("binary_cross_entropy() whose target wants a gradient")
    return _apply(_BinaryCrossEntropy, input, target, reduction)


def margin_ranking_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    _no_weights("margin_ranking_loss", size_average, reduce)
    target_, second, first = _full(target), _full(input2), _full(input1)
    apart = first - second
    turned = -target_
    product = turned * apart
    loss = product + margin
    del apart, turned, product
    return _reduced_loss(loss.clamp_(min=0), reduction)
