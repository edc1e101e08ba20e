"""mamba_ssm 2.3: ops/triton/ssd_combined.py and what it calls, ssd_chunk_state.py, ssd_state_passing.py, ssd_bmm.py, ssd_chunk_scan.py, layernorm_gated.py."""
import torch
import torch.nn.functional as F
from transformers.releases import refuse
from transformers.scans import custom_bwd, custom_fwd, tuned
from transformers.scans.causal_conv1d import causal_conv1d_bwd_function, causal_conv1d_fwd_function, raises
from triton import cdiv, launch, multiprocessors, next_power_of_2


def ensure_stride(x):
    if x.shape[2] % 8:
        raises("the convolution's channels must be a multiple of 8")
    return x if x.stride(1) % 8 == 0 else x.contiguous()


def flat(x):
    """... p n -> ... (p n)"""
    return x.reshape(*x.shape[:-2], -1)


def chunk_cumsum_fwd(dt, A, chunk_size, dt_bias):
    batch, seqlen, nheads = dt.shape
    nchunks = cdiv(seqlen, chunk_size)
    dt_out = torch.empty(batch, nheads, nchunks, chunk_size, device=dt.device, dtype=torch.float32)
    dA_cumsum = torch.empty(batch, nheads, nchunks, chunk_size, device=dt.device, dtype=torch.float32)
    tuned("chunk_cumsum_fwd", dt, A, dt_bias, key=(chunk_size, nheads))
    launch((dt, A, dt_bias), (dt_out, dA_cumsum))
    return dA_cumsum, dt_out


def chunk_cumsum_bwd(ddA, ddt_out, dt, A, dt_bias, ddt):
    ddt_bias = torch.empty_like(dt_bias, dtype=torch.float32)
    dA = torch.empty_like(A, dtype=torch.float32)
    tuned("chunk_cumsum_bwd", dt, A, dt_bias, key=(ddA.shape[3], dt.shape[2]))
    launch((ddA, ddt_out, dt), (ddt, dA, ddt_bias))
    return ddt, dA, ddt_bias


def chunk_state_fwd(B, x, dt, dA_cumsum):
    batch, _, nheads, headdim = x.shape
    nchunks = dt.shape[2]
    dstate = B.shape[3]
    states = torch.empty((batch, nchunks, nheads, headdim, dstate), device=x.device, dtype=torch.float32)
    tuned("chunk_state_fwd", x, B, key=(headdim, dstate, dt.shape[3]))
    launch((x, B, dt, dA_cumsum), (states,))
    return states


def state_passing_fwd(states, dA_chunk_cumsum, out_dtype=None):
    batch, nchunks, nheads, dim = states.shape
    out = torch.empty((batch, nchunks, nheads, dim), device=states.device, dtype=states.dtype if out_dtype is None else out_dtype)
    final_states = torch.empty((batch, nheads, dim), device=states.device, dtype=torch.float32)
    tuned("state_passing_fwd", states, out, key=(dim,))
    launch((states,), (out, final_states))
    return out, final_states


def state_passing_bwd(states, dA_chunk_cumsum, dout, dtype):
    batch, nchunks, nheads, dim = states.shape
    dstates = torch.empty_like(dout, dtype=dtype)
    if dtype != states.dtype:
        states_converted = torch.empty_like(states, dtype=dtype)
    else:
        states_converted = None
    ddA_chunk_cumsum = torch.empty(batch, nheads, nchunks, cdiv(dim, 64), dtype=torch.float32, device=dA_chunk_cumsum.device)
    tuned("state_passing_bwd", dout, states, dstates, states_converted, key=(dim,))
    launch((dout, states), (dstates, states_converted, ddA_chunk_cumsum))
    ddA_chunk_cumsum = ddA_chunk_cumsum.sum(dim=-1).to(dtype=dA_chunk_cumsum.dtype)
    if dtype == states.dtype:
        states_converted = states
    return dstates, ddA_chunk_cumsum, states_converted


def bmm_chunk_fwd(a, b, chunk_size):
    batch, seqlen, ngroups, k = a.shape
    out = torch.empty((batch, cdiv(seqlen, chunk_size), ngroups, chunk_size, chunk_size), device=a.device, dtype=torch.float32)
    tuned("bmm_chunk_fwd", a, b, key=(chunk_size, k))
    launch((a, b), (out,))
    return out


def bmm_chunk_bwd(a, dout, residual, out):
    if dout.stride(-1) != 1 and dout.stride(-2) != 1:
        dout = dout.contiguous()
    if residual.stride(-1) != 1 and residual.stride(1) != 1:
        residual = residual.contiguous()
    tuned("bmm_chunk_bwd", a, dout, residual, key=(dout.shape[-1], a.shape[-1]))
    launch((a, dout, residual), (out,))


def chunk_scan_fwd(cb, x, dt, dA_cumsum, C, states, D, z):
    out = torch.empty(*x.shape, device=x.device, dtype=x.dtype)
    if z is not None:
        out_x = torch.empty(*x.shape, device=x.device, dtype=x.dtype)
    else:
        out_x = None
    tuned("chunk_scan_fwd", cb, x, z, out, out_x, D, key=(dt.shape[3], x.shape[3], C.shape[3]))
    launch((cb, x, z, dt, dA_cumsum, C, states, D), (out, out_x))
    return out, out_x


def chunk_scan_bwd_dz(x, z, out, dout, chunk_size, D, dz, recompute_output):
    batch, seqlen, nheads, headdim = x.shape
    dD = torch.empty(cdiv(chunk_size, 32), batch, cdiv(seqlen, chunk_size), nheads, 1, device=D.device, dtype=torch.float32)
    if dz is None:
        dz = torch.empty_like(z)
    outz = torch.empty_like(x) if recompute_output else None
    dout_x = torch.empty_like(dout)
    tuned("chunk_scan_bwd_dz", dout, out, z, x, D, key=(chunk_size, headdim))
    launch((dout, out, z, x, D), (outz, dz, dout_x, dD))
    dD = dD.sum(dim=(0, 1, 2)).to(dtype=D.dtype)
    dD = dD.squeeze(1)
    return dz, dout_x, dD, outz


def chunk_scan_bwd_dstates(C, dA_cumsum, dout, dtype):
    batch, _, nheads, headdim = dout.shape
    dprev_states = torch.empty(batch, dA_cumsum.shape[2], nheads, headdim, C.shape[3], device=C.device, dtype=dtype)
    tuned("chunk_scan_bwd_dstates", dout, C, key=(headdim, C.shape[3], dA_cumsum.shape[3]))
    launch((dout, C, dA_cumsum), (dprev_states,))
    return dprev_states


def splits(batch, nchunks, nheads, ngroups):
    """Into how many parts the heads of a group are summed"""
    ratio = nheads // ngroups
    return cdiv(ratio, max(min(cdiv(batch * nchunks * nheads, multiprocessors()), ratio), 1))


def chunk_scan_bwd_dC(prev_states, dA_cumsum, dout, C, ngroups):
    batch, nchunks, nheads, headdim, dstate = prev_states.shape
    ddA_cumsum_prev = torch.empty(*dA_cumsum.shape, device=dout.device, dtype=torch.float32)
    dC = torch.empty(batch, dout.shape[1], splits(batch, nchunks, nheads, ngroups), ngroups, dstate, device=dout.device, dtype=torch.float32)
    tuned("chunk_scan_bwd_dc", dout, prev_states, C, key=(dA_cumsum.shape[3], dstate, headdim))
    launch((dout, prev_states, C, dA_cumsum), (dC, ddA_cumsum_prev))
    dC = dC.sum(2)
    return dC, ddA_cumsum_prev


def chunk_state_bwd_db(x, dt, dA_cumsum, dstates, B, ngroups):
    batch, seqlen, nheads, headdim = x.shape
    dstate = dstates.shape[-1]
    ddA_cumsum = torch.empty(*dA_cumsum.shape, device=x.device, dtype=torch.float32)
    dB = torch.empty(batch, seqlen, splits(batch, dt.shape[2], nheads, ngroups), ngroups, dstate, device=x.device, dtype=torch.float32)
    tuned("chunk_state_bwd_db", x, dstates, B, key=(dt.shape[3], dstate, headdim))
    launch((x, dstates, B, dt, dA_cumsum), (dB, ddA_cumsum))
    dB = dB.sum(2)
    cumsum_into(ddA_cumsum)
    return dB, ddA_cumsum


def cumsum_into(x):
    """torch.cumsum(x, dim=-1, out=x): along rows, a kernel that makes nothing"""
    launch((x,), (x,))


def chunk_scan_bwd_dcb(x, dt, dA_cumsum, dout, ngroups):
    batch, seqlen, nheads, headdim = x.shape
    _, _, nchunks, chunk_size = dt.shape
    dcb = torch.empty(batch, nchunks, splits(batch, nchunks, nheads, ngroups), ngroups, chunk_size, chunk_size, device=x.device, dtype=torch.float32)
    tuned("chunk_scan_bwd_dcb", x, dout, key=(chunk_size, headdim))
    launch((x, dout, dt, dA_cumsum), (dcb,))
    dcb = dcb.sum(2)
    return dcb


def chunk_scan_chunk_state_bwd_dx(x, dt, dA_cumsum, B, CB, dout, dstates, D, dx):
    batch, _, nheads, headdim = x.shape
    _, _, nchunks, chunk_size = dt.shape
    dD = torch.zeros(cdiv(chunk_size, 32), batch, nchunks, nheads, 1, device=D.device, dtype=torch.float32)
    if dx is None:
        dx = torch.empty_like(x)
    ddt = torch.empty(batch, nheads, nchunks, chunk_size, device=dout.device, dtype=torch.float32)
    tuned("chunk_scan_chunk_state_bwd_dx", x, CB, dout, D, B, dstates, dx, key=(chunk_size, headdim, B.shape[3]))
    launch((x, CB, dout, dt, dA_cumsum, D, B, dstates), (dx, ddt, dD))
    dD = dD.sum(dim=(0, 1, 2))
    dD = dD.sum(dim=-1)
    dD = dD.to(dtype=D.dtype)
    return dx, ddt, dD


def chunk_scan_bwd_ddAcs_stable(x, dt, dA_cumsum, dout, cb):
    batch, seqlen, nheads, headdim = x.shape
    _, _, nchunks, chunk_size = dt.shape
    ddA_cumsum = torch.empty(batch, nheads, nchunks, cdiv(chunk_size, 32), chunk_size, device=x.device, dtype=torch.float32)
    tuned("chunk_scan_bwd_ddAcs_stable", x, dout, cb, key=(chunk_size, headdim))
    launch((x, dout, dt, dA_cumsum, cb), (ddA_cumsum,))
    ddA_cumsum = ddA_cumsum.sum(dim=3)
    return ddA_cumsum


def chunk_scan_combined_fwd(x, dt, A, B, C, chunk_size, D, z, dt_bias):
    if B.stride(-1) != 1:
        B = B.contiguous()
    if C.stride(-1) != 1:
        C = C.contiguous()
    if x.stride(-1) != 1 and x.stride(1) != 1:
        x = x.contiguous()
    if z is not None and z.stride(-1) != 1 and z.stride(1) != 1:
        z = z.contiguous()
    dstate = B.shape[3]
    dA_cumsum, dt = chunk_cumsum_fwd(dt, A, chunk_size, dt_bias)
    states = chunk_state_fwd(B, x, dt, dA_cumsum)
    states, final_states = state_passing_fwd(flat(states), dA_cumsum[:, :, :, -1], C.dtype)
    states, final_states = [t.reshape(*t.shape[:-1], -1, dstate) for t in [states, final_states]]
    CB = bmm_chunk_fwd(C, B, chunk_size)
    out, out_x = chunk_scan_fwd(CB, x, dt, dA_cumsum, C, states, D, z)
    return out, out_x, dt, dA_cumsum, states, final_states


def chunk_scan_combined_bwd(dout, x, dt, A, B, C, out, chunk_size, D, z, dt_bias, dx=None, ddt=None, dB=None, dC=None, dz=None, recompute_output=False):
    if dout.stride(-1) != 1:
        dout = dout.contiguous()
    ngroups, dstate = B.shape[2], B.shape[3]
    if dB is not None:
        dB_given = dB
    else:
        dB_given = torch.empty_like(B)
    if dC is not None:
        dC_given = dC
    else:
        dC_given = torch.empty_like(C)
    if ddt is not None:
        ddt_given = ddt
    else:
        ddt_given = torch.empty_like(dt)
    dt_in = dt.clone()
    dA_cumsum, dt = chunk_cumsum_fwd(dt_in, A, chunk_size, dt_bias)
    CB = bmm_chunk_fwd(C, B, chunk_size)
    states = chunk_state_fwd(B, x, dt, dA_cumsum)
    states, _ = state_passing_fwd(flat(states), dA_cumsum[:, :, :, -1])
    states = states.reshape(*states.shape[:-1], -1, dstate)
    if z is not None:
        dz, dout, dD, *rest = chunk_scan_bwd_dz(x, z, out, dout, chunk_size, D, dz, recompute_output)
        outz = rest[0] if recompute_output else out
    else:
        dz = None
        outz = out
    dstates = chunk_scan_bwd_dstates(C, dA_cumsum, dout, states.dtype)
    dstates, ddA_chunk_cumsum, states = state_passing_bwd(flat(states), dA_cumsum[:, :, :, -1], flat(dstates), x.dtype)
    states = states.reshape(*states.shape[:-1], -1, dstate)
    dstates = dstates.reshape(*dstates.shape[:-1], -1, dstate)
    dx, ddt, dD_from_x = chunk_scan_chunk_state_bwd_dx(x, dt, dA_cumsum, B, CB, dout, dstates, D, dx)
    dB, ddA_next = chunk_state_bwd_db(x, dt, dA_cumsum, dstates, B, ngroups)
    dC, ddA_cumsum_prev = chunk_scan_bwd_dC(states.to(x.dtype), dA_cumsum, dout, C, ngroups)
    dCB = chunk_scan_bwd_dcb(x, dt, dA_cumsum, dout, ngroups)
    dCB = dCB.to(CB.dtype)
    bmm_chunk_bwd(C, dCB, dB, dB_given)
    bmm_chunk_bwd(B, dCB.transpose(-1, -2), dC, dC_given)
    if z is None:
        dD = dD_from_x
    ddA_cumsum_prev[..., -1] += ddA_chunk_cumsum
    ddA_prev = ddA_cumsum_prev.flip([-1]).cumsum(dim=-1).flip([-1])
    ddA = chunk_scan_bwd_ddAcs_stable(x, dt, dA_cumsum, dout, CB)
    ddA += ddA_next + ddA_prev
    ddt_given, dA, ddt_bias = chunk_cumsum_bwd(ddA, ddt, dt_in, A, dt_bias, ddt_given)
    return dx, ddt_given, dA, dB_given, dC_given, dD, dz, ddt_bias, outz


class MambaChunkScanCombinedFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dt, A, B, C, chunk_size, D, dt_bias):
        out, out_x, dt_out, dA_cumsum, states, final_states = chunk_scan_combined_fwd(x, dt, A, B, C, chunk_size, D, None, dt_bias)
        ctx.save_for_backward(out, x, dt, dA_cumsum, A, B, C, D, dt_bias)
        ctx.chunk_size = chunk_size
        return out

    @staticmethod
    def backward(ctx, dout):
        out, x, dt, dA_cumsum, A, B, C, D, dt_bias = ctx.saved_tensors
        dx, ddt, dA, dB, dC, dD, dz, ddt_bias, _ = chunk_scan_combined_bwd(dout, x, dt, A, B, C, out, ctx.chunk_size, D, None, dt_bias)
        return dx, ddt, dA, dB, dC, None, dD, ddt_bias


def chunk_scan_combined(x, dt, A, B, C, chunk_size, D, dt_bias, initial_states, dt_limit, return_final_states):
    if return_final_states:
        refuse("/stack/mamba_ssm", "states that mamba-ssm hands back are not modelled")
    return MambaChunkScanCombinedFn.apply(x, dt, A, B, C, chunk_size, D, dt_bias)


def layer_norm_fwd(x, weight, z, group_size):
    M, N = x.shape
    ngroups = N // group_size
    out = torch.empty_like(x)
    rstd = torch.empty((ngroups * M,), dtype=torch.float32, device=x.device)
    launch((x, weight, z), (out, rstd))
    return out, rstd


def layer_norm_bwd(dy, x, weight, rstd, z, group_size, dz, out):
    N = x.shape[1]
    dx = torch.empty_like(x)
    num_warps = min(max(min(65536 // x.element_size(), next_power_of_2(group_size)) // 256, 1), 8)
    nrow_groups = cdiv(multiprocessors() * cdiv(4, num_warps), N // group_size)
    _dw = torch.empty((nrow_groups, N), dtype=torch.float32, device=weight.device)
    launch((x, weight, z, dy, rstd), (out, dx, _dw, dz))
    dw = _dw.sum(0).to(weight.dtype)
    return dx, dw, dz, out


class MambaSplitConv1dScanCombinedFn(torch.autograd.Function):
    """Keeps what goes in and what the scan has written; the convolution and the norm's output are made again in backward."""

    @staticmethod
    @custom_fwd
    def forward(ctx, zxbcdt, conv1d_weight, conv1d_bias, dt_bias, A, D, chunk_size, activation, rmsnorm_weight, outproj_weight, outproj_bias, headdim, ngroups):
        if activation not in (None, "silu", "swish"):
            raises("it knows no activation but silu")
        (nheads,) = D.shape
        batch, seqlen, width = zxbcdt.shape
        dim = nheads * headdim
        dstate = (conv1d_weight.shape[0] - dim) // ngroups // 2
        if width != 2 * dim + 2 * ngroups * dstate + nheads:
            refuse("/stack/mamba_ssm", "a mixer whose projection is wider than its state space is not modelled")
        z, xBC, dt = torch.split(zxbcdt, [dim, dim + ngroups * dstate * 2, nheads], dim=-1)
        xBC_conv = causal_conv1d_fwd_function(ensure_stride(xBC).permute(0, 2, 1), conv1d_weight, conv1d_bias).permute(0, 2, 1)
        x, B, C = torch.split(xBC_conv, [dim, ngroups * dstate, ngroups * dstate], dim=-1)
        x = x.reshape(batch, seqlen, nheads, headdim)
        B = B.reshape(batch, seqlen, ngroups, dstate)
        C = C.reshape(batch, seqlen, ngroups, dstate)
        z = z.reshape(batch, seqlen, nheads, headdim)
        if rmsnorm_weight is None:
            out, out_x, dt_out, dA_cumsum, states, final_states = chunk_scan_combined_fwd(x, dt, A, B, C, chunk_size, D, z, dt_bias)
            out = out.reshape(batch, seqlen, dim)
            rstd = None
        else:
            out_x, _, dt_out, dA_cumsum, states, final_states = chunk_scan_combined_fwd(x, dt, A, B, C, chunk_size, D, None, dt_bias)
            x_rms = out_x.reshape(batch * seqlen, dim)
            z_rms = z.reshape(batch * seqlen, dim)
            rmsnorm_weight = rmsnorm_weight.contiguous()
            out, rstd = layer_norm_fwd(x_rms, rmsnorm_weight, z_rms, dim // ngroups)
            out = out.reshape(batch, seqlen, dim)
        if torch.is_autocast_enabled():
            dtype = torch.get_autocast_dtype("cuda")
            out, outproj_weight = out.to(dtype), outproj_weight.to(dtype)
            outproj_bias = outproj_bias.to(dtype) if outproj_bias is not None else None
        out = F.linear(out, outproj_weight, outproj_bias)
        ctx.save_for_backward(zxbcdt, conv1d_weight, conv1d_bias, out_x, A, D, dt_bias, rmsnorm_weight, rstd, outproj_weight, outproj_bias)
        ctx.chunk_size = chunk_size
        ctx.headdim = headdim
        ctx.ngroups = ngroups
        return out

    @staticmethod
    @custom_bwd
    def backward(ctx, dout):
        zxbcdt, conv1d_weight, conv1d_bias, out, A, D, dt_bias, rmsnorm_weight, rstd, outproj_weight, outproj_bias = ctx.saved_tensors
        headdim, ngroups = ctx.headdim, ctx.ngroups
        nheads = D.shape[0]
        dim = nheads * headdim
        batch, seqlen = out.shape[0], out.shape[1]
        dstate = (conv1d_weight.shape[0] - dim) // ngroups // 2
        out_recompute = torch.empty(*out.shape[:2], dim, device=out.device, dtype=out.dtype)
        out0_recompute, out1_recompute = out_recompute.split([0, dim], dim=-1)
        z, xBC, dt = torch.split(zxbcdt, [dim, dim + 2 * ngroups * dstate, nheads], dim=-1)
        xBC_conv = causal_conv1d_fwd_function(ensure_stride(xBC).permute(0, 2, 1), conv1d_weight, conv1d_bias).permute(0, 2, 1)
        x, B, C = torch.split(xBC_conv, [dim, ngroups * dstate, ngroups * dstate], dim=-1)
        x = x.reshape(batch, seqlen, nheads, headdim)
        B = B.reshape(batch, seqlen, ngroups, dstate)
        C = C.reshape(batch, seqlen, ngroups, dstate)
        dzxbcdt = torch.empty_like(zxbcdt)
        dz, dxBC_given, ddt_given = torch.split(dzxbcdt, [dim, dim + 2 * ngroups * dstate, nheads], dim=-1)
        dxBC = torch.empty_like(xBC)
        dx, dB, dC = torch.split(dxBC, [dim, ngroups * dstate, ngroups * dstate], dim=-1)
        z = z.reshape(batch, seqlen, nheads, headdim)
        dx = dx.reshape(batch, seqlen, nheads, headdim)
        dB = dB.reshape(batch, seqlen, ngroups, dstate)
        dC = dC.reshape(batch, seqlen, ngroups, dstate)
        dout_og = dout
        dout = F.linear(dout, outproj_weight.t())
        dout = dout.reshape(batch, seqlen, nheads, headdim)
        if rmsnorm_weight is None:
            dz = dz.reshape(batch, seqlen, nheads, headdim)
            dx, ddt, dA, dB, dC, dD, dz, ddt_bias, outz = chunk_scan_combined_bwd(
                dout, x, dt, A, B, C, out, ctx.chunk_size, D, z, dt_bias, dx, ddt_given, dB, dC, dz, True)
            out_for_linear = outz.reshape(batch, seqlen, dim)
            drmsnorm_weight = None
        else:
            dy_rms = dout.reshape(batch * seqlen, dim)
            dz = dz.reshape(batch * seqlen, dim)
            x_rms = out.reshape(batch * seqlen, dim)
            z_rms = z.reshape(batch * seqlen, dim)
            out1_recompute = out1_recompute.reshape(batch * seqlen, dim)
            dout, drmsnorm_weight, dz, _ = layer_norm_bwd(dy_rms, x_rms, rmsnorm_weight, rstd, z_rms, dim // ngroups, dz, out1_recompute)
            out_for_linear = out_recompute
            dout = dout.reshape(batch, seqlen, nheads, headdim)
            dx, ddt, dA, dB, dC, dD, _, ddt_bias, _ = chunk_scan_combined_bwd(
                dout, x, dt, A, B, C, out, ctx.chunk_size, D, None, dt_bias, dx, ddt_given, dB, dC)
        doutproj_weight = torch.einsum("bso,bsd->od", dout_og, out_for_linear)
        doutproj_bias = dout_og.sum(dim=(0, 1)) if outproj_bias is not None else None
        dxBC_given_update, dweight, dbias = causal_conv1d_bwd_function(
            ensure_stride(xBC).permute(0, 2, 1), conv1d_weight, conv1d_bias, ensure_stride(dxBC).permute(0, 2, 1), ensure_stride(dxBC_given).permute(0, 2, 1))
        dxBC_given_update = dxBC_given_update.permute(0, 2, 1)
        if dxBC_given.stride() != dxBC_given_update.stride():
            dxBC_given.copy_(dxBC_given_update)
        else:
            dxBC_given = dxBC_given_update
        return dzxbcdt, dweight, dbias, ddt_bias, dA, dD, None, None, drmsnorm_weight, doutproj_weight, doutproj_bias, None, None


def split_conv1d_scan_combined(*args):
    return MambaSplitConv1dScanCombinedFn.apply(*args)
