"""causal_conv1d 1.4 to 1.7: causal_conv1d_interface.py, cpp_functions.py (before 1.6 csrc/causal_conv1d.cpp makes the same)."""
import torch
from transformers.releases import refuse
from triton import launch


def raises(what):
    refuse("/stack/causal_conv1d", "causal-conv1d raises: " + what)


def channel_last(x):
    return x.stride(1) == 1 and x.stride(2) > 1


def check(x, weight):
    """csrc/causal_conv1d.cpp"""
    if not 2 <= weight.shape[-1] <= 4:
        raises("its kernels are of widths between 2 and 4")
    if channel_last(x) and (x.shape[1] % 8 or x.stride(2) % 8 or x.stride(0) % 8):
        raises("channels, and the width of what they are cut from, must be multiples of 8")


def causal_conv1d_fwd_function(x, weight, bias):
    check(x, weight)
    out = torch.empty_like(x)
    launch((x, weight, bias), (out,))
    return out


def causal_conv1d_bwd_function(x, weight, bias, dout, dx=None):
    if dx is None:
        dx = torch.empty_like(x)
    dweight = torch.zeros_like(weight, dtype=torch.float32)
    dbias = None
    if bias is not None:
        dbias = torch.zeros_like(bias, dtype=torch.float32)
    run_backward(x, weight, dout, dx)
    dweight = dweight.type_as(weight)
    if dbias is not None:
        dbias = dbias.type_as(bias)
    return dx, dweight, dbias


def run_backward(x, weight, dout, dx):
    if not channel_last(x) and dout.stride(2) != 1:
        dout = dout.contiguous()
    if channel_last(x) and dout.stride(1) != 1:
        dout = dout.transpose(-1, -2).contiguous().transpose(-1, -2)
    launch((x, weight, dout), (dx,))


class CausalConv1dFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, activation):
        if activation not in (None, "silu", "swish"):
            raises("it knows no activation but silu")
        if x.stride(2) != 1 and x.stride(1) != 1:
            x = x.contiguous()
        bias = bias.contiguous() if bias is not None else None
        out = causal_conv1d_fwd_function(x, weight, bias)
        ctx.save_for_backward(x, weight, bias)
        return out

    @staticmethod
    def backward(ctx, dout):
        x, weight, bias = ctx.saved_tensors
        if dout.stride(2) != 1 and dout.stride(1) != 1:
            dout = dout.contiguous()
        dx, dweight, dbias = causal_conv1d_bwd_function(x, weight, bias, dout)
        return dx, dweight, dbias, None


def causal_conv1d_fn(x, weight, bias=None, activation=None, **kwargs):
    if kwargs.get("seq_idx") is not None:
        refuse("/training/packing", "sequences that causal-conv1d keeps apart are not modelled")
    return CausalConv1dFn.apply(x, weight, bias, activation)
