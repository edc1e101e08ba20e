"""Biases of attention that fall with distance, a slope a head; transformers writes them in each model's file."""
import math

import torch


def powers_of(heads, count, step, device):
    base = torch.full((), 2 ** (-(2 ** -(math.log2(heads) - 3))), device=device, dtype=torch.float32)
    powers = torch.arange(1, 1 + count, step, device=device, dtype=torch.int32)
    return base, powers, torch.pow(base, powers)


def _get_alibi_slopes(heads, device):
    power = 2 ** math.floor(math.log2(heads))
    base, powers, slopes = powers_of(power, power, 1, device)
    if power != heads:
        extra_base, extra_powers, extra = powers_of(2 * power, 2 * min(power, heads - power), 2, device)
        slopes = torch.cat([slopes, extra], dim=0)
    return slopes


def build_alibi_tensor(attention_mask, heads, dtype):
    batch, seq = attention_mask.shape
    slopes = _get_alibi_slopes(heads, attention_mask.device)
    positions = ((attention_mask.cumsum(dim=-1) - 1) * attention_mask)[:, None, :]
    alibi = slopes[..., None] * positions
    return alibi.reshape(batch * heads, 1, seq).to(dtype)


def build_mpt_alibi_tensor(num_heads, sequence_length, alibi_bias_max=8, device=None):
    alibi = torch.arange(1 - sequence_length, 1, dtype=torch.int32, device=device).view(1, 1, 1, sequence_length)
    power = 2 ** math.ceil(math.log2(num_heads))
    base = torch.arange(1, power + 1, dtype=torch.int64, device=device).float()
    base = base * (alibi_bias_max / power)
    slopes = 1.0 / torch.pow(2, base)
    slopes = slopes.view(1, power, 1, 1)
    if power != num_heads:
        slopes = torch.concat([slopes[:, 1::2, ...], slopes[:, ::2, ...]], dim=1)[:, :num_heads, ...]
    alibi = alibi * slopes
    return alibi.squeeze(0)
