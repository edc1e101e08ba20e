"""Windows, pools, paddings and other views and copies of places: forward as the kernel, backward as FunctionsManual.cpp and derivatives.yaml."""
from _script import leave
from torch import arange, empty, empty_like, _half, int64, zeros, zeros_like
from torch._formulas import _apply, _contiguous_like, _Formula, _full, _several, _widest
from torch._switches import cublas_workspace, strided


class _Unfold(_Formula):
    """unfold_backward: windows that overlap are summed by a kernel that an arange() tells where they lie"""

    @staticmethod
    def forward(ctx, x, dim, size, step):
        ctx.shape, ctx.dim, ctx.overlaps = x.shape, dim, step < size
        sizes, strides = list(x.shape), list(x.stride())
        sizes[dim] = (sizes[dim] - size) // step + 1
        strides[dim] *= step
        return strided(x, [*sizes, size], [*strides, x.stride()[dim]])

    @staticmethod
    def backward(ctx, grad):
        of_x = zeros(ctx.shape, dtype=grad.dtype, device=grad.device)
        if ctx.overlaps:
            places = arange(ctx.shape[ctx.dim], device=grad.device)
            del places
        return of_x, None, None, None


def unfold(input, dimension, size, step):
    dim = dimension % input.dim()
    if size > input.shape[dim]:
        raise RuntimeError(f"maximum size for tensor at dimension {dim} is {input.shape[dim]} but size is {size}")
    return _apply(_Unfold, input, dim, size, step)


class _Diagonal(_Formula):
    @staticmethod
    def forward(ctx, x, first, second):
        ctx.shape = x.shape
        rest = [i for i in range(x.dim()) if i not in (first, second)]
        n = min(x.shape[first], x.shape[second])
        steps = x.stride()
        return strided(x, [*[x.shape[i] for i in rest], n], [*[steps[i] for i in rest], steps[first] + steps[second]])

    @staticmethod
    def backward(ctx, grad):
        return zeros(ctx.shape, dtype=grad.dtype, device=grad.device), None, None


def diagonal(input, offset=0, dim1=0, dim2=1):
    if offset:
        leave("diagonal() beside the first")
    return _apply(_Diagonal, input, dim1 % input.dim(), dim2 % input.dim())


class _DiagEmbed(_Formula):
    """TensorShape.cpp diag_embed: zeros, whose diagonal is copied to"""

    @staticmethod
    def forward(ctx, x):
        return zeros(*x.shape, x.shape[-1], dtype=x.dtype, device=x.device)

    @staticmethod
    def backward(ctx, grad):
        return strided(grad, grad.shape[:-1], [*grad.stride()[:-2], grad.stride()[-2] + grad.stride()[-1]])


def diag_embed(input, offset=0, dim1=-2, dim2=-1):
    if offset or (dim1, dim2) != (-2, -1):
        leave("diag_embed() but of the last two")
    return _apply(_DiagEmbed, input)


# ------------------------------------------------------------------------------------------------------------------ pools
def _channels_last(x):
    """is_channels_last_strides_2d() of [batch, channels, 1, length]"""
    (batch, channels, length), (of_batch, of_channel, of_one) = x.shape, x.stride()
    least = 0
    for n, step in ((channels, of_channel), (length, of_one), (1, length * of_one)):
        if step < least:
            return False
        least = step * n if n > 1 else step
    return of_batch >= least and least != of_channel


def _laid_out(x, last):
    """contiguous(memory_format): a copy that the kernel reads, or nothing"""
    if last:
        x = x.transpose(1, 2)
    return None if x.is_contiguous() else _contiguous_like(x)


def _made(sizes, x, last):
    batch, channels, length = sizes
    if last:
        return empty([batch, length, channels], dtype=x.dtype, device=x.device).transpose(1, 2)
    return empty(sizes, dtype=x.dtype, device=x.device)


class _MaxPool(_Formula):
    """DilatedMaxPool2d.cu: values beside places; the gradient is zeros that are summed to"""

    @staticmethod
    def forward(ctx, x, sizes):
        ctx.last = _channels_last(x)
        ctx.save_for_backward(x)
        y = _made(sizes, x, ctx.last)
        places = empty(sizes, dtype=int64, device=x.device)
        laid = _laid_out(x, ctx.last)
        del laid
        ctx.mark_non_differentiable(places)
        ctx.save_for_backward(places)
        return y, places

    @staticmethod
    def backward(ctx, grad, _):
        x = ctx.saved_tensors[0]
        of_x = _made(x.shape, x, ctx.last)
        laid = _laid_out(grad, ctx.last), _laid_out(x, ctx.last)
        return of_x, None


class _AvgPool(_Formula):
    """AveragePool2d.cu"""

    @staticmethod
    def forward(ctx, x, sizes):
        ctx.last = _channels_last(x)
        ctx.save_for_backward(x)
        y = _made(sizes, x, ctx.last)
        laid = _laid_out(x, ctx.last)
        return y

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        of_x = _made(x.shape, x, ctx.last)
        laid = _laid_out(x, ctx.last), _laid_out(grad, ctx.last)
        return of_x, None


def _one(n):
    return n[0] if isinstance(n, (list, tuple)) else n


def _pooled(x, kernel, stride, padding, dilation, ceil_mode):
    """Pool.h pooling_output_shape"""
    if x.dim() != 3:
        leave("a pool but of [batch, channels, length]")
    kernel, padding, dilation = _one(kernel), _one(padding), _one(dilation)
    stride = _one(stride) if stride else kernel
    room = x.shape[-1] + 2 * padding - dilation * (kernel - 1) - 1
    n = (room + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and (n - 1) * stride >= x.shape[-1] + padding:
        n -= 1
    return [*x.shape[:-1], n]


def avg_pool1d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    return _apply(_AvgPool, input, _pooled(input, kernel_size, stride, padding, 1, ceil_mode))


def max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    both = _several(_MaxPool, (input,), input, _pooled(input, kernel_size, stride, padding, dilation, ceil_mode))
    return both if return_indices else both[0]


def adaptive_avg_pool1d(input, output_size):
    """AdaptiveAveragePooling.cpp: of one, the mean"""
    if _one(output_size) != 1:
        leave("adaptive_avg_pool1d() to more than one")
    x = input.unsqueeze(-2)
    made = x.mean([-1, -2], keepdim=True)
    turned = x.dim() == 4 and not x.is_contiguous() and x.stride()[1] == 1  # suggest_memory_format(): channels last
    return (_apply(_OneByOne, made) if turned else made).squeeze(-2)


class _OneByOne(_Formula):
    """out.as_strided({n, c, 1, 1}, {c, 1, c, c}), as_strided_backward"""

    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        n, c = x.shape[:2]
        return strided(x, [n, c, 1, 1], [c, 1, c, c])

    @staticmethod
    def backward(ctx, grad):
        n, c = ctx.shape[:2]
        return strided(empty([n * c], dtype=grad.dtype, device=grad.device), [n, c, 1, 1], [c, 1, 1, 1])


class _Nearest(_Formula):
    """UpSampleNearest1d.cu, UpSampleLinear1d.cu: what is not contiguous is copied; the gradient has its layout again"""

    @staticmethod
    def forward(ctx, x, n, copies):
        ctx.shape = x.shape
        y = empty([*x.shape[:2], n], dtype=x.dtype, device=x.device)
        if copies and not x.is_contiguous():
            laid = _contiguous_like(x)
            del laid
        return y

    @staticmethod
    def backward(ctx, grad):
        of_x = empty(ctx.shape, dtype=grad.dtype, device=grad.device)
        laid = grad.contiguous()
        return of_x, None, None


def interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None, antialias=False):
    if input.dim() != 3 or mode not in ("nearest", "linear") or antialias:
        leave("interpolate() but of [batch, channels, length], nearest or linear")
    n = _one(size) if size is not None else int(input.shape[-1] * _one(scale_factor))
    return _apply(_Nearest, _full(input), n, mode == "nearest")


# -------------------------------------------------------------------------------------------------------------- paddings
class _PadBy(_Formula):
    """ReflectionPad.cu, ReplicationPadding.cu: reflection copies what is not contiguous"""

    @staticmethod
    def forward(ctx, x, n, reflects):
        ctx.save_for_backward(x)
        y = empty([*x.shape[:-1], n], dtype=x.dtype, device=x.device)
        if reflects and not x.is_contiguous():
            laid = _contiguous_like(x)
            del laid
        return y

    @staticmethod
    def backward(ctx, grad):
        return _contiguous_like(ctx.saved_tensors[0]), None, None


def pad_by(input, pad, mode):
    """PadNd.cpp _pad_enum_symint"""
    if len(pad) != 2 or input.dim() not in (2, 3):
        leave(f"pad(mode='{mode}') but of the last of three dimensions")
    n = input.shape[-1] + pad[0] + pad[1]
    return _apply(_PadBy, input, n, mode == "reflect")


# ----------------------------------------------------------------------------------------------------- other functions
class _PReluKernel(_Formula):
    """Activation.cpp prelu: the weight's gradient is of the input's size, and summed"""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return empty_like(x)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        of_x = empty_like(x)
        return of_x, empty_like(x)


def prelu(input, weight):
    weight_, input_ = _half(weight), _half(input)
    if weight_.dtype != input_.dtype:
        raise RuntimeError("prelu: Type promoting not supported.")
    n = weight_.numel()
    if n != 1 and (input_.dim() < 2 or input_.shape[1] != n):
        raise RuntimeError("Mismatch of parameter numbers and input channel size.")
    if input_.dim() != 1 or weight_.dim() == 0:
        weight_ = weight_.view([n if i == (1 if input_.dim() > 1 else 0) else 1 for i in range(input_.dim())])
    return _several(_PReluKernel, (input_, weight_), input_, weight_)


def _noise(x, sizes):
    return empty(sizes, dtype=x.dtype, device=x.device)


def feature_dropout(input, p=0.5, training=True, inplace=False):
    """Dropout.cpp make_feature_noise: a number a channel"""
    if not training or p == 0:
        return input
    noise = _noise(input, [n if i < 2 else 1 for i, n in enumerate(input.shape)])
    return input.mul_(noise) if inplace else input * noise


dropout1d = dropout2d = dropout3d = feature_dropout


def dropout_(input, p):
    """Dropout.cpp _dropout_impl, in place: the noise is of the input's type"""
    noise = _noise(input, input.shape)
    return input.mul_(noise)


def alpha_dropout(input, p=0.5, training=False, inplace=False):
    if inplace:
        leave("alpha_dropout(inplace=True)")
    if not training or p == 0:
        return input
    noise = _noise(input, input.shape)
    b = _noise(input, input.shape)
    return (input * noise).add_(b)


feature_alpha_dropout = alpha_dropout


class _MaskedSelect(_Formula):
    """masked_select_backward"""

    @staticmethod
    def forward(ctx, x, mask):
        ctx.save_for_backward(mask, x)
        return x[mask]

    @staticmethod
    def backward(ctx, grad):
        mask, x = ctx.saved_tensors
        return zeros_like(x).masked_scatter(mask, grad), None


def masked_select(input, mask):
    return _several(_MaskedSelect, (input,), input.expand(mask.shape) if input.shape != mask.shape else input, mask)


class _Dot(_Formula):
    """cuda/Blas.cpp dot()"""

    @staticmethod
    def forward(ctx, x, other):
        ctx.save_for_backward(x if other.requires_grad else None, other if x.requires_grad else None)
        y = empty([], dtype=x.dtype, device=x.device)
        if x.is_cuda:
            cublas_workspace()
        return y

    @staticmethod
    def backward(ctx, grad):
        x, other = ctx.saved_tensors
        of_x = grad * other if ctx.needs_input_grad[0] else None
        return of_x, grad * x if ctx.needs_input_grad[1] else None


def dot(input, tensor):
    """Blas.cpp dot_check()"""
    if input.dim() != 1 or tensor.dim() != 1:
        raise RuntimeError(f"1D tensors expected, but got {input.dim()}D and {tensor.dim()}D tensors")
    if input.shape[0] != tensor.shape[0]:
        raise RuntimeError(f"inconsistent tensor size, expected tensor [{input.shape[0]}] and src [{tensor.shape[0]}] to have the same number of elements")
    x, other = _widest(input, tensor)
    return _several(_Dot, (x, other), x, other)
