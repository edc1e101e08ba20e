"""mamba_ssm 2.3: ops/selective_scan_interface.py, and what csrc/selective_scan/selective_scan.cpp makes."""
import torch
import torch.nn.functional as F
from torch._switches import addmm_into
from transformers.releases import refuse
from transformers.scans import custom_bwd, custom_fwd
from transformers.scans.causal_conv1d import causal_conv1d_bwd_function, causal_conv1d_fwd_function
from triton import cdiv, launch


def scan_fwd(u, delta, A, B, C, D, z, delta_bias):
    if not u.dtype == delta.dtype == B.dtype == C.dtype or z is not None and z.dtype != u.dtype:
        refuse("/stack/mamba_ssm", "selective_scan_cuda raises: what it scans, steps and matrices are of different dtypes")
    out_z = torch.empty_like(z) if z is not None else None
    out = torch.empty_like(delta)
    x = torch.empty(u.shape[0], u.shape[1], cdiv(u.shape[2], 2048), A.shape[1] * 2, dtype=A.dtype, device=u.device)
    launch((u, delta, A, B, C, D, z, delta_bias), (out, x, out_z))
    return out, x, out_z


def scan_bwd(u, delta, A, B, C, D, z, delta_bias, dout, x, out, dz, recompute_out_z):
    out_z = None
    if z is not None:
        dz = torch.empty_like(z) if dz is None else dz
        out_z = torch.empty_like(out) if recompute_out_z else None
    du, ddelta, dA = torch.empty_like(u), torch.empty_like(delta), torch.zeros_like(A)
    dB, dC = torch.zeros_like(B, dtype=torch.float32), torch.zeros_like(C, dtype=torch.float32)
    dD = torch.zeros_like(D) if D is not None else None
    ddelta_bias = torch.zeros_like(delta_bias) if delta_bias is not None else None
    launch((u, delta, A, B, C, D, z, delta_bias, dout, x, out), (du, ddelta, dA, dB, dC, dD, ddelta_bias, dz, out_z))
    return du, ddelta, dA, dB.to(B.dtype), dC.to(C.dtype), dD, ddelta_bias, dz, out_z


class SelectiveScanFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, u, delta, A, B, C, D, z, delta_bias):
        if u.stride(-1) != 1:
            u = u.contiguous()
        if delta.stride(-1) != 1:
            delta = delta.contiguous()
        if D is not None:
            D = D.contiguous()
        if B.stride(-1) != 1:
            B = B.contiguous()
        if C.stride(-1) != 1:
            C = C.contiguous()
        if z is not None and z.stride(-1) != 1:
            z = z.contiguous()
        B = B.unsqueeze(1)
        C = C.unsqueeze(1)
        out, x, out_z = scan_fwd(u, delta, A, B, C, D, z, delta_bias)
        ctx.has_z = z is not None
        if not ctx.has_z:
            ctx.save_for_backward(u, delta, A, B, C, D, delta_bias, x)
            return out
        ctx.save_for_backward(u, delta, A, B, C, D, z, delta_bias, x, out)
        return out_z

    @staticmethod
    def backward(ctx, dout):
        if not ctx.has_z:
            u, delta, A, B, C, D, delta_bias, x = ctx.saved_tensors
            z = None
            out = None
        else:
            u, delta, A, B, C, D, z, delta_bias, x, out = ctx.saved_tensors
        if dout.stride(-1) != 1:
            dout = dout.contiguous()
        du, ddelta, dA, dB, dC, dD, ddelta_bias, dz, _ = scan_bwd(u, delta, A, B, C, D, z, delta_bias, dout, x, out, None, False)
        dB = dB.squeeze(1)
        dC = dC.squeeze(1)
        return du, ddelta, dA, dB, dC, dD, dz, ddelta_bias


def selective_scan_fn(u, delta, A, B, C, D, z, delta_bias, return_last_state):
    if return_last_state:
        refuse("/stack/mamba_ssm", "states that mamba-ssm hands back are not modelled")
    return SelectiveScanFn.apply(u, delta, A, B, C, D, z, delta_bias)


def by_sequence(x, L):
    """d (b l) -> b d l"""
    d, bl = x.shape
    return x.reshape(d, bl // L, L).permute(1, 0, 2)


def by_channel(x):
    """b d l -> d (b l)"""
    return x.permute(1, 0, 2).reshape(x.shape[1], -1)


def state_rows(x, L):
    """(b l) n -> b 1 n l"""
    bl, n = x.shape
    return x.reshape(bl // L, L, 1, n).permute(0, 2, 3, 1).contiguous()


def rows_of_state(x):
    """b 1 n l -> (b l) n"""
    return x.permute(0, 3, 1, 2).reshape(-1, x.shape[2]).contiguous()


class MambaInnerFn(torch.autograd.Function):
    """Keeps what the scan has written and its input's projections; the convolution and the steps are made again in backward (checkpoint_lvl 1)."""

    @staticmethod
    @custom_fwd
    def forward(ctx, xz, conv1d_weight, conv1d_bias, x_proj_weight, delta_proj_weight, out_proj_weight, out_proj_bias, A, D, delta_bias):
        L = xz.shape[-1]
        delta_rank = delta_proj_weight.shape[1]
        d_state = A.shape[-1]
        if torch.is_autocast_enabled():
            half = torch.get_autocast_dtype("cuda")
            x_proj_weight = x_proj_weight.to(dtype=half)
            delta_proj_weight = delta_proj_weight.to(dtype=half)
            out_proj_weight = out_proj_weight.to(dtype=half)
            out_proj_bias = out_proj_bias.to(dtype=half) if out_proj_bias is not None else None
        if xz.stride(-1) != 1:
            xz = xz.contiguous()
        conv1d_weight = conv1d_weight.squeeze(1)
        x, z = xz.chunk(2, dim=1)
        conv1d_bias = conv1d_bias.contiguous() if conv1d_bias is not None else None
        conv1d_out = causal_conv1d_fwd_function(x, conv1d_weight, conv1d_bias)
        x_dbl = F.linear(conv1d_out.permute(0, 2, 1).reshape(-1, conv1d_out.shape[1]), x_proj_weight)
        delta = by_sequence(delta_proj_weight @ x_dbl[:, :delta_rank].t(), L)
        B = x_dbl[:, delta_rank : delta_rank + d_state]
        B = state_rows(B, L)
        C = x_dbl[:, -d_state:]
        C = state_rows(C, L)
        D = D.contiguous()
        out, scan_intermediates, out_z = scan_fwd(conv1d_out, delta, A, B, C, D, z, delta_bias)
        ctx.out_proj_bias_is_None = out_proj_bias is None
        conv1d_out, delta = None, None
        ctx.save_for_backward(xz, conv1d_weight, conv1d_bias, x_dbl, x_proj_weight, delta_proj_weight, out_proj_weight, A, B, C, D, delta_bias,
                              scan_intermediates, out)
        return F.linear(out_z.permute(0, 2, 1), out_proj_weight, out_proj_bias)

    @staticmethod
    @custom_bwd
    def backward(ctx, dout):
        (xz, conv1d_weight, conv1d_bias, x_dbl, x_proj_weight, delta_proj_weight, out_proj_weight, A, B, C, D, delta_bias,
         scan_intermediates, out) = ctx.saved_tensors
        L = xz.shape[-1]
        delta_rank = delta_proj_weight.shape[1]
        d_state = A.shape[-1]
        x, z = xz.chunk(2, dim=1)
        if dout.stride(-1) != 1:
            dout = dout.contiguous()
        conv1d_out = causal_conv1d_fwd_function(x, conv1d_weight, conv1d_bias)
        delta = by_sequence(delta_proj_weight @ x_dbl[:, :delta_rank].t(), L)
        dxz = torch.empty_like(xz)
        dx, dz = dxz.chunk(2, dim=1)
        dout = dout.permute(2, 0, 1).reshape(dout.shape[2], -1)
        dout_y = by_sequence(out_proj_weight.t() @ dout, L)
        dconv1d_out, ddelta, dA, dB, dC, dD, ddelta_bias, dz, out_z = scan_bwd(
            conv1d_out, delta, A, B, C, D, z, delta_bias, dout_y, scan_intermediates, out, dz, True)
        dout_proj_weight = torch.einsum("eB,dB->ed", dout, by_channel(out_z))
        dout_proj_bias = dout.sum(dim=(0, 1)) if not ctx.out_proj_bias_is_None else None
        dx_dbl = torch.empty_like(x_dbl)
        dB = rows_of_state(dB)
        dx_dbl[:, delta_rank : delta_rank + d_state] = dB
        dB = None
        dC = rows_of_state(dC)
        dx_dbl[:, -d_state:] = dC
        dC = None
        ddelta = by_channel(ddelta)
        ddelta_proj_weight = torch.einsum("dB,Br->dr", ddelta, x_dbl[:, :delta_rank])
        dx_dbl[:, :delta_rank] = torch.einsum("dB,dr->Br", ddelta, delta_proj_weight)
        dconv1d_out = by_channel(dconv1d_out)
        dx_proj_weight = torch.einsum("Br,Bd->rd", dx_dbl, conv1d_out.permute(0, 2, 1).reshape(-1, conv1d_out.shape[1]))
        addmm_into(dconv1d_out, x_proj_weight.t(), dx_dbl.t())
        dconv1d_out = by_sequence(dconv1d_out, L)
        dx, dconv1d_weight, dconv1d_bias = causal_conv1d_bwd_function(x, conv1d_weight, conv1d_bias, dconv1d_out, dx)
        dconv1d_weight = dconv1d_weight.unsqueeze(1)
        return (dxz, dconv1d_weight, dconv1d_bias, dx_proj_weight, ddelta_proj_weight, dout_proj_weight, dout_proj_bias, dA, dD, ddelta_bias)


def mamba_inner_fn(*args):
    return MambaInnerFn.apply(*args)
