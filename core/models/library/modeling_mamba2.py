"""The mixer of Mamba 2 as the PyTorch code of modelling files has it, which runs where mamba-ssm is not installed; transformers has no such file."""
import torch
import torch.nn.functional as F
from torch import nn

from transformers.activations import ACT2FN
from transformers.modeling_conv import apply_mask_to_padding_states, convolve, state_of
from transformers.trl.loop import reads


class Mamba2Sizes:
    """Members of the configs of bamba, falcon_h1 and granitemoehybrid; first among the bases of theirs."""

    mamba_n_heads: int = 128
    mamba_d_head: str | int = "auto"
    mamba_n_groups: int = 1
    mamba_d_state: int = 256
    mamba_d_conv: int = 4
    mamba_d_ssm: int | None = None
    mamba_expand: int = 2
    mamba_chunk_size: int = 256
    mamba_conv_bias: bool = True
    mamba_proj_bias: bool = False
    time_step_limit: list = (0.0, float("inf"))

    def __post_init__(self, **kwargs):
        self.mamba_d_ssm = self.mamba_d_ssm or int(self.mamba_expand * self.hidden_size)
        if self.mamba_d_head == "auto":
            self.mamba_d_head = self.mamba_d_ssm // self.mamba_n_heads
        super().__post_init__(**kwargs)


def pad_tensor_by_size(x, pad_size):
    return F.pad(x, (0, 0, 0, 0, 0, pad_size, 0, 0) if len(x.shape) == 4 else (0, 0, 0, pad_size, 0, 0), mode="constant", value=0)


def reshape_into_chunks(x, pad_size, chunk_size):
    """[batch, sequence, ..] as [batch, chunks, chunk_size, ..]"""
    x = pad_tensor_by_size(x, pad_size)
    return x.reshape(x.shape[0], -1, chunk_size, *x.shape[2:])


def segment_sum(x):
    """Sums from each place of a chunk to each later one; minus infinity before it."""
    size = x.size(-1)
    x = x[..., None].expand(*x.size(), size)
    mask = torch.tril(torch.ones(size, size, device=x.device, dtype=torch.bool), diagonal=-1)
    x = x.masked_fill(~mask, 0)
    sums = torch.cumsum(x, dim=-2)
    mask = torch.tril(torch.ones(size, size, device=x.device, dtype=torch.bool), diagonal=0)
    sums = sums.masked_fill(~mask, -torch.inf)
    return sums


def mamba2_selective_state_update(state, hidden_states, dt, A, B, C, D=None, dt_bias=None, dt_softplus=False, z=None, **kwargs):
    """One token."""
    batch_size, num_heads, head_dim = hidden_states.shape
    num_groups, state_size = B.shape[1], B.shape[-1]
    if dt_bias is not None:
        dt = dt + dt_bias.to(dt.dtype)
    if dt_softplus:
        dt = F.softplus(dt)
    dt = dt[..., None]
    dA = torch.exp(dt.float() * A.float()).to(device=state.device)
    B = B.reshape(batch_size, num_groups, 1, state_size)
    B = B.expand(batch_size, num_groups, num_heads // num_groups, state_size).contiguous()
    B = B.reshape(batch_size, num_heads, 1, state_size)
    dB = dt * B
    dBx = (dB * hidden_states[..., None]).to(device=state.device)
    ssm_states = state * dA + dBx
    state.copy_(ssm_states.to(state.dtype))
    C = C.reshape(batch_size, num_groups, 1, state_size)
    C = C.expand(batch_size, num_groups, num_heads // num_groups, state_size).contiguous()
    C = C.reshape(batch_size, num_heads, state_size)
    ssm_states = ssm_states.to(device=C.device, dtype=C.dtype)
    out = torch.bmm(ssm_states.view(batch_size * num_heads, head_dim, state_size), C.view(batch_size * num_heads, state_size, 1))
    out = out.view(batch_size, num_heads, head_dim)
    if D is not None:
        out = (out + hidden_states * D).to(out.dtype)
    if z is not None:
        out = out * F.silu(z)
    return out.to(hidden_states.dtype)


def mamba2_chunk_scan(hidden_states, dt, A, B, C, chunk_size, D, dt_bias, initial_states, dt_limit, return_final_states):
    """A sequence by chunks. b: batch, c: chunk, l and s: places in a chunk, h: head, p: width of a head, n: of its state."""
    batch_size, sequence_length, num_heads, head_dim = hidden_states.shape
    num_groups = B.shape[2]
    dt = dt + dt_bias.to(dt.dtype)
    dt = F.softplus(dt)
    dt = torch.clamp(dt, min=dt_limit[0], max=dt_limit[1])
    hidden_states = hidden_states.float()
    B = B.float().repeat_interleave(num_heads // num_groups, dim=2, output_size=num_heads)
    C = C.float().repeat_interleave(num_heads // num_groups, dim=2, output_size=num_heads)
    pad_size = (chunk_size - sequence_length % chunk_size) % chunk_size
    D_residual = D[..., None] * pad_tensor_by_size(hidden_states, pad_size)
    hidden_states = hidden_states * dt[..., None].float()
    A = A.to(hidden_states.dtype) * dt.float()
    hidden_states, A, B, C = [reshape_into_chunks(t, pad_size, chunk_size) for t in (hidden_states, A, B, C)]
    A = A.permute(0, 3, 1, 2)
    A_cumsum = torch.cumsum(A, dim=-1)
    # within chunks
    L = torch.exp(segment_sum(A))
    G = torch.einsum("bclhn,bcshn->bclsh", C, B)
    M = G * L.permute(0, 2, 3, 4, 1)
    Y_diag = torch.einsum("bclsh,bcshp->bclhp", M, hidden_states)
    # what each chunk leaves, and what the next begins with
    decay_states = torch.exp(A_cumsum[:, :, :, -1:] - A_cumsum)
    B_decay = B * decay_states.permute(0, -2, -1, 1)[..., None]
    states = torch.einsum("bclhn,bclhp->bchpn", B_decay, hidden_states)
    if initial_states is not None:
        previous_states = initial_states[:, None].to(dtype=states.dtype, device=states.device)
    else:
        previous_states = torch.zeros_like(states[:, :1])
    states = torch.cat([previous_states, states], dim=1)
    decay_chunk = torch.exp(segment_sum(F.pad(A_cumsum[:, :, :, -1], (1, 0)))).transpose(1, 3)
    new_states = torch.einsum("bzch,bzhpn->bchpn", decay_chunk, states)
    states, final_state = new_states[:, :-1], new_states[:, -1]
    # what a chunk's places see of the state before it
    state_decay_out = torch.exp(A_cumsum)
    C_times_states = torch.einsum("bclhn,bchpn->bclhp", C, states)
    Y_off = C_times_states * state_decay_out.permute(0, 2, 3, 1)[..., None]
    output = (Y_diag + Y_off).contiguous()
    output = output.reshape(batch_size, -1, num_heads, head_dim)
    output = output + D_residual
    if pad_size > 0:
        output = output[:, :sequence_length]
    return (output, final_state) if return_final_states else output


class RMSNormGated(nn.Module):
    """Over groups of what the gate let through."""

    def __init__(self, hidden_size, group_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon, self.group_size = eps, group_size

    def forward(self, hidden_states, gate=None):
        dtype = hidden_states.dtype
        hidden_states = hidden_states.to(torch.float32)
        if gate is not None:
            hidden_states = hidden_states * nn.functional.silu(gate.to(torch.float32))
        *prefix, last = hidden_states.shape
        groups = last // self.group_size
        grouped = hidden_states.view(*prefix, groups, self.group_size)
        variance = grouped.pow(2).mean(-1, keepdim=True)
        grouped = grouped * torch.rsqrt(variance + self.variance_epsilon)
        hidden_states = grouped.view(*prefix, groups * self.group_size)
        return self.weight * hidden_states.to(dtype)


class Mamba2Mixer(nn.Module):
    """sizes() says a config's names for them; what else files do their own way are the methods below it."""

    def __init__(self, config, layer_idx):
        super().__init__()
        self.layer_idx, self.hidden_size = layer_idx, config.hidden_size
        self.sizes(config)
        self.conv_dim = self.intermediate_size + 2 * self.n_groups * self.ssm_state_size
        self.conv1d = nn.Conv1d(self.conv_dim, self.conv_dim, bias=self.use_conv_bias, kernel_size=self.conv_kernel_size, groups=self.conv_dim,
                                padding=self.conv_kernel_size - 1)
        self.in_proj = nn.Linear(self.hidden_size, self.intermediate_size + self.conv_dim + self.num_heads, bias=self.use_bias)
        self.dt_bias = nn.Parameter(torch.empty(self.num_heads))
        self.A_log = nn.Parameter(torch.empty(self.num_heads))
        self.norm = self.make_norm(config)
        self.D = nn.Parameter(torch.empty(self.num_heads))
        self.out_proj = nn.Linear(self.intermediate_size, self.hidden_size, bias=self.out_bias)

    def sizes(self, config):
        self.num_heads, self.head_dim = config.mamba_n_heads, config.mamba_d_head
        self.ssm_state_size, self.conv_kernel_size, self.n_groups = config.mamba_d_state, config.mamba_d_conv, config.mamba_n_groups
        self.intermediate_size = config.mamba_d_ssm
        self.use_bias = self.out_bias = config.mamba_proj_bias
        self.use_conv_bias, self.activation, self.eps = config.mamba_conv_bias, config.hidden_act, config.rms_norm_eps
        self.chunk_size, self.time_step_limit = config.mamba_chunk_size, config.time_step_limit

    def make_norm(self, config):
        return RMSNormGated(self.intermediate_size, group_size=self.intermediate_size // self.n_groups, eps=self.eps)

    def before(self, x):
        """What goes into in_proj."""
        return x

    def after(self, x):
        """What comes out of it."""
        return x

    def gated(self, scan_output, gate):
        return self.norm(scan_output, gate)

    def fused(self, projected_states, A):
        """What one kernel makes of all that follows, where there is one; it is given all that follows."""
        for part in (self.conv1d, self.norm, self.out_proj):
            reads(part)

    def forward(self, hidden_states, cache_params=None, attention_mask=None, **kwargs):
        batch_size, seq_len, _ = hidden_states.shape
        dtype = hidden_states.dtype
        conv_state, recurrent_state = state_of(self, cache_params)
        hidden_states = apply_mask_to_padding_states(hidden_states, attention_mask)
        hidden_states = self.before(hidden_states)
        projected_states = self.in_proj(hidden_states)
        projected_states = self.after(projected_states)
        A = -torch.exp(self.A_log.float())
        if self.training and cache_params is None:
            fused_output = self.fused(projected_states, A)
            if fused_output is not None:
                return fused_output
        gate, mixed, dt = projected_states.split([self.intermediate_size, self.conv_dim, self.num_heads], dim=-1)
        mixed = mixed.transpose(1, 2)
        mixed = convolve(self, mixed, conv_state, cache_params)
        mixed = apply_mask_to_padding_states(mixed.transpose(1, 2), attention_mask)
        wide = self.n_groups * self.ssm_state_size
        hidden_states, B, C = torch.split(mixed, [self.intermediate_size, wide, wide], dim=-1)
        if recurrent_state is not None and seq_len == 1:
            hidden_states = hidden_states.view(batch_size, self.num_heads, self.head_dim)
            scan_output = self.one(hidden_states, dt, A, B, C, recurrent_state, gate)
        else:
            scan_output = scan_result = mamba2_chunk_scan(
                hidden_states.view(batch_size, seq_len, -1, self.head_dim), dt, A, B.view(batch_size, seq_len, self.n_groups, -1),
                C.view(batch_size, seq_len, self.n_groups, -1), self.chunk_size, self.D, self.dt_bias, recurrent_state, self.time_step_limit,
                cache_params is not None)
            if cache_params is not None:
                scan_output, state = scan_result
                cache_params.update_recurrent_state(state, self.layer_idx)
            scan_output = scan_output.reshape(batch_size, seq_len, -1)
        scan_output = self.gated(scan_output, gate)
        out = self.out_proj(scan_output.to(dtype))
        return out

    def one(self, hidden_states, dt, A, B, C, recurrent_state, gate, z=None):
        """One token of a sequence that was begun."""
        batch_size = hidden_states.shape[0]
        dt = dt.transpose(1, 2).expand(-1, -1, self.head_dim)
        A = A[:, None, None].expand(-1, self.head_dim, self.ssm_state_size)
        B, C = B.view(batch_size, self.n_groups, self.ssm_state_size), C.view(batch_size, self.n_groups, self.ssm_state_size)
        D, dt_bias = self.D[:, None].expand(-1, self.head_dim), self.dt_bias[:, None].expand(-1, self.head_dim)
        scan_output = mamba2_selective_state_update(recurrent_state, hidden_states, dt, A, B, C, D, dt_bias=dt_bias, dt_softplus=True, z=z)
        return scan_output.view(batch_size, 1, -1)
