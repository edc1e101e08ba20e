"""The flash-attn package behind the attention interface of transformers 5."""
import torch

from transformers.modeling_flash_attention_utils import _flash_attention_forward


def get_target_dtype(query, module):
    """What fp32 queries (norms in fp32, adapters) are cast to; None: as they are."""
    if query.dtype == torch.float32:
        if torch.is_autocast_enabled("cuda"):
            return torch.get_autocast_dtype("cuda")
        if hasattr(module.config, "_is_quantized"):
            return module.config.dtype
        return next(layer for layer in module.modules() if isinstance(layer, torch.nn.Linear)).weight.dtype
    return None


def flash_attention_forward(module, query, key, value, attention_mask, dropout=0.0, scaling=None, sliding_window=None, softcap=None,
                            is_causal=None, **kwargs):
    length = query.shape[2]
    query = query.transpose(1, 2)
    key = key.transpose(1, 2)
    value = value.transpose(1, 2)
    head_dim, value_dim = query.shape[-1], value.shape[-1]
    if value_dim != head_dim:
        value = torch.nn.functional.pad(value, [0, head_dim - value_dim])
    target_dtype = get_target_dtype(query, module)
    is_causal = is_causal if is_causal is not None else module.is_causal
    output = _flash_attention_forward(
        query, key, value, attention_mask, query_length=length, is_causal=is_causal, dropout=dropout, softmax_scale=scaling,
        sliding_window=sliding_window, softcap=softcap, target_dtype=target_dtype, attn_implementation=module.config._attn_implementation,
        **kwargs)
    if value_dim != head_dim:
        output = output[..., :value_dim]
    return output, None
