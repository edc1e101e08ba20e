"""Operators of ATen that are written down here: forward makes what the kernel makes, backward what FunctionsManual.cpp and derivatives.yaml say.

A name lives in backward as long as a temporary of its C++ expression does.
"""
import math

from _script import import_by_name, leave
from torch import _half, _nonzero, bfloat16, bool as truth, broadcast_tensors, empty, empty_like, flip as _flip, float16, float32, int64, uint8
from torch import cat, is_autocast_enabled, is_tensor, mean as _mean, roll as _roll
from torch import tril as _tril, triu as _triu, where, zeros
from torch._return_types import pair
from torch._switches import alike, compares_first, cublas_workspace, group_norm_lays_within, group_norm_wide_means, rms_norm_weighs_wide
from torch._switches import rms_norm_widens, true_count
from torch.autograd import Function


def _full(x):
    """autocast_mode.h: fp32"""
    return x.float() if is_autocast_enabled("cuda") and x.dtype in (float16, bfloat16) else x


def _apply(formula, x, *args):
    return formula.apply(x, *args) if x.requires_grad and x.is_cuda else formula.forward(_NOTHING, x, *args)


class _Formula(Function):
    _saves_first = True


class _Nothing:
    """Stands for the context where no gradient is wanted."""

    def save_for_backward(self, *tensors):
        pass

    save_result = mark_non_differentiable = save_for_backward


_NOTHING = _Nothing()


def _dims(x, dim):
    n = x.dim()
    if dim is None:
        return list(range(n))
    return sorted([d % n for d in dim]) if isinstance(dim, (list, tuple)) else [dim % n]


def _restored(t, dims, keepdim):
    if not keepdim:
        for d in dims:
            t = t.unsqueeze(d)
    return t


def _reduced(x, dims, keepdim, dtype=None):
    return empty([n for i, n in enumerate(_kept(x, dims, keepdim))], dtype=dtype or x.dtype, device=x.device)


def _kept(x, dims, keepdim):
    return [1 if i in dims else n for i, n in enumerate(x.shape) if keepdim or i not in dims]


# -------------------------------------------------------------------------------------------------------------- one by one
class _Log1p(_Formula):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return empty_like(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        more = x + 1
        return grad / more


class _Expm1(_Formula):
    @staticmethod
    def forward(ctx, x):
        y = empty_like(x)
        ctx.save_result(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        more = y + 1
        return grad * more


class _Exp2(_Formula):
    @staticmethod
    def forward(ctx, x):
        y = empty_like(x)
        ctx.save_result(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        product = grad * y
        return product * math.log(2)


class _Erfinv(_Formula):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return empty_like(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        again = empty_like(x)
        squared = again**2
        grown = squared.exp()
        scaled = grown * (math.sqrt(math.pi) / 2)
        return scaled * grad


class _PowScalar(_Formula):
    """pow_backward_exponent"""

    @staticmethod
    def forward(ctx, exponent, base):
        ctx.save_for_backward(exponent)
        y = empty_like(exponent)
        wrapped = empty([], dtype=int64, device=exponent.device)  # wrapped_scalar_tensor()
        del wrapped
        ctx.save_result(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        exponent, y = ctx.saved_tensors
        scaled = y * 2.0
        return grad * scaled, None


class _PowTensors(_Formula):
    """pow_backward_self, pow_backward_exponent: arguments of where() from the last"""

    @staticmethod
    def forward(ctx, x, exponent):
        ctx.save_for_backward(exponent, x)
        y = alike(None, x, exponent)
        ctx.save_result(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        exponent, x, y = ctx.saved_tensors
        of_x = of_exponent = None
        if ctx.needs_input_grad[1]:
            rises = exponent >= 0
            at_zero = x == 0
            both = at_zero.logical_and(rises)
            del at_zero, rises
            laid = x.log()
            scaled = y * laid
            nothing = zeros([], dtype=grad.dtype, device=grad.device)
            chosen = where(both, nothing, scaled)
            of_exponent = grad * chosen
            del laid, scaled, nothing, both, chosen
        if ctx.needs_input_grad[0]:
            less = exponent - 1
            powered = x**less
            scaled = exponent * powered
            share = grad * scaled
            nothing = zeros([], dtype=grad.dtype, device=grad.device)
            none = exponent == 0.0
            of_x = where(none, nothing, share)
        return of_x, of_exponent


def pow_of_tensors(x, exponent):
    exponent_ = _full(exponent)  # arguments of C++, from the last
    return _several(_PowTensors, (x, exponent), _full(x), exponent_)


class _LogOf(_Formula):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return empty_like(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        scaled = x * 2.0
        return grad / scaled


class _Reciprocal(_Formula):
    @staticmethod
    def forward(ctx, x):
        y = empty_like(x)
        ctx.save_result(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        squared = y * y
        negative = -grad
        return negative * squared


class _Abs(_Formula):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return empty_like(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        sign = empty_like(x)
        return grad * sign


class _Sin(_Formula):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return empty_like(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        cosine = empty_like(x)
        return grad * cosine


class _Cos(_Formula):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return empty_like(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        sine = empty_like(x)
        negative = -sine
        return grad * negative


class _Step(_Formula):
    """round, floor, sign: a gradient of zeros"""

    @staticmethod
    def forward(ctx, x):
        return empty_like(x)

    @staticmethod
    def backward(ctx, grad):
        return empty_like(grad)


class _Tan(_Formula):
    @staticmethod
    def forward(ctx, x):
        y = empty_like(x)
        ctx.save_result(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        squared = y**2
        more = squared + 1
        return grad * more


class _Atan(_Formula):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return empty_like(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        squared = x * x
        more = squared + 1
        return grad / more


class _Asin(_Formula):
    """(-self * self + 1).rsqrt()"""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return empty_like(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        negative = -x
        squared = negative * x
        more = squared + 1
        root = more.rsqrt()
        return grad * root


class _Erfc(_Formula):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return empty_like(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        squared = x**2
        negative = -squared
        bell = negative.exp()
        scaled = bell * (-2 / math.sqrt(math.pi))
        return scaled * grad


class _Passes(_Formula):
    """remainder, fmod by a number, frac: the gradient as it came"""

    @staticmethod
    def forward(ctx, x):
        return empty_like(x)

    @staticmethod
    def backward(ctx, grad):
        return grad


class _Atan2(_Formula):
    @staticmethod
    def forward(ctx, x, other):
        ctx.save_for_backward(other, x)
        return alike(None, x, other)

    @staticmethod
    def backward(ctx, grad):
        other, x = ctx.saved_tensors
        squared = x * x
        squared_ = other * other
        total = squared_ + squared
        del squared, squared_
        part = total.reciprocal()
        zero = total == 0
        del zero
        of_x = of_other = None
        if ctx.needs_input_grad[0]:
            scaled = other * part
            of_x = grad * scaled
        if ctx.needs_input_grad[1]:
            negative = -x
            product = negative * part
            of_other = grad * product
        return of_x, of_other


class _LogSigmoid(_Formula):
    """log_sigmoid_forward: the buffer is empty on CUDA"""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return empty_like(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return empty_like(grad)


class _Glu(_Formula):
    @staticmethod
    def forward(ctx, x, dim):
        ctx.save_for_backward(x)
        ctx.dim = dim
        return empty_like(x.chunk(2, dim)[0])

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return empty(x.shape, dtype=x.dtype, device=x.device), None


def log1p(x):
    return _apply(_Log1p, _full(x))


def expm1(x):
    return _apply(_Expm1, _full(x))


def exp2(x):
    return _apply(_Exp2, x)


def erfinv(x):
    return _apply(_Erfinv, x)


def log2(x):
    return _apply(_LogOf, _full(x))


log10 = log2


def reciprocal(x):
    return _apply(_Reciprocal, _full(x))


def abs(x):
    return _apply(_Abs, x)


def sin(x):
    return _apply(_Sin, x)


def cos(x):
    return _apply(_Cos, x)


def tan(x):
    return _apply(_Tan, _full(x))


def atan(x):
    return _apply(_Atan, x)


arctan = atan


def asin(x):
    return _apply(_Asin, _full(x))


acos = arcsin = arccos = asin


def sinh(x):
    return _apply(_Sin, _full(x))


cosh = sinh


def erfc(x):
    return _apply(_Erfc, x)


def frac(x):
    return _apply(_Passes, x)


def remainder(x, other):
    if is_tensor(other) and other.dim() or not is_tensor(x):
        leave("remainder() but by a number")
    return _apply(_Passes, x)


fmod = remainder


def atan2(x, other):
    x, other = _widest(x, other)
    return _several(_Atan2, (x, other), x, other)


arctan2 = atan2


class _NanToNum(_Formula):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return empty_like(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        finite = x.isfinite()
        return grad * finite


def nan_to_num(x, nan=None, posinf=None, neginf=None):
    return _apply(_NanToNum, x)


class _Mv(_Formula):
    """Blas.cpp mv(): addmv_ onto an empty result; cuBLAS's gemv"""

    @staticmethod
    def forward(ctx, x, vec):
        ctx.save_for_backward(x if vec.requires_grad else None, vec if x.requires_grad else None)
        return _mv(x, vec)

    @staticmethod
    def backward(ctx, grad):
        x, vec = ctx.saved_tensors
        of_x = grad.unsqueeze(1) * vec if ctx.needs_input_grad[0] else None
        return of_x, _mv(x.t(), grad) if ctx.needs_input_grad[1] else None


def _mv(x, vec):
    made = empty([x.shape[0]], dtype=x.dtype, device=x.device)
    if x.is_cuda:
        cublas_workspace()
    return made


def mv(x, vec):
    """LinearAlgebra.cpp matmul(): where the second has one dimension, the first is folded to rows, or the product is one of batches"""
    if x.shape[-1] != vec.shape[0]:
        raise RuntimeError(f"size mismatch, got input ({x.numel() // x.shape[-1]}), mat ({x.numel() // x.shape[-1]}x{x.shape[-1]}), vec ({vec.shape[0]})")
    vec = _half(vec)
    rows = _half(x)
    if rows.dim() > 2 and not vec.requires_grad and not _folds(rows):
        column = vec.expand(*rows.shape[:-2], vec.shape[0]).reshape(-1, vec.shape[0]).unsqueeze(2)
        return (rows.reshape(-1, *rows.shape[-2:]) @ column).squeeze(-1).view(rows.shape[:-1])
    return _several(_Mv, (x, vec), rows.reshape(-1, rows.shape[-1]), vec).view(rows.shape[:-1])


def _folds(x):
    """LinearAlgebra.cpp should_fold(): its rows lie one after the other"""
    size, stride = x.shape, x.stride()
    return all(stride[i] == stride[i + 1] * size[i + 1] for i in range(x.dim() - 2))


def vector_first(vec, x):
    """LinearAlgebra.cpp matmul(): the first is a row, or the second is folded to rows, turned, or the product is one of batches"""
    if vec.shape[0] != x.shape[-2]:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied (1x{vec.shape[0]} and {x.shape[-2]}x{x.shape[-1]})")
    x, vec = _half(x), _half(vec)  # arguments of C++, from the last
    if x.dim() == 2:
        return (vec.unsqueeze(0) @ x).squeeze(0)
    if vec.requires_grad or _folds(x.transpose(-1, -2)):
        return mv(x.transpose(-1, -2), vec)
    rows, (m, p) = x.shape[:-2], x.shape[-2:]
    batch = math.prod(rows)
    return (vec.expand(batch, 1, m) @ x.reshape(batch, m, p)).view(*rows, p)


def round(x, *, decimals=0):
    return _apply(_Step, x)


def floor(x):
    return _apply(_Step, x)


ceil = trunc = sign = sgn = floor


def over(number, x):
    """torch/_tensor.py __rtruediv__"""
    return reciprocal(x) * number


def pow_of_number(base, x):
    return _apply(_PowScalar, _full(x), base)


def logsigmoid(x):
    return _apply(_LogSigmoid, x)


def glu(x, dim=-1):
    return _apply(_Glu, x, dim)


class _LogitsLoss(_Formula):
    """Loss.cpp binary_cross_entropy_with_logits; FunctionsManual.cpp binary_cross_entropy_with_logits_backward: in place but for what pos_weight spreads"""

    @staticmethod
    def forward(ctx, x, target, weight, pos_weight, reduction):
        ctx.save_for_backward(x, target, weight, pos_weight)
        log_sigmoid = logsigmoid(x.detach())
        if pos_weight is not None:
            less = pos_weight - 1
            log_weight = less * target
            del less, log_weight
        loss = empty_like(target)
        return _reduced_loss(loss, reduction)

    @staticmethod
    def backward(ctx, grad):
        x, target, weight, pos_weight = ctx.saved_tensors
        if pos_weight is None:
            return x.sigmoid(), None, None, None, None
        positive = pos_weight * target
        share = positive + 1
        chance = x.sigmoid()
        del chance
        return share, None, None, None, None


def _reduced_loss(loss, reduction):
    return loss if reduction == "none" else _mean(loss) if reduction == "mean" else loss.sum()


def _no_weights(name, *weights):
    if any(weight is not None for weight in weights):
        leave(name + "() with weights, or a reduction of before 1.0")


def binary_cross_entropy_with_logits(input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None):
    _no_weights("binary_cross_entropy_with_logits", size_average, reduce)
    if target.requires_grad:
        leave("binary_cross_entropy_with_logits() whose target wants a gradient")
    pos_weight_, weight_ = [None if t is None else _full(t) for t in (pos_weight, weight)]  # arguments of C++, from the last
    target_ = _full(target)
    return _apply(_LogitsLoss, _full(input), target_, weight_, pos_weight_, reduction)


def rms_norm(input, weight):
    """layer_norm.cpp rms_norm, rms_norm_composite: of several operators; what lives in an expression dies at its end, from the last"""
    if rms_norm_widens():
        wide = input.to(float32)
        squared = wide**2
        mean = squared.mean(-1, keepdim=True).add_(1e-5)
        root = mean.rsqrt()
        del mean, squared
        made = wide * root
        if not rms_norm_weighs_wide():
            made = made.to(input.dtype)
            del root, wide
            return made if weight is None else made * weight
        made = made if weight is None else made * weight
        del root, wide
        return made.to(input.dtype)
    squared = input**2
    mean = squared.mean(-1, keepdim=True).add_(1e-5)
    root = mean.rsqrt()
    made = input * root
    del root, mean, squared
    return made if weight is None else made * weight


class _NllLoss(_Formula):
    """NLLLoss.cu, NLLLoss2d.cu: beside what it is, what it is divided by"""

    @staticmethod
    def forward(ctx, logp, target, reduction):
        ctx.save_for_backward(logp, target)
        sizes, kind = target.shape if reduction == "none" else [], {"dtype": logp.dtype, "device": logp.device}
        if logp.dim() == 2:
            loss = empty(sizes, **kind)
            total = empty([], **kind)
        else:
            total = empty([], **kind)
            loss = empty(sizes, **kind)
        ctx.save_for_backward(total)
        return loss

    @staticmethod
    def backward(ctx, grad):
        return empty_like(ctx.saved_tensors[0]), None, None


def _nll_loss_nd(logp, target, reduction):
    if logp.dim() == 2:
        return _apply(_NllLoss, _full(logp), target, reduction)
    rows, classes, *sizes = logp.shape
    loss = _apply(_NllLoss, _full(logp.reshape(rows, classes, 1, -1)), target.reshape(rows, 1, -1), reduction)
    return loss.view(rows, *sizes) if reduction == "none" else loss


def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    _no_weights("nll_loss", weight, size_average, reduce)
    return _nll_loss_nd(input, target, reduction)


def diff(input, n, dim, prepend, append):
    """ReduceOps.cpp diff_helper(): joined, then each order a difference of two views"""
    if prepend is not None or append is not None:
        input = cat([t for t in (prepend, input, append) if t is not None], dim)
    result = input
    for _ in range(n):
        rest = result.shape[dim] - 1
        before = result.narrow(dim, 0, rest)  # C++ has the last argument first
        result = result.narrow(dim, 1, rest) - before
    return result


def _cross_entropy_of_probabilities(input, target, reduction, label_smoothing):
    """LossNLL.cpp cross_entropy_loss_prob_target: what C++ makes in one line lives until its end, and dies from the last to the first"""
    classes, at = (input.shape[0], 0) if input.dim() == 1 else (input.shape[1], 1)
    logp = input.log_softmax(at, dtype=input.dtype)
    if label_smoothing:
        target = target * (1 - label_smoothing) + label_smoothing / classes
    product = logp * target
    total = product.sum(at) if reduction == "none" else product.sum()
    loss = result = -total
    if reduction == "mean":
        result = loss / (input.numel() / classes)
    del loss, total, product, target, logp
    return result


def cross_entropy(input, target, ignore_index, reduction, label_smoothing):
    """LossNLL.cpp cross_entropy_loss, cross_entropy_loss_label_smoothing"""
    if target.is_floating_point() and target.shape == input.shape:
        return _cross_entropy_of_probabilities(input, target, reduction, label_smoothing)
    if target.dtype != int64 or input.dim() != target.dim() + 1 or input.dim() not in (2, 3):
        leave("cross_entropy() but of [rows, classes] or [rows, classes, tokens] and the numbers of classes")
    logp = input.log_softmax(1, dtype=input.dtype)
    loss = _nll_loss_nd(logp, target, reduction)
    if not label_smoothing:
        return loss
    smooth = -logp.sum(1)
    ignored = target == ignore_index
    smooth.masked_fill_(ignored, 0.0)
    mean = smooth
    if reduction == "mean":
        kept = ~ignored
        count = kept.sum()
        total = smooth.sum()
        mean = total / count
        del total, count, kept
    elif reduction == "sum":
        mean = smooth.sum()
    share = mean * (label_smoothing / input.shape[1])
    return loss * (1.0 - label_smoothing) + share


class _GroupNorm(_Formula):
    """cuda/group_norm_kernel.cu GroupNormKernelImplInternal, GroupNormBackwardKernelImplInternal"""

    @staticmethod
    def forward(ctx, x, groups, weight, bias):
        ctx.groups, ctx.affine = groups, weight is not None
        ctx.save_for_backward(x, weight)
        y = _contiguous_like(x)
        mean = empty([x.shape[0], groups], dtype=x.dtype, device=x.device)
        rstd = empty_like(mean)
        laid = x.contiguous()
        if x.dtype != float32 and group_norm_wide_means():
            means = empty_like(mean, dtype=float32)
            rstds = empty_like(means)
        if ctx.affine and x.dim() > 2:
            a = empty(x.shape[:2], dtype=float32, device=x.device)
            b = empty_like(a)
        ctx.save_for_backward(mean, rstd)
        return y

    @staticmethod
    def backward(ctx, grad):
        x, weight, mean, rstd = ctx.saved_tensors
        grad = grad.contiguous()
        x = x.contiguous()
        of_x = empty_like(x) if ctx.needs_input_grad[0] else None
        of_weight = empty_like(weight) if ctx.needs_input_grad[2] else None
        of_bias = empty_like(weight) if ctx.needs_input_grad[3] else None
        if x.dim() > 2 or not group_norm_lays_within():
            of_both = empty(x.shape[:2], dtype=float32, device=x.device)
            of_bias_too = empty_like(of_both)
        if of_x is not None:
            second = empty_like(mean, dtype=float32)
            third = empty_like(second)
            first = empty_like(of_both) if ctx.affine and x.dim() > 2 else None
        return of_x, None, of_weight, of_bias


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    if input.shape[1] % num_groups:
        raise RuntimeError("Expected number of channels in input to be divisible by num_groups")
    if not group_norm_lays_within():
        laid = _full(input).contiguous()
        return _several(_GroupNorm, (input, weight, bias), laid, num_groups, weight, bias)
    return _several(_GroupNorm, (input, weight, bias), _full(input), num_groups, weight, bias)


# --------------------------------------------------------------------------------------------------------------- reductions
class _SumTo(_Formula):
    """ReduceOps.cpp make_reduction: halves are summed to fp32 without a cast; validate_outputs() casts what the expanded gradient is"""

    @staticmethod
    def forward(ctx, x, dim, dtype):
        ctx.dim, ctx.shape, ctx.dtype = dim, x.shape, x.dtype
        return _reduced(x, [dim], False, dtype)

    @staticmethod
    def backward(ctx, grad):
        return grad.unsqueeze(ctx.dim).expand(ctx.shape).to(ctx.dtype), None, None


def sum_to(x, dim, dtype):
    """x.sum(dim, dtype=dtype)"""
    return _apply(_SumTo, x, dim, dtype) if x.dtype != dtype else x.sum(dim=dim)


class _Var(_Formula):
    """var_backward, std_backward"""

    @staticmethod
    def forward(ctx, x, dims, keepdim, root):
        ctx.dims, ctx.keepdim, ctx.root = dims, keepdim, root
        ctx.save_for_backward(x)
        y = _mean(x, dims, keepdim)
        if root:
            ctx.save_result(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        x = ctx.saved_tensors[0]
        divided = None
        if ctx.root:
            y = ctx.saved_tensors[1]
            doubled = y * 2
            divided = grad = grad / doubled
            zero = y == 0
            del doubled, zero
        grad = _restored(grad, ctx.dims, ctx.keepdim)
        centre = _mean(x, ctx.dims, True)
        away = x - centre
        scaled = grad * 2.0
        return scaled * away, None, None, None


def var(x, dim=None, unbiased=True, keepdim=False, *, correction=None):
    if isinstance(dim, bool):
        dim = None
    return _apply(_Var, x, _dims(x, dim), keepdim, False)


def std(x, dim=None, unbiased=True, keepdim=False, *, correction=None):
    if isinstance(dim, bool):
        dim = None
    return _apply(_Var, x, _dims(x, dim), keepdim, True)


class _Norm(_Formula):
    """linalg_vector_norm_backward of 2"""

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
        grad = _restored(grad, ctx.dims, ctx.keepdim)
        y = _restored(y, ctx.dims, ctx.keepdim)
        share = x / y
        zero = y == 0
        made = grad * share
        del share, zero
        return made.to(x.dtype), None, None, None


class _NormOf1(_Norm):
    @staticmethod
    def backward(ctx, grad):
        x = ctx.saved_tensors[0]
        grad = _restored(grad, ctx.dims, ctx.keepdim)
        sign = empty_like(x)
        return sign * grad, None, None, None


class _NormOfHighest(_Norm):
    """of inf and -inf: shared among those that are as high"""

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        grad, y = _restored(grad, ctx.dims, ctx.keepdim), _restored(y, ctx.dims, ctx.keepdim)
        size = x.abs()
        there = size == y
        wrong = size != size
        mask = there.logical_or(wrong)
        del there, wrong
        times = mask.sum(ctx.dims, True)
        part = grad / times
        share = part * mask
        sign = empty_like(x)
        return sign * share, None, None, None


class _NormOfP(_Norm):
    """of more than 2"""

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        grad, y = _restored(grad, ctx.dims, ctx.keepdim), _restored(y, ctx.dims, ctx.keepdim)
        size = x.abs()
        powered = x * size
        del size
        high = empty_like(y)
        scale = grad / high
        del high
        zero = y == 0
        del zero
        return powered * scale, None, None, None


def vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None):
    dtype = dtype or (float32 if is_autocast_enabled("cuda") else x.dtype)
    if ord not in (1, 2, 3, math.inf, -math.inf):
        leave(f"a norm of {ord}")
    return _apply(_Norm if ord == 2 else _NormOf1 if ord == 1 else _NormOfP if ord == 3 else _NormOfHighest, x, _dims(x, dim), keepdim, dtype)


def norm(input, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    return vector_norm(input, 2 if p in ("fro", None) else p, dim, keepdim, dtype=dtype)


class _LogSumExp(_Formula):
    """ReduceOps.cpp logsumexp_out_impl, logsumexp_backward"""

    @staticmethod
    def forward(ctx, x, dims, keepdim):
        ctx.dims, ctx.keepdim = dims, keepdim
        ctx.save_for_backward(x)
        highest = _reduced(x, dims, True)
        sizes = empty_like(highest)
        infinite = sizes == 0
        del sizes, infinite
        apart = x - highest
        y = _reduced(x, dims, keepdim)
        ctx.save_result(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        grad = _restored(grad, ctx.dims, ctx.keepdim)
        y = _restored(y, ctx.dims, ctx.keepdim)
        apart = x - y
        shares = apart.exp()
        return grad * shares, None, None


def logsumexp(x, dim, keepdim=False):
    return _apply(_LogSumExp, _full(x), _dims(x, dim), keepdim)


class _LogCumSumExp(_Formula):
    """logcumsumexp_backward: the gradient's parts above and below zero, each summed from the end"""

    @staticmethod
    def forward(ctx, x, dim):
        ctx.dim = dim
        ctx.save_for_backward(x)
        y = empty_like(x)
        ctx.save_result(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        dim = ctx.dim
        lowest = empty([], dtype=grad.dtype, device=grad.device)
        size = grad.abs().log()
        above = where(grad > 0, size, lowest)
        below = where(grad < 0, size, lowest)
        first = _grown(above, x, y, dim)
        second = _grown(below, x, y, dim)
        return first - second, None


def _summed_from_end(x, dim):
    turned = _flip(x, [dim])
    summed = empty_like(turned)
    return _flip(summed, [dim])


def _grown(part, x, y, dim):
    apart = part - y
    summed = _summed_from_end(apart, dim)
    more = summed + x
    return more.exp()


def logcumsumexp(input, dim):
    return _apply(_LogCumSumExp, input, dim % input.dim())


class _XLogY(_Formula):
    @staticmethod
    def forward(ctx, x, other):
        ctx.save_for_backward(other, x)
        return alike(None, x, other)

    @staticmethod
    def backward(ctx, grad):
        other, x = ctx.saved_tensors
        of_x = of_other = None
        if ctx.needs_input_grad[1]:
            scaled = grad * x
            of_other = scaled / other
            scaled = None
        if ctx.needs_input_grad[0]:
            product = alike(None, grad, other)
            below = other <= 0
            zero = x == 0
            both = zero & below
            of_x = product.masked_fill(both, 0)
        return of_x, of_other


def xlogy(input, other):
    return _several(_XLogY, (input, other), input, other)


class _LogAddExp(_Formula):
    @staticmethod
    def forward(ctx, x, other):
        ctx.save_for_backward(other, x)
        return empty([*broadcast_tensors(x, other)[0].shape], dtype=x.dtype, device=x.device)

    @staticmethod
    def backward(ctx, grad):
        other, x = ctx.saved_tensors
        of_other = _share_beside(grad, x, other) if ctx.needs_input_grad[1] else None
        return _share_beside(grad, other, x) if ctx.needs_input_grad[0] else None, of_other


def _share_beside(grad, other, x):
    apart = other - x
    grown = apart.exp()
    more = 1 + grown
    return grad / more


def logaddexp(input, other):
    return _several(_LogAddExp, (input, other), input, other)


class _HardTanh(_Formula):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return empty_like(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return empty_like(grad)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    return input.hardtanh_() if inplace else _apply(_HardTanh, input)


def hardsigmoid(input, inplace=False):
    return input.hardtanh_() if inplace else _apply(_HardTanh, input)


def threshold(input, threshold, value, inplace=False):
    return input.hardtanh_() if inplace else _apply(_HardTanh, input)


def hardshrink(input, lambd=0.5):
    return _apply(_HardTanh, input)


softshrink = hardshrink


def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    """Distance.cpp: the norms are copied, and kept from 0 where they stand"""
    x1, x2 = _full(x1), _full(x2)
    if x1.shape != x2.shape:
        x1, x2 = broadcast_tensors(x1, x2)
    norm1 = vector_norm(x1, 2, dim, True).clone()
    norm2 = vector_norm(x2, 2, dim, True).clone()
    least = empty([], dtype=float32, device=x1.device)
    second = x2 / norm2  # one expression: the last argument comes first, and all live to its end
    first = x1 / norm1
    product = first * second
    return product.sum(dim)


class _SumIn(_Formula):
    """sum(dtype=): the kernel casts as it reads; the engine casts the gradient back"""

    @staticmethod
    def forward(ctx, x, dims, keepdim, dtype):
        ctx.dims, ctx.keepdim, ctx.shape, ctx.dtype = dims, keepdim, x.shape, x.dtype
        return _reduced(x, dims, keepdim, dtype)

    @staticmethod
    def backward(ctx, grad):
        return _restored(grad, ctx.dims, ctx.keepdim).expand(ctx.shape).to(ctx.dtype), None, None, None


def sum_in(x, dim, keepdim, dtype):
    return _several(_SumIn, (x,), x, _dims(x, dim), keepdim, dtype)


class _Amax(_Formula):
    """scale_grad_by_count"""

    @staticmethod
    def forward(ctx, x, dims, keepdim):
        ctx.dims, ctx.keepdim = dims, keepdim
        ctx.save_for_backward(x)
        y = _reduced(x, dims, keepdim)
        ctx.save_result(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        mask = _restored(y, ctx.dims, ctx.keepdim) == x
        times = mask.sum(ctx.dims, True)
        share = _restored(grad, ctx.dims, ctx.keepdim) / times
        return share * mask, None, None


def amax(x, dim=None, keepdim=False):
    return _apply(_Amax, x, _dims(x, dim), keepdim)


amin = amax


def argmax(x, dim=None, keepdim=False):
    return _reduced(x, _dims(x, dim), keepdim and dim is not None, int64)


argmin = argmax


# -------------------------------------------------------------------------------------------------------------- moved about
class _Flip(_Formula):
    @staticmethod
    def forward(ctx, x, dims):
        ctx.dims = dims
        return _flip(x, dims)

    @staticmethod
    def backward(ctx, grad):
        return _flip(grad, ctx.dims), None


class _Roll(_Formula):
    @staticmethod
    def forward(ctx, x):
        return _roll(x, 1)

    @staticmethod
    def backward(ctx, grad):
        return _roll(grad, 1)


class _Triangle(_Formula):
    @staticmethod
    def forward(ctx, x, cut, diagonal):
        ctx.cut, ctx.diagonal = cut, diagonal
        return cut(x, diagonal)

    @staticmethod
    def backward(ctx, grad):
        return ctx.cut(grad, ctx.diagonal), None, None


def flip(x, *dims):
    return _Flip.apply(x, dims)


def roll(x):
    return _Roll.apply(x)


def tril(x, diagonal=0):
    return _Triangle.apply(x, _tril, diagonal)


def triu(x, diagonal=0):
    return _Triangle.apply(x, _triu, diagonal)


class _Repeat(_Formula):
    """repeat_backward"""

    @staticmethod
    def forward(ctx, x, times):
        ctx.shape, ctx.times = x.shape, times
        return x.repeat(*times)

    @staticmethod
    def backward(ctx, grad):
        times, shape = list(ctx.times), list(ctx.shape)
        more = len(times) - len(shape)
        sizes, dims = [], []
        for i, n in enumerate(times):
            if i < more:
                if n != 1:
                    dims.append(len(sizes))
                    sizes.append(n)
            else:
                if n != 1:
                    dims.append(len(sizes))
                    sizes.append(n)
                sizes.append(shape[i - more])
        grad = grad.reshape(sizes)
        return (grad.sum(dims) if dims else grad), None


def repeat(x, times):
    return _Repeat.apply(x, times)


class _IndexSelect(_Formula):
    """index_select_backward"""

    @staticmethod
    def forward(ctx, x, dim, index):
        ctx.shape = x.shape
        ctx.save_for_backward(index)
        sizes = list(x.shape)
        sizes[dim] = index.numel()
        return empty(sizes, dtype=x.dtype, device=x.device)

    @staticmethod
    def backward(ctx, grad):
        (index,) = ctx.saved_tensors
        return empty(ctx.shape, dtype=grad.dtype, device=grad.device), None, None


def index_select(x, dim, index):
    return _IndexSelect.apply(x, dim % x.dim(), index)


# ------------------------------------------------------------------------------------------------------------ of several
class _AddCMul(_Formula):
    @staticmethod
    def forward(ctx, x, a, b, value, into=None):
        ctx.value = value
        ctx.save_for_backward(a if b.requires_grad else None, b if a.requires_grad else None)
        return alike(None, x, a, b) if into is None else into

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        of_a = of_b = None
        if ctx.needs_input_grad[1]:
            scaled = b * ctx.value
            of_a = grad * scaled
            scaled = None
        if ctx.needs_input_grad[2]:
            scaled = a * ctx.value
            of_b = grad * scaled
        return grad, of_a, of_b, None


def _widest(*tensors):
    """autocast_mode.h: promote; the last argument is cast first, as gcc evaluates a call's"""
    if is_autocast_enabled("cuda") and any(t.dtype == float32 for t in tensors):
        return [t.float() if t.dtype in (float16, bfloat16) else t for t in tensors[::-1]][::-1]
    return tensors


def addcmul(input, tensor1, tensor2, *, value=1):
    wide = _widest(input, tensor1, tensor2)  # beside what the caller holds
    return _AddCMul.apply(*wide, value)


class _AddAlpha(_Formula):
    """add.Tensor with alpha: the kernel multiplies as it adds"""

    @staticmethod
    def forward(ctx, x, other, alpha, inplace):
        ctx.alpha = alpha
        return x if inplace else alike(None, x, other)

    @staticmethod
    def backward(ctx, grad):
        return grad if ctx.needs_input_grad[0] else None, grad * ctx.alpha if ctx.needs_input_grad[1] else None, None, None


def add_alpha(x, other, alpha):
    return _several(_AddAlpha, (x, other), x, other, alpha, False)


def add_alpha_(x, other, alpha):
    return _AddAlpha.apply(x, other, alpha, True)


def sub_alpha_(x, other, alpha):
    """maybe_multiply(-grad, alpha)"""
    return _SubAlpha.apply(x, other, alpha, True)


class _SubAlpha(_AddAlpha):
    @staticmethod
    def backward(ctx, grad):
        of_other = None
        if ctx.needs_input_grad[1]:
            negative = -grad
            of_other = negative * ctx.alpha
        return grad if ctx.needs_input_grad[0] else None, of_other, None, None


class _AddCDiv(_Formula):
    @staticmethod
    def forward(ctx, x, a, b, value, into=None):
        ctx.value = value
        ctx.save_for_backward(a if b.requires_grad else None, b)
        return alike(None, x, a, b) if into is None else into

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        of_a = of_b = None
        if ctx.needs_input_grad[1]:
            share = empty_like(b)
            of_a = grad * share
            share = None
        if ctx.needs_input_grad[2]:
            squared = b * b
            scaled = a * ctx.value
            share = scaled / squared
            negative = -grad
            of_b = negative * share
        return grad, of_a, of_b, None


def addcdiv(input, tensor1, tensor2, *, value=1):
    wide = _widest(input, tensor1, tensor2)  # beside what the caller holds
    return _AddCDiv.apply(*wide, value)


class _Lerp(_Formula):
    @staticmethod
    def forward(ctx, x, end, weight):
        ctx.weight = weight
        return alike(None, x, end)

    @staticmethod
    def backward(ctx, grad):
        of_end = grad * ctx.weight if ctx.needs_input_grad[1] else None
        return grad * (1.0 - ctx.weight) if ctx.needs_input_grad[0] else None, of_end, None


class _LerpTensor(_Formula):
    @staticmethod
    def forward(ctx, x, end, weight):
        ctx.save_for_backward(end, x, weight)
        return alike(None, x, end, weight)

    @staticmethod
    def backward(ctx, grad):
        end, x, weight = ctx.saved_tensors
        of_x = of_end = of_weight = None
        if ctx.needs_input_grad[1]:
            of_end = grad * weight
        if ctx.needs_input_grad[0]:
            rest = 1 - weight
            of_x = grad * rest
            rest = None
        if ctx.needs_input_grad[2]:
            apart = end - x
            of_weight = grad * apart
        return of_x, of_end, of_weight


def lerp(input, end, weight):
    """Lerp.cpp: it promotes nothing."""
    if end.dtype != input.dtype:
        raise RuntimeError(f"expected dtype {input.dtype} for `end` but got dtype {end.dtype}")
    return (_Lerp if isinstance(weight, (int, float)) else _LerpTensor).apply(input, end, weight)


class _Minimum(_Formula):
    @staticmethod
    def forward(ctx, x, other):
        ctx.save_for_backward(other, x)
        return alike(None, x, other)

    @staticmethod
    def backward(ctx, grad):
        other, x = ctx.saved_tensors
        of_x = of_other = None
        if ctx.needs_input_grad[1]:
            of_other = _of_extreme(x, other, grad)
        if ctx.needs_input_grad[0]:
            of_x = _of_extreme(other, x, grad)
        return of_x, of_other


def _of_extreme(x, other, grad):
    """at::where(self == other, grad / 2, grad).masked_fill_(self > other, 0)"""
    if compares_first():
        less = x < other
        half = grad / 2
        same = x == other
        return where(same, half, grad)
    half = grad / 2
    same = x == other
    chosen = where(same, half, grad)
    less = x < other
    del less, same, half
    return chosen


def minimum(x, other):
    return _Minimum.apply(x, other)


def one_hot(tensor, num_classes=-1):
    """Onehot.cpp"""
    if num_classes < 0:
        leave("one_hot() of as many classes as data says")
    made = zeros([*tensor.shape, num_classes], dtype=int64, device=tensor.device)
    return made.scatter_(-1, tensor.unsqueeze(-1), 1)


# -------------------------------------------------------------------------------------------------- written at places of data
def _contiguous_like(x):
    return empty(x.shape, dtype=x.dtype, device=x.device)


class _MaskedFill(_Formula):
    """masked_fill_.Scalar"""

    @staticmethod
    def forward(ctx, x, mask, value):
        ctx.save_for_backward(mask)
        return x

    @staticmethod
    def backward(ctx, grad):
        (mask,) = ctx.saved_tensors
        return grad.masked_fill(mask, 0), None, None


def masked_fill_(x, mask, value):
    return _MaskedFill.apply(x, mask, value)


class _Scatter(_Formula):
    """scatter.src, scatter.value; cuda/ScatterGatherKernel.cu: in place no other storage is made"""

    @staticmethod
    def forward(ctx, x, dim, index, src, inplace):
        ctx.dim = dim
        ctx.save_for_backward(index)
        return x if inplace else _contiguous_like(x)

    @staticmethod
    def backward(ctx, grad):
        (index,) = ctx.saved_tensors
        of_x = _contiguous_like(grad) if ctx.needs_input_grad[0] else None
        return of_x, None, None, grad.gather(ctx.dim, index) if ctx.needs_input_grad[3] else None, None


class _ScatterAdd(_Scatter):
    @staticmethod
    def backward(ctx, grad):
        (index,) = ctx.saved_tensors
        of_x = grad if ctx.needs_input_grad[0] else None
        return of_x, None, None, grad.gather(ctx.dim, index) if ctx.needs_input_grad[3] else None, None


class _IndexAdd(_Formula):
    @staticmethod
    def forward(ctx, x, dim, index, source, alpha, inplace):
        ctx.dim, ctx.alpha = dim, alpha
        if source.requires_grad:
            ctx.save_for_backward(index, source)  # whose sizes its gradient is expanded to: derivatives.yaml
        return x if inplace else _contiguous_like(x)

    @staticmethod
    def backward(ctx, grad):
        of_source = None
        if ctx.needs_input_grad[3]:
            index, source = ctx.saved_tensors
            of_source = grad.index_select(ctx.dim, index)
            if ctx.alpha != 1:
                of_source = of_source * ctx.alpha
        return grad if ctx.needs_input_grad[0] else None, None, None, of_source, None, None


class _IndexCopy(_Formula):
    """and index_fill, whose source is a number"""

    @staticmethod
    def forward(ctx, x, dim, index, source, inplace):
        ctx.dim = dim
        if is_tensor(source) and source.dim() and source.requires_grad:
            ctx.save_for_backward(index, source)  # whose sizes its gradient is expanded to: derivatives.yaml
        else:
            ctx.save_for_backward(index)
        return x if inplace else _contiguous_like(x)

    @staticmethod
    def backward(ctx, grad):
        index = ctx.saved_tensors[0]
        of_x = empty_like(grad) if ctx.needs_input_grad[0] else None
        return of_x, None, None, grad.index_select(ctx.dim, index) if ctx.needs_input_grad[3] else None, None


def _places(keys, ones):
    """expandTensors(), make_info(): where a mask has ones; tensors of places, broadcast and copied where several differ"""
    found = []
    for key, n in zip(keys, ones):
        found.extend([key] if n is None else _nonzero(key, n).unbind(1))
    sizes = {tuple(key.shape) for key in found}
    return [key.contiguous() for key in broadcast_tensors(*found)] if len(sizes) > 1 else found


class _IndexPut(_Formula):
    """index_put_ without accumulation; TensorAdvancedIndexing.cpp"""

    @staticmethod
    def forward(ctx, x, value, *keys):
        ctx.save_for_backward(*keys)
        ctx.of_value = (value.shape, value.dtype) if is_tensor(value) else ((), x.dtype)
        ctx.ones = [true_count(key) if key.dtype is truth else None for key in keys]
        places = _places(keys, ctx.ones)
        given = value if is_tensor(value) and value.is_cuda else empty((), dtype=x.dtype, device=x.device)
        del given, places
        return x

    @staticmethod
    def backward(ctx, grad):
        keys = ctx.saved_tensors
        of_x = of_value = None
        if ctx.needs_input_grad[0]:
            shape, dtype = ctx.of_value
            nothing = zeros(shape, dtype=dtype, device=grad.device)
            of_x = grad.clone()
            places = _places(keys, ctx.ones)
            del places, nothing
        if ctx.needs_input_grad[1]:
            places = _places(keys, ctx.ones)
            of_value = grad[tuple(places) if len(places) > 1 else places[0]]
            del places
        return (of_x, of_value) + (None,) * len(keys)


def index_put_(x, value, *keys):
    if not is_tensor(value) and len(keys) == 1 and keys[0].dtype is truth:
        return masked_fill_(x, keys[0], value) if _followed((x,)) else x
    return _several(_IndexPut, (x, value), x, value, *keys)


class _Sort(_Formula):
    """Sort.cpp sort_stable_kernel of up to 4,096: in place, beside places that an arange() fills; value_selecting_reduction_backward"""

    @staticmethod
    def forward(ctx, x, dim):
        ctx.shape, ctx.dtype, ctx.device = x.shape, x.dtype, x.device
        values = empty_like(x)
        places = empty_like(x, dtype=int64)
        if x.shape[dim] > 4096:
            _radix_sort(x, x.numel(), x.numel() // x.shape[dim])
        else:
            rising = empty([x.shape[dim]], dtype=int64, device=x.device)
            del rising
        ctx.mark_non_differentiable(places)
        ctx.save_for_backward(places)
        return values, places

    @staticmethod
    def backward(ctx, grad, _):
        return empty(ctx.shape, dtype=grad.dtype, device=grad.device), None


def _padded(n):
    """cub: AliasTemporaries()"""
    return (n + 255) // 256 * 256


def _radix_sort(x, n, rows):
    """cuda/Sort.cu launch_stable_sort_kernel(): one row with its places, up to 127 by a sort of all with places and rows, then by row, more as segments.
    CUB's radix sort keeps keys and values once more; over all (onesweep) also counts of digits, of each pass and of each tile."""
    places = empty([n], dtype=int64, device=x.device)
    if rows >= 128:
        kept = empty([n * (x.element_size() + 8)], dtype=uint8, device=x.device)
        return
    if rows > 1:
        places_and_rows, sorted_keys = empty([n], dtype=int64, device=x.device), empty([n], dtype=x.dtype, device=x.device)
    tiles = (n + 3071) // 3072
    kept = empty([_padded(n * x.element_size()) + _padded(n * 8) + tiles * 1024 + x.element_size() * 2048 + 511], dtype=uint8, device=x.device)
    if rows > 1:
        del kept, sorted_keys
        kept = empty([(n + 3839) // 3840 * 1024 + 2048 + 511], dtype=uint8, device=x.device)


def sort(x, dim):
    return pair(_several(_Sort, (x,), x, dim))


def argsort(x, dim):
    return sort(x.detach(), dim)[1]


class _ClampTensor(_Formula):
    """clamp_backward, clamp_backward_min_max"""

    @staticmethod
    def forward(ctx, x, low, high):
        ctx.save_for_backward(high, low, x)
        return alike(None, *[t for t in (x, low, high) if t is not None])

    @staticmethod
    def backward(ctx, grad):
        high, low, x = ctx.saved_tensors
        of_low = of_high = of_x = None
        if not compares_first():
            of_low, of_high = _bounds_alone(x, low, high, grad, ctx.needs_input_grad)
            return _within_bounds(x, low, high, grad) if ctx.needs_input_grad[0] else None, of_low, of_high
        if low is None or high is None:
            bound = low if high is None else high
            of_bound = _of_extreme(x, bound, grad) if ctx.needs_input_grad[2 if low is None else 1] else None
            of_x = _of_extreme(x, bound, grad) if ctx.needs_input_grad[0] else None
            return of_x, of_bound if high is None else None, of_bound if low is None else None
        if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
            of_low, of_high = _of_bounds(x, low, high, grad, ctx.needs_input_grad)
        if ctx.needs_input_grad[0]:
            proper = low < high
            at_low, at_high = x == low, x == high
            either = at_low | at_high
            tie = either & proper
            del at_low, at_high, either
            below, above = x < low, x > high
            outside = below | above
            del below, above
            half = grad / 2
            of_x = where(tie, half, grad)
        return of_x, of_low, of_high


def _bounds_alone(x, low, high, grad, needs):
    """before 2.14: a bound has the gradient of what it cut off"""
    if not needs[1] and not needs[2]:
        return None, None
    of_low = of_high = None
    nothing = empty([], dtype=grad.dtype, device=grad.device)
    if low is None or high is None:
        bound = high if low is None else low
        of_bound = where(x < bound, nothing, grad)
        return (of_bound, None) if high is None else (None, of_bound)
    if needs[1]:
        below, proper = x < low, low < high
        of_low = where(below, nothing, grad)
        del proper, below
    if needs[2]:
        above, crossed = x > high, high < low
        of_high = where(above, nothing, grad)
        del crossed, above
    return of_low, of_high


def _within_bounds(x, low, high, grad):
    if low is None or high is None:
        nothing = empty([], dtype=grad.dtype, device=grad.device)
        inside = x >= (high if low is None else low)
        made = where(inside, grad, nothing)
        del inside
        return made
    inside, beside = x >= low, x <= high
    nothing = empty([], dtype=grad.dtype, device=grad.device)
    made = where(inside, grad, nothing)
    del nothing, beside, inside
    return made


def _of_bounds(x, low, high, grad, needs):
    of_low = of_high = None
    proper, same = low < high, low == high
    if needs[1]:
        chosen = _chosen(x, low, high)
        away = chosen.logical_not()
        half = grad / 2
        tie = x == low
        of_low = where(tie, half, grad)
        del chosen, away, half, tie
    if needs[2]:
        crossed = high < low
        above = x >= low
        both = above & same
        first = crossed | both
        over = x > high
        second = over & proper
        chosen = first | second
        del second, over, first, both, above
        away = chosen.logical_not()
        half = grad / 2
        tie = x == high
        tie_of = tie & proper
        of_high = where(tie_of, half, grad)
    return of_low, of_high


def _chosen(x, low, high):
    below, crossed = x <= low, high < low
    both = below & crossed
    under = x < low
    lower = under & crossed
    return both | lower


def _followed(tensors):
    for t in tensors:
        if t is not None and not isinstance(t, (int, float)) and t.requires_grad and t.is_cuda:
            return True
    return False


def _several(formula, followed, *args):
    return formula.apply(*args) if _followed(followed) else formula.forward(_NOTHING, *args)


def scatter(input, dim, index, src=None, *, value=None, reduce=None):
    if reduce is not None:
        leave("scatter(reduce=)")
    src = value if src is None else src
    if is_tensor(src) and src.dtype != input.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    if _followed((input, src)):
        return _Scatter.apply(input, dim, index, src, False)
    return _contiguous_like(input).copy_(input).scatter_(dim, index, src)


def scatter_add(input, dim, index, src):
    wide, source = _widest(input, src)
    return _several(_ScatterAdd, (input, src), wide, dim, index, source, False)


def index_add(input, dim, index, source, *, alpha=1):
    return _several(_IndexAdd, (input, source), input, dim, index, source, alpha, False)


def index_copy(input, dim, index, source):
    return _several(_IndexCopy, (input, source), input, dim, index, source, False)


def index_fill(input, dim, index, value):
    return _several(_IndexCopy, (input, value), input, dim, index, value, False)


def scatter_(x, dim, index, src):
    return _Scatter.apply(x, dim, index, src, True)


def scatter_add_(x, dim, index, src):
    return _ScatterAdd.apply(x, dim, index, src, True)


def index_add_(x, dim, index, source, alpha=1):
    return _IndexAdd.apply(x, dim, index, source, alpha, True)


def index_copy_(x, dim, index, source):
    return _IndexCopy.apply(x, dim, index, source, True)


index_fill_ = index_copy_


def clamp_tensor(input, min=None, max=None):
    return _several(_ClampTensor, (input, min, max), input, min, max)


# -------------------------------------------------------------------------------------------------------------- triangles
def _solved(A, B):
    """BatchLinearAlgebra.cpp linalg_solve_triangular_out(): B's columns one after the other, and trsmBatched's two lists of pointers."""
    out = empty(*B.shape[:-2], B.shape[-1], B.shape[-2], dtype=B.dtype, device=B.device).transpose(-2, -1)
    matrices = A.numel() // (A.shape[-1] * A.shape[-2])
    if B.is_cuda:
        of_A = empty(matrices, dtype=int64, device=B.device)
        of_B = empty(matrices, dtype=int64, device=B.device)
        cublas_workspace()
        del of_A, of_B
    return out


class _SolveTriangular(_Formula):
    """linalg_solve_triangular_backward"""

    @staticmethod
    def forward(ctx, A, B, upper, unitriangular):
        ctx.upper, ctx.unitriangular = upper, unitriangular
        ctx.save_for_backward(A)
        X = _solved(A, B)
        ctx.save_result(X)
        return X

    @staticmethod
    def backward(ctx, grad):
        A, X = ctx.saved_tensors
        of_B = _solved(A, grad)
        of_A = None
        if ctx.needs_input_grad[0]:
            of_A = -(of_B @ X.transpose(-2, -1))
            of_A = _triu(of_A, int(ctx.unitriangular)) if ctx.upper else _tril(of_A, -int(ctx.unitriangular))
        return of_A, of_B if ctx.needs_input_grad[1] else None, None, None


def solve_triangular(A, B, upper, unitriangular):
    wanted = (A.requires_grad or B.requires_grad) and A.is_cuda
    return _SolveTriangular.apply(A, B, upper, unitriangular) if wanted else _SolveTriangular.forward(_NOTHING, A, B, upper, unitriangular)


# ---------------------------------------------------------------------------------------------------------------- in place
class _OldSaved(_Formula):
    """VariableType's original_self: a copy of the old one, which the derivative asks for"""

    @staticmethod
    def forward(ctx, x, of):
        ctx.of = of
        ctx.save_for_backward(x.clone())
        return x

    @staticmethod
    def backward(ctx, grad):
        return ctx.of.backward(ctx, grad), None


class _ResultSaved(_Formula):
    @staticmethod
    def forward(ctx, x, of):
        ctx.of = of
        ctx.save_result(x)
        return x

    backward = _OldSaved.backward


class _NothingSaved(_Formula):
    @staticmethod
    def forward(ctx, x, of):
        ctx.of = of
        return x

    backward = _OldSaved.backward


_IN_PLACE = {"sin": (_OldSaved, _Sin), "cos": (_OldSaved, _Cos), "abs": (_OldSaved, _Abs), "log1p": (_OldSaved, _Log1p), "log2": (_OldSaved, _LogOf),
             "log10": (_OldSaved, _LogOf), "erfinv": (_OldSaved, _Erfinv), "nan_to_num": (_OldSaved, _NanToNum), "hardtanh": (_OldSaved, _HardTanh),
             "atan": (_OldSaved, _Atan), "sinh": (_OldSaved, _Sin), "cosh": (_OldSaved, _Sin), "erfc": (_OldSaved, _Erfc),
             "reciprocal": (_ResultSaved, _Reciprocal), "exp2": (_ResultSaved, _Exp2), "tan": (_ResultSaved, _Tan),
             "round": (_NothingSaved, _Step), "floor": (_NothingSaved, _Step), "ceil": (_NothingSaved, _Step), "trunc": (_NothingSaved, _Step),
             "sign": (_NothingSaved, _Step), "sgn": (_NothingSaved, _Step), "frac": (_NothingSaved, _Passes)}


class _TriangleInPlace(_Triangle):
    @staticmethod
    def forward(ctx, x, cut, diagonal):
        ctx.cut, ctx.diagonal = cut, diagonal
        return x


class _AddCMulInPlace(_AddCMul):
    @staticmethod
    def forward(ctx, x, a, b, value):
        return _AddCMul.forward(ctx, x, a, b, value, x)


class _AddCDivInPlace(_AddCDiv):
    @staticmethod
    def forward(ctx, x, a, b, value):
        return _AddCDiv.forward(ctx, x, a, b, value, x)


class _LerpInPlace(_Lerp):
    @staticmethod
    def forward(ctx, x, end, weight):
        ctx.weight = weight
        return x


def written(x, name, first=None, second=None, value=None):
    """What a function in place returns where a gradient passes: functional.c m_formula_"""
    if name in ("tril_", "triu_"):
        return _TriangleInPlace.apply(x, _tril if name == "tril_" else _triu, first or 0)
    if name == "lerp_":
        if not isinstance(second, (int, float)):
            leave("lerp_() by a tensor")
        if first.dtype != x.dtype:
            raise RuntimeError(f"expected dtype {x.dtype} for `end` but got dtype {first.dtype}")
        return _LerpInPlace.apply(x, first, second)
    if name in ("addcmul_", "addcdiv_"):
        return (_AddCMulInPlace if name == "addcmul_" else _AddCDivInPlace).apply(x, first, second, 1 if value is None else value)
    how, of = _IN_PLACE[name[:-1]]
    return how.apply(x, of)


def __getattr__(name):
    for module, names in _ELSEWHERE.items():
        if name in names:
            return getattr(import_by_name(module), name)
    raise AttributeError(name)


_ELSEWHERE = {
    "torch._scans": ("cumprod", "prod", "cummax", "cummin", "median", "kthvalue", "var_mean", "std_mean", "aminmax", "nansum"),
    "torch._windows": ("unfold", "diagonal", "diag_embed", "avg_pool1d", "max_pool1d", "adaptive_avg_pool1d", "interpolate", "pad_by", "prelu", "dropout1d",
                       "dropout2d", "dropout3d", "feature_dropout", "dropout_", "alpha_dropout", "feature_alpha_dropout"),
    "torch._losses": ("mse_loss", "smooth_l1_loss", "huber_loss", "l1_loss", "kl_div", "binary_cross_entropy", "margin_ranking_loss"),
}
