"""What files of the hub take of the flash-attn package, or write beside it as its own layers and padding have it (flash_attn 2, Dao-AILab/flash-attention)."""
import torch
import torch.nn.functional as F
from flash_attn import flash_attn_func, flash_attn_varlen_func
from torch import nn
from triton import launch


class RotaryKernel(torch.autograd.Function):
    """layers/rotary.py ApplyRotaryEmb, ops/triton/rotary.py apply_rotary: halves turned into a new tensor."""

    @staticmethod
    def forward(ctx, x, cos, sin):
        out = RotaryKernel.turned(x, cos, sin)
        ctx.save_for_backward(cos, sin)
        return out

    @staticmethod
    def backward(ctx, do):
        cos, sin = ctx.saved_tensors
        do = do.clone()  # for Triton 2.0; main of 2025 does without
        return RotaryKernel.turned(do, cos, sin), None, None

    @staticmethod
    def turned(x, cos, sin):
        cos, sin = cos.contiguous(), sin.contiguous()
        output = torch.empty_like(x)
        if 2 * cos.shape[-1] < x.shape[-1]:
            output[..., 2 * cos.shape[-1] :].copy_(x[..., 2 * cos.shape[-1] :])
        launch((x, cos, sin), (output,))
        return output


def unpad_input(states, tokens):
    valid = tokens.bool()  # the file reads it off the mask of numbers: eq(0)
    lengths = valid.sum(dim=-1, dtype=torch.int32)
    indices = torch.nonzero(valid.flatten(), as_tuple=False).flatten()
    longest = lengths.max().item()
    starts = F.pad(torch.cumsum(lengths, dim=0, dtype=torch.int32), (1, 0))
    states = states[indices]
    return states, indices, starts, longest


def pad_input(states, indices, batch, length):
    output = torch.zeros(batch * length, *states.shape[1:], device=states.device, dtype=states.dtype)
    output[indices] = states
    return output.view(batch, length, *output.shape[1:])


class FlashSelfAttention(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.dropout_p = dropout

    def forward(self, q, k, v, tokens=None):
        batch, length_q, length_k = q.shape[0], q.shape[1], k.shape[1]
        dropout_p = self.dropout_p if self.training else 0
        if batch == 1:
            return flash_attn_func(q, k, v, dropout_p, causal=True)
        length_out = length_q
        q, k, v = [x.reshape(-1, *x.shape[2:]) for x in [q, k, v]]
        starts_q = torch.arange(0, (batch + 1) * length_q, length_q, dtype=torch.int32, device=q.device)
        masked = tokens is not None
        if masked:
            k, indices, starts_k, length_k = unpad_input(k, tokens)
            if q.size(0) == v.size(0):
                q = q[indices]
                starts_q, length_q = starts_k, length_k
            v = v[indices]
        else:
            starts_k = torch.arange(0, (batch + 1) * length_k, length_k, dtype=torch.int32, device=q.device)
        output = flash_attn_varlen_func(q, k, v, starts_q, starts_k, length_q, length_k, dropout_p, causal=length_q == length_k)
        if masked and length_q == length_k:
            return pad_input(output, indices, batch, length_out)
        return output.view(batch, output.shape[0] // batch, *output.shape[1:])
