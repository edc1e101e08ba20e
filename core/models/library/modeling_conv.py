"""Causal convolutions as the PyTorch code of modelling files makes them where causal-conv1d is not installed; transformers has no such file."""
import torch
import torch.nn.functional as F

from transformers.activations import ACT2FN
from transformers.trl.loop import reads


def apply_mask_to_padding_states(hidden_states, attention_mask):
    if attention_mask is not None:
        dtype = hidden_states.dtype
        hidden_states = (hidden_states * attention_mask[:, :, None]).to(dtype)
    return hidden_states


def causal_conv1d_update(hidden_states, conv_state, weight, bias=None, activation=None):
    """One token more: of what the state holds and the token; the state moves on."""
    _, hidden_size, seq_len = hidden_states.shape
    length = conv_state.shape[-1]
    joined = torch.cat([conv_state, hidden_states], dim=-1).to(weight.dtype)
    conv_state.copy_(joined[:, :, -length:])
    out = F.conv1d(joined, weight.unsqueeze(1), bias, padding=0, groups=hidden_size)
    out = out[:, :, -seq_len:]
    if activation is not None:
        out = ACT2FN[activation](out)
    return out.to(hidden_states.dtype)


def causal_conv1d_fn(hidden_states, weight, bias=None, activation=None, **kwargs):
    _, hidden_size, seq_len = hidden_states.shape
    out = F.conv1d(hidden_states.to(weight.dtype), weight=weight.unsqueeze(1), bias=bias, padding=weight.shape[-1] - 1, groups=hidden_size)[:, :, :seq_len]
    if activation is not None:
        out = ACT2FN[activation](out)
    return out.to(hidden_states.dtype)


def state_of(module, cache):
    """The convolution's state and the recurrent one, of a layer that has seen something."""
    if cache is None:
        return None, None
    return cache.get_conv_state(module.layer_idx), cache.get_recurrent_state(module.layer_idx)


def convolve(module, x, conv_state, cache, conv=None, held=None, cut=False, **kwargs):
    """[batch, channels, sequence], with what came before where there is a cache; the caller's frame holds x, and by earlier releases what is in `held`.
    `cut`: a class that takes the tail of what is whole too."""
    seq_len = x.shape[-1]
    conv = module.conv1d if conv is None else conv
    reads(conv)
    weight, bias = conv.weight.squeeze(1), conv.bias
    if conv_state is not None and seq_len == 1:
        return causal_conv1d_update(x, conv_state, weight, bias, activation=module.activation)
    if cache is not None:
        x = cache.update_conv_state(x, module.layer_idx, conv_kernel_size=module.conv_kernel_size)
    x = causal_conv1d_fn(x, weight, bias, activation=module.activation, **kwargs)
    if cache is not None or cut:
        x = x[:, :, -seq_len:]
    return x
