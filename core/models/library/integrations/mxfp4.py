"""Experts that stay in mxfp4: integrations/mxfp4.py of transformers 4.55 to 5.23 over kernels-community/gpt-oss-triton-kernels, whose host code makes
what is here: topk.py, routing.py, reduction_details/reduce_bitmatrix.py, matmul_ogs.py with opt_flags.py. Persistent kernels (compute capability 10, where
rows of scales end at 16 bytes, as gpt-oss's do not) raise there in Storage.make_tma()."""
import torch
from torch import nn
from triton import cdiv, launch, multiply, multiprocessors, next_power_of_2

MX = 32  # of weights that share a scale
MEMSET, BLOCK_MS = 512, 4  # 16, 32, 64 and 128 rows a tile


class Mxfp4GptOssExperts(nn.Module):
    """Two values a byte; a byte of scale for 32. Biases as the class declares them."""

    def __init__(self, config):
        super().__init__()
        self.num_experts, hidden, inner = config.num_experts, config.hidden_size, config.intermediate_size
        self.sizes = (hidden, 2 * inner), (inner, hidden)
        self.gate_up_proj = nn.Parameter(torch.zeros(self.num_experts, 2 * inner, hidden // 2, dtype=torch.uint8), requires_grad=False)
        self.gate_up_proj_scales = nn.Parameter(torch.zeros(self.num_experts, 2 * inner, hidden // MX, dtype=torch.uint8), requires_grad=False)
        self.gate_up_proj_bias = nn.Parameter(torch.zeros(self.num_experts, 2 * inner, dtype=torch.float32), requires_grad=False)
        self.down_proj = nn.Parameter(torch.zeros(self.num_experts, hidden, inner // 2, dtype=torch.uint8), requires_grad=False)
        self.down_proj_scales = nn.Parameter(torch.zeros(self.num_experts, hidden, inner // MX, dtype=torch.uint8), requires_grad=False)
        self.down_proj_bias = nn.Parameter(torch.zeros(self.num_experts, hidden, dtype=torch.float32), requires_grad=False)

    def forward_routed(self, hidden_states, routing):
        intermediate_cache1 = matmul_ogs(hidden_states, self.gate_up_proj, self.sizes[0], self.gate_up_proj_bias.to(torch.float32), routing, gathers=True)
        intermediate_cache3 = matmul_ogs(intermediate_cache1, self.down_proj, self.sizes[1], self.down_proj_bias.to(torch.float32), routing)
        return intermediate_cache3


class Routing:
    """RoutingData with its indices."""

    def __init__(self, gates, experts, chosen, *held):
        self.gates, self.experts, self.chosen, self.held = gates, experts, chosen, held


def best(logits, k):
    """topk_forward()"""
    rows, columns = logits.shape
    device = logits.device
    y_vals = torch.empty((rows, k), dtype=logits.dtype, device=device)
    y_indx = torch.empty((rows, k), dtype=torch.float16, device=device)  # int16
    bitmatrix = torch.empty((cdiv(columns, 32), cdiv(rows, 32) * 32), dtype=torch.int32, device=device)
    scratchpad = torch.empty((cdiv(columns, 128) * 128,), dtype=torch.int32, device=device)
    launch((logits,), (y_vals, y_indx, bitmatrix, scratchpad))
    return y_vals, y_indx, bitmatrix, scratchpad


def sort_tokens(y_vals, y_indx, experts, bitmatrix, hist):
    """SortTokens.forward(), _compute_expt_data_internal()"""
    rows, k = y_vals.shape
    gates, device = rows * k, y_vals.device
    partial_hist = torch.empty((cdiv(experts, 32) * 32, cdiv(rows, 128) * 4), dtype=torch.int32, device=device)
    launch((bitmatrix,), (hist, partial_hist))
    expt_offs = torch.empty(experts, dtype=torch.int32, device=device)
    combined_indx = torch.empty(gates * 2, dtype=torch.int32, device=device)
    gate_scal = torch.empty(gates, dtype=y_vals.dtype, device=device)
    tiles = gates if gates <= experts else experts - 1 + cdiv(gates - experts + 1, 16)
    token_offs_combined = torch.empty((BLOCK_MS + 1, cdiv(experts + 1, MEMSET) * MEMSET), dtype=torch.int32, device=device)
    block_pid_map = torch.empty((BLOCK_MS, cdiv(tiles, MEMSET) * MEMSET), dtype=torch.int32, device=device)
    launch((partial_hist,), (combined_indx, expt_offs, token_offs_combined, block_pid_map))
    launch((y_vals, y_indx, partial_hist, expt_offs), (combined_indx, gate_scal, token_offs_combined, block_pid_map))
    return Routing(gates, experts, k, hist, combined_indx, gate_scal, token_offs_combined, block_pid_map)


def routing(logits, k):
    y_vals, y_indx, bitmatrix, scratchpad = best(logits, k)
    return sort_tokens(y_vals, y_indx, logits.shape[1], bitmatrix, scratchpad)


def split_of(rows, inner, columns, routing):
    """make_default_opt_flags_nvidia(): parts that the inner dimension is cut in."""
    capability, processors = torch.cuda.get_device_capability(), multiprocessors()
    block_m = max(64 if capability[0] == 10 else 16, min(next_power_of_2(max(1, rows // routing.experts)), 128))
    block_n = 256 if columns > 128 else max(16, min(128, next_power_of_2(columns)))
    block_k = 128 if capability < (10, 0) else max(32, min(next_power_of_2(inner), 256))
    return max(1, min(processors // (cdiv(rows, block_m) * cdiv(columns, block_n)), cdiv(inner, block_k) // 4))


def matmul_ogs(x, weight, sizes, bias, routing, gathers=False):
    """With gathers: rows of each expert, and swiglu behind the product; else each token's rows are summed."""
    inner, columns = sizes
    rows = routing.gates
    tokens = rows // routing.chosen
    splits = split_of(rows, inner, columns, routing)
    taken = rows if gathers else tokens if splits > 1 else rows + tokens
    output = torch.empty((1, taken, columns // 2 if gathers else columns), dtype=x.dtype, device=x.device)
    scratchpad = torch.empty((splits, 1, rows, columns), dtype=torch.float32, device=x.device) if splits > 1 else None
    if not gathers and splits == 1 and routing.chosen > 1:
        writeback_idxs = torch.zeros((rows,), dtype=torch.int32, device=x.device)
        finalize_scatter_idxs = torch.zeros((tokens + rows + 1,), dtype=torch.int32, device=x.device)
        launch((writeback_idxs,), (finalize_scatter_idxs,))
    hit = min(rows, routing.experts)
    multiply(output, rows, inner, columns, hit * inner * columns // 2 + hit * inner * columns // MX)
    if splits > 1 or not gathers:
        launch((scratchpad,), (output,))
    out = output[0]
    return out if gathers else out[:tokens]


def mlp_forward(self, hidden_states):
    """Mxfp4GptOssMLP.forward()"""
    batch_size = hidden_states.shape[0]
    hidden_states = hidden_states.reshape(-1, self.router.hidden_dim)
    router_logits = nn.functional.linear(hidden_states, self.router.weight, self.router.bias)
    routed = routing(router_logits, self.router.top_k)
    routed_out = self.experts.forward_routed(hidden_states, routed)
    routed_out = routed_out.reshape(batch_size, -1, self.router.hidden_dim)
    return routed_out, router_logits
