"""Rotary of neighbouring elements: gptj and codegen by a table of sines and cosines, glm and others by the halves of llama's tables."""
import torch


def create_sinusoidal_positions(length, dim):
    inv_freq = 1.0 / (10000 ** (torch.arange(0, dim, 2, dtype=torch.int64) / dim))
    angles = torch.arange(length, dtype=torch.int64).float()[:, None] * inv_freq
    return torch.cat((torch.sin(angles), torch.cos(angles)), dim=1)


def rotate_every_two(x):
    even = x[:, :, :, ::2]
    odd = x[:, :, :, 1::2]
    x = torch.stack((-odd, even), dim=-1)
    return x.flatten(-2)


def apply_rotary_pos_emb(x, sin, cos):
    sin = torch.repeat_interleave(sin[:, :, None, :], 2, 3)
    cos = torch.repeat_interleave(cos[:, :, None, :], 2, 3)
    return (x * cos) + (rotate_every_two(x) * sin)


def rotate_pairs(x):
    first = x[..., 0::2]
    second = x[..., 1::2]
    return torch.stack((-second, first), dim=-1).flatten(-2)


def doubled(cos, sin):
    """Tables whose halves are equal, of which each element stands for two neighbours."""
    cos = cos.unsqueeze(1)
    sin = sin.unsqueeze(1)
    cos = cos[..., : cos.shape[-1] // 2].repeat_interleave(2, dim=-1)
    sin = sin[..., : sin.shape[-1] // 2].repeat_interleave(2, dim=-1)
    return cos, sin


def apply_rotary_pos_emb_interleave(q, k, cos, sin):
    cos = cos[..., : cos.shape[-1] // 2].unsqueeze(1)
    sin = sin[..., : sin.shape[-1] // 2].unsqueeze(1)
    q_even, q_odd = q[..., 0::2], q[..., 1::2]
    k_even, k_odd = k[..., 0::2], k[..., 1::2]
    q_turned = torch.cat([q_even * cos - q_odd * sin, q_odd * cos + q_even * sin], dim=-1)
    k_turned = torch.cat([k_even * cos - k_odd * sin, k_odd * cos + k_even * sin], dim=-1)
    return q_turned, k_turned


def turn_as_complex(q, k, turns):
    """Neighbours as one complex number; `turns` broadcast over heads."""
    q_pairs = torch.view_as_complex(q.float().reshape(*q.shape[:-1], -1, 2))
    k_pairs = torch.view_as_complex(k.float().reshape(*k.shape[:-1], -1, 2))
    q_out = torch.view_as_real(q_pairs * turns).flatten(3)
    k_out = torch.view_as_real(k_pairs * turns).flatten(3)
    return q_out.type_as(q), k_out.type_as(k)
