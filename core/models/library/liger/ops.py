"""liger_kernel/ops: the host code of Liger's kernels, what each keeps and writes over. A launch allocates nothing."""
from functools import wraps

import torch
from torch._switches import addmm_into, mm_into
from transformers.releases import quirks
from triton import cdiv, launch, multiprocessors, next_power_of_2

LOGITS_ADDED, LOGITS_CAST, LOGITS_KEPT = 0, 1, 2  # liger_head_gradient


def ensure_contiguous(fn):
    """ops/utils.py"""

    @wraps(fn)
    def wrapper(ctx, *args):
        args = [x.contiguous() if isinstance(x, torch.Tensor) else x for x in args]
        return fn(ctx, *args)

    return wrapper


class LigerRopeFunction(torch.autograd.Function):
    """ops/rope.py: queries and keys are turned where they lie, their gradients too."""

    @staticmethod
    def forward(ctx, q, k, cos, sin):
        q = q.transpose(1, 2)
        k = k.transpose(1, 2)
        q = q.contiguous()
        k = k.contiguous()
        cos = cos.contiguous()
        sin = sin.contiguous()
        launch((q, k, cos, sin), (q, k))
        ctx.save_for_backward(cos, sin)
        return q.transpose(1, 2), k.transpose(1, 2)

    @staticmethod
    def backward(ctx, dq, dk):
        cos, sin = ctx.saved_tensors
        dq = dq.transpose(1, 2)
        dk = dk.transpose(1, 2)
        dq = dq.contiguous()
        dk = dk.contiguous()
        launch((dq, dk, cos, sin), (dq, dk))
        return dq.transpose(1, 2), dk.transpose(1, 2), None, None


def rms_norm_forward(X, W):
    shape = X.shape
    X = X.view(-1, shape[-1])
    n_rows, n_cols = X.shape
    Y = torch.empty((n_rows, n_cols), dtype=X.dtype, device=X.device)
    RSTD = torch.empty(n_rows, dtype=torch.float32, device=X.device)
    launch((X, W), (Y, RSTD))
    return Y.view(*shape), X, RSTD


def rms_norm_backward(dY, X, W, RSTD, in_place, wide, compute_dw):
    shape = dY.shape
    dY = dY.view(-1, shape[-1])
    n_cols = dY.shape[1]
    if quirks.liger_norm_rows:  # a row of it for each of X's, and the gradient always in dY
        _dW = torch.empty_like(X, dtype=torch.float32 if wide else W.dtype)
        launch((dY, X, RSTD, W), (dY, _dW))
        dX = dY.view(*shape)
        dW = _dW.sum(dim=0).to(W.dtype)
        return dX, dW
    _dW = torch.empty((multiprocessors(), n_cols), dtype=torch.float32, device=W.device) if compute_dw else None
    if in_place:
        dX = dY
    else:
        dX = torch.zeros_like(dY)
    launch((dY, X, RSTD, W), (dX, _dW) if compute_dw else (dX,))
    dX = dX.view(*shape)
    dW = _dW.sum(dim=0).to(W.dtype) if compute_dw else None
    return dX, dW


class LigerRMSNormFunction(torch.autograd.Function):
    """ops/rms_norm.py: keeps its input and the reciprocal deviations of the rows."""

    @staticmethod
    @ensure_contiguous
    def forward(ctx, X, W, in_place, wide):
        Y, X, RSTD = rms_norm_forward(X, W)
        ctx.in_place = in_place
        ctx.wide = wide
        ctx.save_for_backward(X, W, RSTD)
        return Y

    @staticmethod
    @ensure_contiguous
    def backward(ctx, dY):
        X, W, RSTD = ctx.saved_tensors
        dX, dW = rms_norm_backward(dY, X, W, RSTD, ctx.in_place, ctx.wide, ctx.needs_input_grad[1] or quirks.liger_norm_frozen)
        return dX, dW, None, None


class LigerGatedFunction(torch.autograd.Function):
    """ops/swiglu.py LigerSiLUMulFunction, ops/geglu.py LigerGELUMulFunction: keep both factors, whose gradients are written over them."""

    @staticmethod
    @ensure_contiguous
    def forward(ctx, a, b):
        shape = a.shape
        a = a.view(-1, shape[-1])
        b = b.view(-1, shape[-1])
        c = torch.empty_like(a)
        launch((a, b), (c,))
        ctx.save_for_backward(a, b)
        return c.view(*shape)

    @staticmethod
    @ensure_contiguous
    def backward(ctx, dc):
        a, b = ctx.saved_tensors
        shape = dc.shape
        dc = dc.view(-1, shape[-1])
        launch((dc, a, b), (a, b))
        return a.view(*shape), b.view(*shape)


class LigerScaledGatedFunction(torch.autograd.Function):
    """LigerSiLUMulFunction of two multipliers: that of the gate is the kernel's, the other multiplies in the function"""

    @staticmethod
    @ensure_contiguous
    def forward(ctx, a, b, down_multiplier):
        ctx.down_multiplier = down_multiplier
        c = LigerGatedFunction.forward(ctx, a, b)
        if down_multiplier != 1.0:
            c = c * down_multiplier
        return c

    @staticmethod
    @ensure_contiguous
    def backward(ctx, dc):
        if ctx.down_multiplier != 1.0:
            dc = dc * ctx.down_multiplier
        a, b = LigerGatedFunction.backward(ctx, dc)
        return a, b, None


class LigerReLUSquaredFunction(torch.autograd.Function):
    """ops/relu_squared.py"""

    @staticmethod
    @ensure_contiguous
    def forward(ctx, X):
        shape = X.shape
        X_2d = X.view(-1, shape[-1])
        Y = torch.empty_like(X_2d)
        launch((X_2d,), (Y,))
        ctx.save_for_backward(X)
        return Y.view(*shape)

    @staticmethod
    @ensure_contiguous
    def backward(ctx, dY):
        (X,) = ctx.saved_tensors
        shape = X.shape
        dX = torch.empty_like(dY.view(-1, shape[-1]))
        launch((X, dY), (dX,))
        return dX.view(*shape)


def count_targets(target, vocab, checks):
    target_mask = target != -100
    target_mask.sum()
    if checks:  # two assertions, each over a product of its own
        (target * target_mask).max() < vocab
        (target * target_mask).min() >= 0


def is_one(grad_output):
    """torch.equal(grad_output, torch.tensor(1.0)), which the host waits for"""
    (grad_output == torch.tensor(1.0, device=grad_output.device)).all()


class LigerCrossEntropyFunction(torch.autograd.Function):
    """ops/cross_entropy.py: the gradient is written over the logits, in forward."""

    @staticmethod
    def forward(ctx, _input, target):
        loss = cross_entropy_forward(_input, target)
        ctx.save_for_backward(_input.detach())
        return loss

    @staticmethod
    def backward(ctx, grad_output):
        (_input,) = ctx.saved_tensors
        is_one(grad_output)
        launch((_input, grad_output), (_input,))
        return _input, None


def cross_entropy_forward(_input, target):
    loss_1d = torch.zeros(_input.shape[0], dtype=_input.dtype, device=_input.device)
    count_targets(target, _input.shape[-1], quirks.liger_checks_targets)
    launch((_input, target), (_input, loss_1d))
    loss = torch.sum(loss_1d)
    return loss


def chunk_rows(rows, hidden, vocab, chunk_memory):
    """As many rows of logits as have the bytes of all hidden states, or some times those: ops/fused_linear_cross_entropy.py, the same in every release."""
    factor = cdiv(vocab, chunk_memory * hidden)
    return min(next_power_of_2(cdiv(rows, factor)), rows) if quirks.liger_head_gradient == LOGITS_KEPT else next_power_of_2(cdiv(rows, factor))


def can_use_mm_out(_input, weight):
    if _input.dtype != weight.dtype:
        return False
    if torch.is_autocast_enabled():
        return _input.dtype == torch.get_autocast_dtype("cuda")
    return True


def sum_head(grad_weight, grad_logits, _input_chunk):
    """grad_weight += grad_logits.t() @ _input_chunk"""
    if quirks.liger_head_gradient == LOGITS_CAST:
        grad_weight += (grad_logits.t() @ _input_chunk).float()
    elif quirks.liger_head_gradient == LOGITS_ADDED:
        addmm_into(grad_weight, grad_logits.t().to(_input_chunk.dtype), _input_chunk)
    elif grad_logits.dtype in (torch.float16, torch.bfloat16) and (
            grad_weight.dtype == grad_logits.dtype or grad_weight.dtype == torch.float32 and quirks.addmm_sums_in_fp32):
        input_chunk = _input_chunk
        if input_chunk.dtype != grad_logits.dtype:
            input_chunk = input_chunk.to(grad_logits.dtype)
        addmm_into(grad_weight, grad_logits.t(), input_chunk)
    else:
        grad_weight += (grad_logits.t() @ _input_chunk).float()


def fused_linear_cross_entropy_forward(_input, weight, target, chunk_memory):
    """Gradients of the hidden states and of the head are made in forward, a chunk of logits at a time."""
    BT, H = _input.shape
    V = weight.shape[0]
    chunk_size = chunk_rows(BT, H, V, chunk_memory)
    if quirks.liger_head_first:
        grad_weight = torch.zeros_like(weight) if weight.requires_grad else None
        grad_input = torch.zeros_like(_input)
    else:
        grad_input = torch.zeros_like(_input)
        grad_weight = torch.zeros_like(weight) if weight.requires_grad else None
    loss_1d = torch.zeros(BT, dtype=torch.float32, device=_input.device)
    if quirks.liger_checks_targets:
        target_mask = target != -100
        target_mask.sum()
    else:
        (target != -100).sum()
    buffer = None
    if quirks.liger_head_gradient == LOGITS_KEPT and can_use_mm_out(_input, weight):
        buffer = torch.empty((chunk_size, V), dtype=_input.dtype, device=_input.device)
    for start in range(0, BT, chunk_size):
        end = min(start + chunk_size, BT)
        _input_chunk = _input[start:end]
        if buffer is not None:
            logits_chunk = buffer[: end - start]
            mm_into(logits_chunk, _input_chunk, weight.t())
        else:
            logits_chunk = _input_chunk @ weight.t()
        target_chunk = target[start:end]
        if quirks.liger_chunk_in_fp32:
            (target_chunk != -100).sum()
            logits_chunk = logits_chunk.float()
        target_chunk = target_chunk.contiguous()
        loss_1d_slice = loss_1d[start:end]
        launch((logits_chunk, target_chunk), (logits_chunk, loss_1d_slice))
        if quirks.liger_chunk_in_fp32:
            logits_chunk = logits_chunk.to(_input.dtype)
            loss_1d[start:end] = loss_1d_slice * 1.0
            grad_logits_chunk = logits_chunk * 1.0
        else:
            grad_logits_chunk = logits_chunk
        if buffer is not None:
            mm_into(grad_input[start:end], grad_logits_chunk, weight)
        else:
            grad_input[start:end] = grad_logits_chunk @ weight
        if quirks.liger_head_gradient == LOGITS_KEPT:
            del logits_chunk
        if grad_weight is not None:
            sum_head(grad_weight, logits_chunk if quirks.liger_chunk_in_fp32 else grad_logits_chunk, _input_chunk)
        if quirks.liger_head_gradient == LOGITS_KEPT:
            del grad_logits_chunk, _input_chunk, target_chunk
    del buffer
    loss = torch.sum(loss_1d)
    return loss, grad_input, grad_weight


class LigerFusedLinearCrossEntropyFunction(torch.autograd.Function):
    """ops/fused_linear_cross_entropy.py"""

    @staticmethod
    def forward(ctx, _input, weight, target, chunk_memory=1):
        loss, grad_input, grad_weight = fused_linear_cross_entropy_forward(_input, weight, target, chunk_memory)
        ctx.save_for_backward(grad_input.detach(), grad_weight.detach() if grad_weight is not None else None)
        return loss

    @staticmethod
    def backward(ctx, grad_output):
        grad_input, grad_weight = ctx.saved_tensors
        is_one(grad_output)
        launch((grad_input, grad_output), (grad_input,))
        if grad_weight is not None:
            launch((grad_weight, grad_output), (grad_weight,))
        return grad_input, grad_weight, None, None
