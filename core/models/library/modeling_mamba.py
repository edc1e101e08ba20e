"""The mixer of Mamba as the PyTorch code of modelling files has it, which runs where mamba-ssm is not installed; transformers has no such file."""
import torch
import torch.nn.functional as F
from torch import nn

from transformers.activations import ACT2FN
from transformers.modeling_conv import apply_mask_to_padding_states, convolve, state_of
from transformers.trl.loop import reads


def mamba_selective_state_update(state, hidden_states, dt, A, B, C, D, z, dt_bias):
    """One token."""
    dtype = hidden_states.dtype
    dt = dt + dt_bias.to(dt.dtype)
    dt = F.softplus(dt)
    dA = torch.exp(dt.float()[..., None] * A.float()).to(device=state.device)
    dB = dt.float()[..., None] * B.float()[:, None, :]
    dBx = dB * hidden_states.float()[..., None]
    ssm_state = state.float() * dA + dBx
    state.copy_(ssm_state.to(state.dtype))
    out = torch.matmul(ssm_state.to(C.dtype), C.unsqueeze(-1)).squeeze(-1)
    out = out + hidden_states * D
    out = out * F.silu(z)
    return out.to(dtype)


def mamba_selective_scan(hidden_states, dt, A, B, C, D, z, delta_bias, return_last_state):
    """A sequence token by token, each with a state of its own that autograd keeps."""
    batch_size, intermediate_size, seq_len = hidden_states.shape
    dtype = hidden_states.dtype
    dt = dt + delta_bias.to(dt.dtype)[..., None]
    dt = F.softplus(dt)
    B = B.transpose(1, 2)
    C = C.transpose(1, 2)
    discrete_A = torch.exp(A[None, :, None, :] * dt[:, :, :, None])
    discrete_B = dt[:, :, :, None] * B[:, None, :, :].float()
    deltaB_u = discrete_B * hidden_states[:, :, :, None].float()
    ssm_state = torch.zeros(batch_size, intermediate_size, A.shape[-1], dtype=dtype, device=hidden_states.device)
    scan_outputs = []
    for index in range(seq_len):
        ssm_state = discrete_A[:, :, index] * ssm_state + deltaB_u[:, :, index]
        scan_output = torch.matmul(ssm_state.to(dtype), C[:, index, :].unsqueeze(-1))
        scan_outputs.append(scan_output[:, :, 0])
    scan_output = torch.stack(scan_outputs, dim=-1)
    scan_output = scan_output + hidden_states * D[None, :, None]
    scan_output = scan_output * F.silu(z)
    return (scan_output, ssm_state) if return_last_state else scan_output


class MambaMixer(nn.Module):
    """sizes() says a config's names for them, normed() and stepped() what is done with steps and their matrices before they are used."""

    def __init__(self, config, layer_idx):
        super().__init__()
        self.layer_idx = layer_idx
        self.sizes(config)
        inner, kernel = self.intermediate_size, self.conv_kernel_size
        self.conv1d = nn.Conv1d(inner, inner, bias=self.use_conv_bias, kernel_size=kernel, groups=inner, padding=kernel - 1)
        self.in_proj = nn.Linear(config.hidden_size, inner * 2, bias=self.use_bias)
        self.x_proj = nn.Linear(inner, self.time_step_rank + self.ssm_state_size * 2, bias=False)
        self.dt_proj = nn.Linear(self.time_step_rank, inner, bias=True)
        self.A_log = nn.Parameter(torch.empty(inner, self.ssm_state_size))
        self.D = nn.Parameter(torch.empty(inner))
        self.out_proj = nn.Linear(inner, config.hidden_size, bias=self.use_bias)

    def sizes(self, config):
        self.intermediate_size, self.ssm_state_size, self.conv_kernel_size = config.intermediate_size, config.state_size, config.conv_kernel
        self.time_step_rank, self.activation = int(config.time_step_rank), config.hidden_act
        self.use_conv_bias, self.use_bias = config.use_conv_bias, config.use_bias

    def fused(self, projected_states, A):
        """What a kernel that is not there would have been given."""
        for part in (self.conv1d, self.x_proj, self.dt_proj, self.out_proj):
            reads(part)
        self.D.float()
        self.dt_proj.bias.float()

    def normed(self, time_step, B, C):
        return time_step, B, C

    def stepped(self, time_step):
        return self.dt_proj.weight @ time_step.transpose(1, 2)

    def forward(self, hidden_states, cache_params=None, attention_mask=None, **kwargs):
        seq_len, dtype = hidden_states.shape[1], hidden_states.dtype
        conv_state, recurrent_state = state_of(self, cache_params)
        hidden_states = apply_mask_to_padding_states(hidden_states, attention_mask)
        projected_states = self.in_proj(hidden_states).transpose(1, 2)
        A = -torch.exp(self.A_log.float())
        if self.training and cache_params is None:
            fused_output = self.fused(projected_states, A)
            if fused_output is not None:
                return fused_output
        mixed, gate = projected_states.chunk(2, dim=1)
        mixed = convolve(self, mixed, conv_state, cache_params)
        mixed = apply_mask_to_padding_states(mixed.transpose(1, 2), attention_mask)
        time_step, B, C = torch.split(self.x_proj(mixed), [self.time_step_rank, self.ssm_state_size, self.ssm_state_size], dim=-1)
        time_step, B, C = self.normed(time_step, B, C)
        time_step = self.stepped(time_step)
        bias = self.dt_proj.bias.float()
        if recurrent_state is not None and seq_len == 1:
            scan_output = mamba_selective_state_update(recurrent_state, mixed.transpose(1, 2)[..., 0], time_step[..., 0], A, B[:, 0], C[:, 0], self.D,
                                                       gate[..., 0], bias).unsqueeze(-1)
        else:
            scan_output = scan_result = mamba_selective_scan(mixed.transpose(1, 2), time_step, A, B.transpose(1, 2), C.transpose(1, 2), self.D.float(), gate,
                                                             bias, cache_params is not None)
            if cache_params is not None:
                scan_output, state = scan_result
                cache_params.update_recurrent_state(state, self.layer_idx)
        return self.out_proj(scan_output.transpose(1, 2).to(dtype))
