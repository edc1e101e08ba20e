"""liger_kernel/ops/fused_moe.py of 0.8: all experts of a layer in one function, whose host code makes what is here. A launch allocates nothing."""
import torch
from transformers.liger.ops import ensure_contiguous
from triton import cdiv, launch, next_power_of_2

BLOCK_M_TOKEN = 64


def compute_routing_metadata(topk_indices, E):
    """Where each expert's rows start, and the tiles they fill: their number is read back from the device."""
    T, K = topk_indices.shape
    TK = T * K
    device = topk_indices.device
    n_tiles = cdiv(T, max(1, 1024 // next_power_of_2(K)))
    tile_expert_counts = torch.empty(E, n_tiles, dtype=torch.int32, device=device)
    launch((topk_indices,), (tile_expert_counts,))
    expert_token_count = torch.histc(topk_indices, bins=E, min=0, max=E)  # tile_expert_counts.sum(dim=1): as many bytes, and known
    expert_start_idx = torch.empty(E + 1, dtype=torch.int32, device=device)
    expert_tile_offset = torch.empty(E + 1, dtype=torch.int32, device=device)
    launch((expert_token_count,), (expert_start_idx, expert_tile_offset, tile_expert_counts))
    num_m_tiles = sum(cdiv(count, BLOCK_M_TOKEN) for count in expert_token_count.tolist())
    tile_row_start = torch.empty(num_m_tiles, dtype=torch.int32, device=device)
    tile_expert = torch.empty(num_m_tiles, dtype=torch.int32, device=device)
    s_scatter_idx = torch.empty(TK, dtype=torch.int32, device=device)
    s_reverse_scatter_idx = torch.empty(TK, dtype=torch.int32, device=device)
    x_gather_idx = torch.empty(TK, dtype=torch.int32, device=device)
    launch((topk_indices, tile_expert_counts, expert_start_idx, expert_tile_offset),
           (s_scatter_idx, s_reverse_scatter_idx, x_gather_idx, tile_row_start, tile_expert))
    return expert_token_count, expert_start_idx, x_gather_idx, s_scatter_idx, s_reverse_scatter_idx, tile_row_start, tile_expert


def token_aggregation(Y, weights, s_reverse_scatter_idx, T, H):
    out = torch.empty(T, H, dtype=Y.dtype, device=Y.device)
    launch((Y, weights, s_reverse_scatter_idx), (out,))
    return out


class LigerFusedMoEFunction(torch.autograd.Function):
    """Keeps what goes into the gate, not what comes out of it or of the experts; gradients of all weights are made, frozen or not."""

    @staticmethod
    @ensure_contiguous
    def forward(ctx, x, gate_up_proj, down_proj, top_k_index, top_k_weights):
        T, K = top_k_index.shape
        E = gate_up_proj.shape[0]
        H = x.shape[1]
        intermediate_dim = gate_up_proj.shape[1] // 2
        TK = T * K
        _, expert_start_idx, x_gather_idx, s_scatter_idx, s_reverse_scatter_idx, tile_row_start, tile_expert = compute_routing_metadata(top_k_index, E)
        pre_act = torch.empty(TK, 2 * intermediate_dim, dtype=x.dtype, device=x.device)
        post_act = torch.empty(TK, intermediate_dim, dtype=x.dtype, device=x.device)
        launch((x, gate_up_proj, x_gather_idx, expert_start_idx, tile_row_start, tile_expert), (pre_act, post_act))
        Y = torch.empty(TK, H, dtype=x.dtype, device=x.device)
        launch((post_act, down_proj, expert_start_idx, tile_row_start, tile_expert), (Y,))
        topk_weights_flat = top_k_weights.flatten().contiguous()
        out = token_aggregation(Y, topk_weights_flat, s_reverse_scatter_idx, T, H)
        ctx.save_for_backward(x, gate_up_proj, down_proj, pre_act, topk_weights_flat, expert_start_idx, x_gather_idx, s_scatter_idx,
                              s_reverse_scatter_idx, tile_row_start, tile_expert)
        ctx.shape = T, K, H, intermediate_dim
        ctx.mark_non_differentiable(top_k_index)
        return out

    @staticmethod
    @ensure_contiguous
    def backward(ctx, dO):
        (x, gate_up_proj, down_proj, pre_act, topk_weights_flat, expert_start_idx, x_gather_idx, s_scatter_idx, s_reverse_scatter_idx, tile_row_start,
         tile_expert) = ctx.saved_tensors
        T, K, H, intermediate_dim = ctx.shape
        TK = T * K
        d_pre_act = torch.empty(TK, 2 * intermediate_dim, dtype=dO.dtype, device=dO.device)
        weighted_act = torch.empty(TK, intermediate_dim, dtype=dO.dtype, device=dO.device)
        dS = torch.zeros(TK, dtype=dO.dtype, device=dO.device)
        launch((dO, x_gather_idx, s_scatter_idx, topk_weights_flat, down_proj, pre_act, expert_start_idx, tile_row_start, tile_expert),
               (d_pre_act, weighted_act, dS))
        ddown_proj = torch.zeros_like(down_proj)
        launch((weighted_act, dO, x_gather_idx, expert_start_idx), (ddown_proj,))
        dx_expanded = torch.empty(TK, H, dtype=dO.dtype, device=dO.device)
        launch((d_pre_act, gate_up_proj, expert_start_idx, tile_row_start, tile_expert), (dx_expanded,))
        dx = torch.zeros(T, H, dtype=dO.dtype, device=dO.device)
        launch((dx_expanded, s_reverse_scatter_idx), (dx,))
        dgate_up_proj = torch.zeros_like(gate_up_proj)
        launch((x, d_pre_act, x_gather_idx, expert_start_idx), (dgate_up_proj,))
        return dx, dgate_up_proj, ddown_proj, None, dS.view(T, K)
