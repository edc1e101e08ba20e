"""The three ways into the flash-attn package: padded rows unpadded, packed rows by their positions, plain."""
import torch
import torch.nn.functional as F
from flash_attn import flash_attn_func, flash_attn_varlen_func
from flash_attn.bert_padding import pad_input


def _index_first_axis(x, indices):
    rows = x.reshape(-1, *x.shape[2:])
    return rows[indices]


def _unpad_data(attention_mask):
    lengths = attention_mask.sum(dim=-1, dtype=torch.int32)
    indices = torch.nonzero(attention_mask.flatten(), as_tuple=False).flatten()
    longest = lengths.max().item()
    starts = F.pad(torch.cumsum(lengths, dim=0, dtype=torch.int32), (1, 0))
    return indices, starts, longest


def _unpad(query, key, value, attention_mask, query_length):
    indices, starts, longest = _unpad_data(attention_mask)
    if key.shape[1] > (length := attention_mask.shape[-1]):
        key, value = key[:, :length, :, :], value[:, :length, :, :]
    assert query_length == key.shape[1], "flash attention of a part of the row"
    key = _index_first_axis(key, indices)
    value = _index_first_axis(value, indices)
    query = _index_first_axis(query, indices)
    return query, key, value, indices, starts, longest


def _is_packed_sequence(position_ids, batch, attention_mask):
    if attention_mask is not None or position_ids is None or batch != 1 or position_ids.shape[-1] == 1:
        return False
    rising = torch.arange(position_ids.shape[1], device=position_ids.device) + position_ids.min()
    return bool((rising - position_ids).abs().sum().bool())


def _by_positions(query, key, value, position_ids):
    query = query.contiguous().view(-1, query.size(-2), query.size(-1))
    key = key.contiguous().view(-1, key.size(-2), key.size(-1))
    value = value.contiguous().view(-1, value.size(-2), value.size(-1))
    like = {"dtype": torch.int32, "device": position_ids.device}
    position_ids = position_ids.reshape(-1)
    first = (position_ids == position_ids.min()).nonzero().view(-1)
    starts = torch.cat((first.to(**like), torch.tensor(position_ids.size(), **like)))
    longest = starts.diff().max()
    return query, key, value, starts, longest


def _wants_cast(query, value):
    return query.dtype == torch.float32


def _options(length, is_causal, softmax_scale, dropout, sliding_window, softcap):
    options = {"causal": is_causal, "softmax_scale": softmax_scale, "dropout_p": dropout}
    if sliding_window is not None and length > sliding_window:
        options["window_size"] = (sliding_window - 1, sliding_window - 1)
    if softcap is not None:
        options["softcap"] = softcap
    return options


def _flash_attention_forward(query, key, value, attention_mask, query_length, is_causal, dropout=0.0, position_ids=None, softmax_scale=None,
                             sliding_window=None, softcap=None, target_dtype=None, attn_implementation=None, **kwargs):
    batch = query.size(0)
    if target_dtype and _wants_cast(query, value):
        query, key, value = query.to(target_dtype), key.to(target_dtype), value.to(target_dtype)
    options = _options(key.size(1), is_causal, softmax_scale, dropout, sliding_window, softcap)
    packed = _is_packed_sequence(position_ids, batch, attention_mask)
    if attention_mask is not None:
        q, k, v, indices, starts, longest = _unpad(query, key, value, attention_mask, query_length)
        output = flash_attn_varlen_func(q, k, v, cu_seqlens_q=starts, cu_seqlens_k=starts, max_seqlen_q=longest, max_seqlen_k=longest, **options)
        return pad_input(output, indices, batch, query_length)
    if packed:
        q, k, v, starts, longest = _by_positions(query, key, value, position_ids)
        output = flash_attn_varlen_func(q, k, v, cu_seqlens_q=starts, cu_seqlens_k=starts, max_seqlen_q=longest, max_seqlen_k=longest, **options)
        return output.view(batch, -1, *output.shape[-2:])
    output = flash_attn_func(query, key, value, **options)
    return output


class FlashAttentionKwargs(dict):
    pass


def flash_attn_supports_top_left_mask():
    return False


def is_flash_attn_available(kernels_fallback_ok=True):
    return True
