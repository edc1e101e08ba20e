"""Rotary of neighbouring elements, by a table of sines and cosines: gptj and codegen write it each for itself."""
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
