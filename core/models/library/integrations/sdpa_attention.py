"""torch's scaled_dot_product_attention behind the attention interface of transformers 5."""
import torch

from transformers.releases import quirks


def repeat_kv(x, n_rep):
    batch, kv_heads, seq, head_dim = x.shape
    if n_rep == 1:
        return x
    x = x[:, :, None, :, :].expand(batch, kv_heads, n_rep, seq, head_dim)
    return x.reshape(batch, kv_heads * n_rep, seq, head_dim)


def pack_gqa(x, n_rep):
    """Of one token, heads that share keys and values are rows of one head."""
    if x is None or x.shape[1] == 1:
        return x
    batch, heads, length, dim = x.shape
    return x.reshape(batch, heads // n_rep, n_rep, dim)


def use_gqa_in_sdpa(attention_mask, key, value):
    """Grouped heads in the kernel: only where no mask and a narrow head keep it off the math kernel."""
    return attention_mask is None and key.shape[-1] == value.shape[-1] <= 256


def sdpa_attention_forward(module, query, key, value, attention_mask, dropout=0.0, scaling=None, is_causal=None, **kwargs):
    grouped = {}
    length = query.shape[2]
    groups = getattr(module, "num_key_value_groups", 1)
    if groups > 1:
        if use_gqa_in_sdpa(attention_mask, key, value):
            grouped["enable_gqa"] = True
        elif length == 1 and quirks.sdpa_packs_heads:
            query = pack_gqa(query, groups)
            attention_mask = pack_gqa(attention_mask, groups)
        else:
            key = repeat_kv(key, groups)
            value = repeat_kv(value, groups)
    is_causal = is_causal if is_causal is not None else getattr(module, "is_causal", True)
    is_causal = length > 1 and attention_mask is None and is_causal
    if is_causal and key.shape[2] > length:
        key = key[:, :, :length, :]
        value = value[:, :, :length, :]
    output = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=attention_mask, dropout_p=dropout, scale=scaling, is_causal=is_causal, **grouped)
    output = output.reshape(output.shape[0], -1, length, value.shape[-1])
    output = output.transpose(1, 2).contiguous()
    return output, None
