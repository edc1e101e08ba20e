"""Scans and reductions of ATen that _formulas.py leaves: forward as the kernel, backward as FunctionsManual.cpp and derivatives.yaml."""
from _script import leave
from torch import bfloat16, empty, empty_like, float16, float32, int64, is_autocast_enabled, mean as _mean, _nonzero, zeros
from torch._formulas import _apply, _dims, _Formula, _kept, _reduced, _restored, _several
from torch._return_types import pair


def _sum_type(x, dtype):
    """autocast_mode.h: fp32_set_opt_dtype"""
    return dtype or (float32 if is_autocast_enabled("cuda") and x.dtype in (float16, bfloat16) else x.dtype)


class _CumProd(_Formula):
    """ReduceOps.cpp: of another dtype beside a cast of what it reads; cumprod_backward where nothing is zero"""

    @staticmethod
    def forward(ctx, x, dim, dtype):
        ctx.dim = dim
        ctx.save_for_backward(x)
        y = empty_like(x, dtype=dtype)
        wide = x if x.dtype == dtype else empty_like(x, dtype=dtype)
        del wide
        ctx.save_result(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        grad = grad.to(x.dtype)
        weighed = grad * y
        zero = x == 0
        some = zero.any()
        del some
        turned = weighed.flip(ctx.dim)
        summed = turned.cumsum(ctx.dim)
        summed = summed.flip(ctx.dim)
        del turned
        return summed / x, None, None


def cumprod(input, dim, *, dtype=None):
    return _apply(_CumProd, input, dim % input.dim(), _sum_type(input, dtype))


class _Prod(_Formula):
    """prod_backward where nothing is zero"""

    @staticmethod
    def forward(ctx, x, dims, keepdim, dtype):
        ctx.dims, ctx.keepdim = dims, keepdim
        ctx.save_for_backward(x)
        y = _reduced(x, dims, keepdim, dtype)
        ctx.save_result(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        wide = x.to(grad.dtype)
        if ctx.keepdim is None:
            zero = wide == 0
            places = _nonzero(zero, 0)
            del zero
            share = y / wide
            return grad * share, None, None, None
        grad, y = _restored(grad, ctx.dims, ctx.keepdim), _restored(y, ctx.dims, ctx.keepdim)
        zero = wide == 0
        zeros_in = zero.sum(ctx.dims, True)
        some = zeros_in.sum()
        del some
        share = y / wide
        return grad * share, None, None, None


def prod(input, dim=None, keepdim=False, *, dtype=None):
    return _apply(_Prod, input, _dims(input, dim), None if dim is None else keepdim, _sum_type(input, dtype))


class _Chosen(_Formula):
    """value_selecting_reduction_backward, cummaxmin_backward: zeros of the whole, the gradient put where the value was"""

    @staticmethod
    def forward(ctx, x, sizes, keeps):
        ctx.shape = x.shape
        if keeps:
            ctx.save_for_backward(x)
        values = empty(sizes, dtype=x.dtype, device=x.device)
        places = empty(sizes, dtype=int64, device=x.device)
        ctx.mark_non_differentiable(places)
        ctx.save_for_backward(places)
        return values, places

    @staticmethod
    def backward(ctx, grad, _):
        return zeros(ctx.shape, dtype=grad.dtype, device=grad.device), None, None


def cummax(input, dim):
    return pair(_several(_Chosen, (input,), input, list(input.shape), True))


cummin = cummax


def median(input, dim=None, keepdim=False):
    if dim is None:
        leave("median() of a whole tensor")
    return pair(_several(_Chosen, (input,), input, _kept(input, _dims(input, dim), keepdim), False))


def kthvalue(input, k, dim=-1, keepdim=False):
    return pair(_several(_Chosen, (input,), input, _kept(input, _dims(input, dim), keepdim), False))


class _Moments(_Formula):
    """var_mean_backward, std_mean_backward: the gradient of the mean is added to the other's"""

    @staticmethod
    def forward(ctx, x, dims, keepdim, root):
        ctx.dims, ctx.keepdim, ctx.root = dims, keepdim, root
        ctx.save_for_backward(x)
        first = _reduced(x, dims, keepdim)
        second = _reduced(x, dims, keepdim)
        if root:
            ctx.save_result(first)
        return first, second

    @staticmethod
    def backward(ctx, grad, of_mean):
        x = ctx.saved_tensors[0]
        if ctx.root:
            y = ctx.saved_tensors[1]
            doubled = y * 2
            grad = grad / doubled
            zero = y == 0
            del zero, doubled
        grad, of_mean = _restored(grad, ctx.dims, ctx.keepdim), _restored(of_mean, ctx.dims, ctx.keepdim)
        centre = _mean(x, ctx.dims, True)
        away = x - centre
        scaled = grad * 2.0
        of_x = scaled * away
        del scaled, away, centre, grad
        share = of_mean.expand(x.shape) / 2
        return of_x + share, None, None, None


def var_mean(input, dim=None, unbiased=True, keepdim=False, *, correction=None):
    return _several(_Moments, (input,), input, _dims(input, None if isinstance(dim, bool) else dim), keepdim, False)


def std_mean(input, dim=None, unbiased=True, keepdim=False, *, correction=None):
    return _several(_Moments, (input,), input, _dims(input, None if isinstance(dim, bool) else dim), keepdim, True)


class _AMinMax(_Formula):
    """aminmax_backward: scale_grad_by_count of each"""

    @staticmethod
    def forward(ctx, x, dims, keepdim):
        ctx.dims, ctx.keepdim = dims, keepdim
        ctx.save_for_backward(x)
        low = _reduced(x, dims, keepdim)
        high = _reduced(x, dims, keepdim)
        ctx.save_result(low, high)
        return low, high

    @staticmethod
    def backward(ctx, of_low, of_high):
        x, low, high = ctx.saved_tensors
        mask = _restored(low, ctx.dims, ctx.keepdim) == x
        share = _by_count(_restored(of_low, ctx.dims, ctx.keepdim), mask, ctx.dims)
        mask = None
        mask = _restored(high, ctx.dims, ctx.keepdim) == x
        times = mask.sum(ctx.dims, True)
        part = _restored(of_high, ctx.dims, ctx.keepdim) / times
        other = part * mask
        del part, times
        share += other
        return share, None, None


def _by_count(grad, mask, dims):
    times = mask.sum(dims, True)
    part = grad / times
    return part * mask


def aminmax(input, *, dim=None, keepdim=False):
    return _several(_AMinMax, (input,), input, _dims(input, dim), keepdim)


class _NanSum(_Formula):
    @staticmethod
    def forward(ctx, x, dims, keepdim):
        ctx.dims, ctx.keepdim = dims, keepdim
        ctx.save_for_backward(x)
        return _reduced(x, dims, keepdim)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        grad = _restored(grad, ctx.dims, ctx.keepdim).expand(x.shape)
        missing = x != x
        numbers = missing.logical_not()
        return grad * numbers, None, None


def nansum(input, dim=None, keepdim=False, *, dtype=None):
    return _several(_NanSum, (input,), input, _dims(input, dim), keepdim)
