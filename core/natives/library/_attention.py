"""transformers/attention.cpp: what scaled_dot_product_attention() does where no kernel takes its operands as they are.

A name lives as long as the C++ local does; what ends before its frame is deleted.
"""
from math import sqrt

from torch import _half, autocast, bfloat16, bool as truth, float16, inf, ones, scalar_tensor
from torch._switches import attention_is_safe, flash_attention, float_mask
from torch.nn import functional as F


def attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, way):
    attn_mask = attn_mask if attn_mask is None else _half(attn_mask)  # arguments of C++, from the last
    value = _half(value)
    key = _half(key)
    query = _half(query)
    if not query.dtype == key.dtype == value.dtype:
        raise RuntimeError(f"Expected query, key, and value to have the same dtype, but got {query.dtype}, {key.dtype} and {value.dtype}")
    with autocast("cuda", enabled=False):
        return _WAYS[way](query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)


def _padded(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa):
    """pad_last_dim<8>: flash's heads"""
    width = query.shape[-1]
    query_padded, key_padded, value_padded = F.pad(query, (0, -width % 8)), F.pad(key, (0, -width % 8)), F.pad(value, (0, -width % 8))
    return flash_attention(query_padded, key_padded, value_padded, dropout_p, is_causal)[..., :width]


def _as_one(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa):
    """Three dimensions: heads of one row"""
    query, key, value = query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0)
    return F.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa).squeeze(0)


def _floats(mask, like):
    """convert_boolean_attn_mask"""
    return mask if mask is None or mask.dtype != truth else float_mask(mask, like)


def _math(query_, key_, value_, mask_, dropout_p, is_causal, scale, enable_gqa):
    given = _floats(mask_, query_)
    made, attn = _by_hand(query_, key_, value_, given, dropout_p, is_causal, scale, enable_gqa)
    del attn
    return made


def _by_hand(query_, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa):
    """_scaled_dot_product_attention_math"""
    dtype = query_.dtype
    upper = attention_is_safe() and dtype in (float16, bfloat16)
    query_acc, key_acc, value_acc = (query_.float(), key.float(), value.float()) if upper else (query_, key, value)
    factor = sqrt(scale if scale is not None else 1 / sqrt(query_.shape[-1]))
    query = query_acc * factor
    if is_causal:
        attn_mask = ones(query.shape[-2], key.shape[-2], dtype=truth, device=query.device).tril()
        attn_mask = _floats(attn_mask, query)
    key_expanded, value_expanded = key_acc, value_acc
    if enable_gqa:
        groups = query_.shape[-3] // key.shape[-3]
        key_expanded, value_expanded = key_acc.repeat_interleave(groups, -3), value_acc.repeat_interleave(groups, -3)
    attn = query.matmul(key_expanded.transpose(-2, -1) * factor)
    if attn_mask is not None:
        attn.add_(attn_mask)
    attn = _safe_softmax(attn) if attention_is_safe() else attn.softmax(-1)
    if dropout_p > 0:
        attn = F.dropout(attn, dropout_p, True)
    kept = attn.to(dtype)
    made = attn.matmul(value_expanded).to(dtype)
    return made, kept


def _safe_softmax(attn):
    made = attn.softmax(-1)
    masked = attn == -inf  # isneginf()
    rows = masked.all(-1, True)
    zero = scalar_tensor(0.0, dtype=made.dtype, device=made.device)
    del zero, rows, masked
    return made


_WAYS = {1: _padded, 2: _as_one, 3: _math}
