"""Cells of recurrent nets: RNN.cpp's lstm_cell(), gru_cell() and their fused kernels on CUDA (cuda/RNN.cu). Layers of them are cuDNN's, and not modelled."""
from torch import _half, empty, empty_like
from torch._formulas import _Formula, _several
from torch.nn.functional import linear, relu


def _halves(*tensors):
    """autocast_mode.h: lower_precision_fp, the last argument first"""
    return [None if t is None else _half(t) for t in tensors[::-1]][::-1]


def rnn_cell(input, hx, w_ih, w_hh, b_ih, b_hh, nonlinearity):
    input, hx, w_ih, w_hh, b_ih, b_hh = _halves(input, hx, w_ih, w_hh, b_ih, b_hh)
    of_hidden = linear(hx, w_hh, b_hh)
    total = linear(input, w_ih, b_ih).add_(of_hidden)
    return total.tanh() if nonlinearity == "tanh" else relu(total)


class _GruCell(_Formula):
    """_thnn_fused_gru_cell: a workspace of five gates, which backward reads"""

    @staticmethod
    def forward(ctx, of_input, of_hidden, hx, b_ih, b_hh):
        ctx.rows, ctx.width, ctx.bias = hx.shape[0], hx.shape[1], b_ih is not None
        ctx.save_for_backward(b_hh, of_hidden, hx, b_ih, of_input)
        workspace = empty([ctx.rows, 5 * ctx.width], dtype=hx.dtype, device=hx.device)
        hy = empty_like(hx)
        ctx.save_for_backward(workspace)
        return hy

    @staticmethod
    def backward(ctx, grad):
        of_input = empty([ctx.rows, 3 * ctx.width], dtype=grad.dtype, device=grad.device)
        of_hidden = empty_like(of_input)
        of_hx = empty([ctx.rows, ctx.width], dtype=grad.dtype, device=grad.device)
        if not ctx.bias:
            return of_input, of_hidden, of_hx, None, None
        of_first = of_input.sum(0)
        return of_input, of_hidden, of_hx, of_first, of_hidden.sum(0)


def gru_cell(input, hx, w_ih, w_hh, b_ih, b_hh):
    input, hx, w_ih, w_hh, b_ih, b_hh = _halves(input, hx, w_ih, w_hh, b_ih, b_hh)
    of_input = linear(input, w_ih)
    of_hidden = linear(hx, w_hh)
    return _several(_GruCell, (of_input, of_hidden, hx), of_input, of_hidden, hx, b_ih, b_hh)


class _LstmCell(_Formula):
    """_thnn_fused_lstm_cell, _thnn_fused_lstm_cell_backward_impl: both gates' gradient is one tensor, both biases' another"""

    @staticmethod
    def forward(ctx, of_input, of_hidden, cx, b_ih, b_hh):
        ctx.set_materialize_grads(False)
        ctx.rows, ctx.width, ctx.bias = cx.shape[0], cx.shape[1], b_ih is not None
        ctx.save_for_backward(cx, b_hh, of_hidden, b_ih, of_input)
        workspace = empty([ctx.rows, 4 * ctx.width], dtype=cx.dtype, device=cx.device)
        hy = empty_like(cx)
        cy = empty_like(cx)
        ctx.save_for_backward(workspace)
        ctx.save_result(cy)
        return hy, cy

    @staticmethod
    def backward(ctx, of_hy, of_cy):
        grad = of_cy if of_hy is None else of_hy
        of_gates = empty([ctx.rows, 4 * ctx.width], dtype=grad.dtype, device=grad.device)
        of_cx = empty([ctx.rows, ctx.width], dtype=grad.dtype, device=grad.device)
        of_bias = of_gates.sum(0) if ctx.bias else None
        return of_gates, of_gates, of_cx, of_bias, of_bias


def lstm_cell(input, hx, w_ih, w_hh, b_ih, b_hh):
    hx, cx = hx
    input, hx, cx, w_ih, w_hh, b_ih, b_hh = _halves(input, hx, cx, w_ih, w_hh, b_ih, b_hh)
    of_input = linear(input, w_ih)
    of_hidden = linear(hx, w_hh)
    return _several(_LstmCell, (of_input, of_hidden, cx), of_input, of_hidden, cx, b_ih, b_hh)
