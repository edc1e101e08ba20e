"""fla 0.5 and 0.6: ops/gated_delta_rule/chunk.py and what it calls, chunk_fwd.py, wy_fast.py, ops/common/chunk_delta_h.py, chunk_o.py, ops/utils/cumsum.py,
modules/norm/l2norm.py. Its autotuner keeps on disk what it found (cache_results): no launch is measured."""
from functools import wraps

import torch
from transformers.releases import quirks, refuse
from transformers.scans import custom_bwd, custom_fwd
from triton import cdiv, launch, next_power_of_2, shared_memory

CHUNK = 64
ADA, AMPERE, HOPPER = 101376, 166912, 232448  # utils/hardware.py Backend


def input_guard(fn):
    """utils/decorators.py"""

    @wraps(fn)
    def wrapper(*args):
        processed_args = []
        for arg in args:
            processed_args.append(arg.contiguous() if isinstance(arg, torch.Tensor) else arg)
        return fn(*processed_args)

    return wrapper


def tile(x):
    """chunk_o.py CONST_TILING"""
    if shared_memory() >= HOPPER or quirks.fla_tiles_of_ampere and shared_memory() >= AMPERE and x.element_size() == 2:
        return 128
    return 64 if shared_memory() >= ADA else 32


def l2norm_fwd(x):
    shape = x.shape
    x = x.view(-1, x.shape[-1])
    y = torch.empty_like(x)
    rstd = torch.empty((x.shape[0],), dtype=torch.float32, device=x.device)
    launch((x,), (y, rstd))
    return y.view(shape), rstd.view(shape[:-1])


def l2norm_bwd(y, rstd, dy):
    shape = y.shape
    y = y.view(-1, dy.shape[-1])
    dy = dy.view(-1, dy.shape[-1])
    dx = torch.empty_like(y)
    launch((y, rstd, dy), (dx,))
    return dx.view(shape)


@input_guard
def chunk_local_cumsum(g):
    o = torch.empty_like(g, dtype=torch.float32)
    launch((g,), (o,))
    return o


def recompute_w_u_fwd(k, v, beta, A, g):
    w = k.new_empty(*v.shape[:3], k.shape[3])
    u = torch.empty_like(v)
    launch((k, v, beta, A, g), (w, u))
    return w, u


def fwd_intra(k, v, g, beta):
    A = torch.zeros(*v.shape[:3], CHUNK, device=k.device, dtype=k.dtype)
    launch((k, g, beta), (A,))
    w, u = recompute_w_u_fwd(k, v, beta, A, g)
    return w, u, A


def fwd_h(k, w, u, g, initial_state, output_final_state):
    B, T, HV, V = u.shape
    K = k.shape[3]
    if K > 256:
        refuse("/stack/fla", "fla raises: its kernels are of heads up to 256 wide")
    h = k.new_empty(B, cdiv(T, CHUNK), HV, K, V)
    final_state = k.new_zeros(B, HV, K, V, dtype=torch.float32) if output_final_state else None
    v_new = torch.empty_like(u)
    launch((k, w, u, g), (h, v_new, final_state))
    return h, v_new, final_state


def fwd_o(q, k, v, h, g):
    o = torch.empty_like(v)
    launch((q, k, v, h, g), (o,))
    return o


def bwd_dv_local(q, k, g, do):
    dv = torch.empty_like(do)
    launch((q, k, g, do), (dv,))
    return dv


def bwd_dhu(q, k, w, g, do, dv):
    B, T, HV, V = do.shape
    dh = q.new_empty(B, cdiv(T, CHUNK), HV, q.shape[3], V)
    dv2 = torch.empty_like(dv)
    launch((q, k, w, g, do, dv), (dh, dv2))
    return dh, dv2


def of_group(x, H):
    """Summed over the heads of values that share a head of keys"""
    B, T, HV, K = x.shape
    return x.view(B, T, H, HV // H, K).sum(3)


def bwd_dqkwg(q, k, v, w, g, h, dv, do, dh):
    B, T, H, K = k.shape
    HV = v.shape[2]
    NK = cdiv(K, min(max(next_power_of_2(K), 16), tile(q)))
    dq = q.new_empty(B, T, HV, K)
    dk = k.new_empty(B, T, HV, K)
    dg = torch.empty(NK, *g.shape, dtype=torch.float32, device=g.device)
    dw = torch.empty_like(w)
    launch((q, k, v, w, g, h, dv, do, dh), (dq, dk, dw, dg))
    if H != HV:
        dq = of_group(dq, H)
        dk = of_group(dk, H)
    dg = dg.sum(0)
    return dq, dk, dw, dg


def prepare_wy_repr_bwd(k, v, beta, A, dw, du, g):
    H, HV = k.shape[2], v.shape[2]
    dk = k.new_empty(*v.shape[:3], k.shape[3])
    dv = torch.empty_like(v)
    dg = torch.empty_like(g)
    db = torch.empty_like(beta)
    launch((k, v, beta, A, dw, du, g), (dk, dv, dg, db))
    if H != HV:
        dk = of_group(dk, H)
    return dk, dv, db, dg


def gated_delta_rule_fwd(q, k, v, g, beta, initial_state, output_final_state):
    g = chunk_local_cumsum(g)
    w, u, A = fwd_intra(k, v, g, beta)
    h, v_new, final_state = fwd_h(k, w, u, g, initial_state, output_final_state)
    o = fwd_o(q, k, v_new, h, g)
    return g, o, A, final_state


def gated_delta_rule_bwd(q, k, v, g, beta, A, do):
    w, u = recompute_w_u_fwd(k, v, beta, A, g)
    h, v_new, _ = fwd_h(k, w, u, g, None, False)
    dv = bwd_dv_local(q, k, g, do)
    dh, dv = bwd_dhu(q, k, w, g, do, dv)
    dq, dk, dw, dg = bwd_dqkwg(q, k, v_new, w, g, h, dv, do, dh)
    dk2, dv, db, dg2 = prepare_wy_repr_bwd(k, v, beta, A, dw, dv, g)
    dk.add_(dk2)
    dg.add_(dg2)
    dg = chunk_local_cumsum(dg)
    return dq, dk, dv, db, dg


class ChunkGatedDeltaRuleFunction(torch.autograd.Function):
    """Keeps queries and keys of length one, the solved systems of the chunks and the sums of their decays; all else is made again in backward."""

    @staticmethod
    @input_guard
    @custom_fwd
    def forward(ctx, q, k, v, g, beta, initial_state, output_final_state):
        q, q_rstd = l2norm_fwd(q)
        k, k_rstd = l2norm_fwd(k)
        g, o, A, final_state = gated_delta_rule_fwd(q, k, v, g, beta, initial_state, output_final_state)
        ctx.save_for_backward(q, q_rstd, k, k_rstd, v, g, beta, A)
        return o.to(q.dtype), final_state

    @staticmethod
    @input_guard
    @custom_bwd
    def backward(ctx, do, dht):
        q, q_rstd, k, k_rstd, v, g, beta, A = ctx.saved_tensors
        dq, dk, dv, db, dg = gated_delta_rule_bwd(q, k, v, g, beta, A, do)
        dq = l2norm_bwd(q, q_rstd, dq)
        dk = l2norm_bwd(k, k_rstd, dk)
        return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), dg.to(g.dtype), db.to(beta.dtype), None, None


def chunk_gated_delta_rule(query, key, value, g, beta, initial_state, output_final_state):
    if output_final_state:
        refuse("/stack/fla", "states that flash-linear-attention hands back are not modelled")
    return ChunkGatedDeltaRuleFunction.apply(query, key, value, g, beta, initial_state, output_final_state)
