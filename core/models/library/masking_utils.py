"""Attention masks, as masking_utils of transformers 5 makes them: functions of indices, evaluated over a grid."""
import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask

from transformers.cache_utils import Cache
from transformers.releases import refuse
from transformers.utils.generic import GeneralInterface


def and_masks(*parts, mapped=False):
    """`mapped`: torch.vmap calls it for one row and makes all of it at once, so that what is new is as long as the rows are."""

    def both(b, h, q, kv):
        result = q.new_ones(q.shape if mapped else (), dtype=torch.bool)
        for part in parts:
            result = result & part(b, h, q, kv).to(result.device)
        return result

    return both


def causal_mask_function(b, h, q, kv):
    return kv <= q


def bidirectional_mask_function(b, h, q, kv):
    return q >= 0


def sliding_window_overlay(window):
    def inside(b, h, q, kv):
        return kv > q - window

    return inside


def sliding_window_causal_mask_function(window):
    return and_masks(sliding_window_overlay(window), causal_mask_function)


def sliding_window_bidirectional_mask_function(window):
    def near(b, h, q, kv):
        return abs(q - kv) <= window

    return and_masks(near, bidirectional_mask_function)


def chunked_causal_mask_function(size, left_padding):
    def same_chunk(b, h, q, kv):
        return (kv - left_padding[b]) // size == (q - left_padding[b]) // size

    return and_masks(same_chunk, causal_mask_function)


def padding_mask_function(padding_mask):
    def kept(b, h, q, kv):
        return padding_mask[b, kv]

    return kept


def packed_sequence_compatibility_function(function, position_ids, sequence):
    """Sequences of a row are blind to each other and count their positions from their own start."""

    def same_sequence(b, h, q, kv):
        return sequence[b, q] == sequence[b, kv]

    def own_positions(b, h, q, kv):
        return function(b, h, position_ids[b, q], position_ids[b, kv])

    return and_masks(same_sequence, own_positions)


def prepare_padding_mask(attention_mask, kv_length, kv_offset):
    local = attention_mask
    if attention_mask is not None and (short := kv_length + kv_offset - attention_mask.shape[-1]) > 0:
        local = F.pad(attention_mask, (0, short))
    return local


def fast_all(x):
    return x.sum() == x.numel()


def _ignore_causal_mask_sdpa(padding_mask, q_length, kv_length, q_offset, kv_offset, local_size=None):
    """The kernel's own is_causal will do."""
    if padding_mask is not None and padding_mask.shape[-1] > kv_length:
        columns = torch.arange(kv_length, device=padding_mask.device) + kv_offset
        padding_mask = padding_mask[:, columns]
    if local_size is not None and kv_length >= local_size:
        return False
    if (q_length == 1 or kv_length == q_length) and (padding_mask is None or fast_all(padding_mask)):
        return True
    return bool(q_offset == 0 and (padding_mask is None or (fast_all(padding_mask[:, :q_length]) and fast_all(~padding_mask[:, q_length:]))))


def _ignores(prompt_mask, padding_mask, q_length, kv_length, *of):
    """A mask that was made as long as a static cache is padded where the prompt's is."""
    if padding_mask is not prompt_mask and prompt_mask.shape[-1] == q_length:
        return bool(fast_all(prompt_mask) and fast_all(~padding_mask[:, q_length:]))
    return _ignore_causal_mask_sdpa(padding_mask, q_length, kv_length, *of)


def _ignore_bidirectional_mask_sdpa(padding_mask, kv_length, local_size=None):
    return (padding_mask is None or padding_mask.all()) and (local_size is None or kv_length < local_size)


def _grid(b, h, q, kv):
    b = b[:, None, None, None]
    h = h[None, :, None, None]
    q = q[None, None, :, None]
    kv = kv[None, None, None, :]
    return b, h, q, kv


def _places(batch_size, q_length, kv_length, q_offset, kv_offset, device):
    batches = torch.arange(batch_size, device=device)
    heads = torch.arange(1, device=device)
    queries = torch.arange(q_length, device=device) + q_offset
    keys = torch.arange(kv_length, device=device) + kv_offset
    return batches, heads, queries, keys


def sdpa_mask(batch_size, q_length, kv_length, q_offset=0, kv_offset=0, mask_function=causal_mask_function, attention_mask=None, local_size=None,
              allow_is_causal_skip=True, allow_is_bidirectional_skip=False, use_vmap=False, device="cpu", **kwargs):
    padding_mask = prepare_padding_mask(attention_mask, kv_length, kv_offset)
    if allow_is_causal_skip and _ignores(attention_mask, padding_mask, q_length, kv_length, q_offset, kv_offset, local_size):
        return None
    if allow_is_bidirectional_skip and _ignore_bidirectional_mask_sdpa(padding_mask, kv_length, local_size):
        return None
    if padding_mask is not None:
        mask_function = and_masks(mask_function, padding_mask_function(padding_mask), mapped=use_vmap)
    batches, heads, queries, keys = _places(batch_size, q_length, kv_length, q_offset, kv_offset, device)
    attention_mask = mask_function(*_grid(batches, heads, queries, keys))
    attention_mask = attention_mask.expand(batch_size, -1, q_length, kv_length)
    return attention_mask


def eager_mask(batch_size, q_length, kv_length, dtype=torch.float32, allow_is_causal_skip=None, **kwargs):
    mask = sdpa_mask(batch_size=batch_size, q_length=q_length, kv_length=kv_length, allow_is_causal_skip=False, **kwargs)
    if mask is not None:
        lowest = torch.finfo(dtype).min
        mask = torch.where(mask, torch.zeros((), device=mask.device, dtype=dtype), lowest)
    return mask


def flash_attention_mask(batch_size, q_length, kv_length, q_offset=0, kv_offset=0, mask_function=causal_mask_function, attention_mask=None, **kwargs):
    if attention_mask is not None:
        attention_mask = attention_mask[:, -kv_length:]
        if attention_mask.shape[1] == kv_length and attention_mask.all():
            attention_mask = None
    return attention_mask


def flex_attention_mask(batch_size, q_length, kv_length, q_offset=0, kv_offset=0, attention_mask=None, device="cpu", captured=(), causal=True, **kwargs):
    """`captured`: tensors that the mask's function reads, which every layer keeps."""
    if attention_mask is not None and not fast_all(attention_mask):
        captured = (*captured, prepare_padding_mask(attention_mask, kv_length, kv_offset))
    return create_block_mask(B=batch_size, Q_LEN=q_length, KV_LEN=kv_length, device=device, causal=causal, captured=captured)


class AttentionMaskInterface(GeneralInterface):
    _global_mapping = {
        "sdpa": sdpa_mask, "eager": eager_mask, "flash_attention_2": flash_attention_mask, "flash_attention_3": flash_attention_mask,
        "flex_attention": flex_attention_mask,
    }


ALL_MASK_ATTENTION_FUNCTIONS = AttentionMaskInterface()


def find_packed_sequence_indices(position_ids):
    before_first = position_ids[:, :1] - 1
    step = torch.diff(position_ids, prepend=before_first, dim=-1)
    sequence = (step != 1).cumsum(-1)
    if (sequence[:, -1] == 0).all():
        return None
    return sequence


def _preprocess(config, inputs_embeds, attention_mask, past_key_values, position_ids, layer_idx, encoder_hidden_states=None):
    """(nothing to do, mask, sequence of each token, query length, key length, their offsets)"""
    if attention_mask is not None and len(attention_mask.shape) == 4:
        return True, attention_mask, None, None, None, None, None
    if config._attn_implementation not in ALL_MASK_ATTENTION_FUNCTIONS._global_mapping:
        return True, None, None, None, None, None, None
    if attention_mask is not None and attention_mask.ndim == 2:
        attention_mask = attention_mask.to(device=inputs_embeds.device, dtype=torch.bool)
    q_length = inputs_embeds.shape[1]
    q_offset = kv_offset = 0
    if past_key_values is not None:
        q_offset = past_key_values.get_query_offset(layer_idx)
        kv_length, kv_offset = past_key_values.get_mask_sizes(q_length, layer_idx)
    elif attention_mask is not None:
        kv_length = attention_mask.shape[-1]
    else:
        kv_length = encoder_hidden_states.shape[1] if encoder_hidden_states is not None else q_length
    sequence = None
    if position_ids is not None and attention_mask is None and past_key_values is None:
        batch = inputs_embeds.shape[0]
        if batch != position_ids.shape[0]:
            position_ids = position_ids.expand(batch, -1)
        sequence = find_packed_sequence_indices(position_ids)
    return False, attention_mask, sequence, q_length, kv_length, q_offset, kv_offset


def _first_layer(cache, kind):
    """The first layer of the cache that is `kind`."""
    if isinstance(cache, Cache):
        sliding = cache.is_sliding
        if (kind == "sliding") in sliding:
            return sliding.index(kind == "sliding")
    return 0


def _create(function, kind, config, inputs_embeds, attention_mask, past_key_values, position_ids=None, or_mask_function=None,
            and_mask_function=None, local_size=None, allow_is_causal_skip=True, chunk=None):
    done, attention_mask, sequence, q_length, kv_length, q_offset, kv_offset = _preprocess(
        config, inputs_embeds, attention_mask, past_key_values, position_ids, _first_layer(past_key_values, kind))
    if done:
        return attention_mask
    batch_size, dtype, device = inputs_embeds.shape[0], inputs_embeds.dtype, inputs_embeds.device
    captured = ()
    if chunk is not None:
        if kv_length + kv_offset > chunk and "flash" in config._attn_implementation:
            refuse("/training/attention", f"a flash kernel knows no chunks of {chunk} tokens: transformers raises")
        left_padding = _left_padding(attention_mask, batch_size, device)
        function = chunked_causal_mask_function(chunk, left_padding)
        captured = (left_padding,)
    make = ALL_MASK_ATTENTION_FUNCTIONS[config._attn_implementation]
    own = and_mask_function is not None
    if q_length == 1 and getattr(past_key_values, "is_compileable", False):
        allow_is_causal_skip = False
    assert or_mask_function is None, "a mask function of a caller's own"
    if and_mask_function is not None:
        function = and_masks(function, and_mask_function, mapped=True)
    if sequence is not None:
        function = packed_sequence_compatibility_function(function, position_ids.expand(batch_size, -1), sequence)
    sizes = {} if local_size is None else {"local_size": local_size}
    if sequence is not None:
        captured = (*captured, sequence)
    mask = make(batch_size=batch_size, q_length=q_length, kv_length=kv_length, q_offset=q_offset, kv_offset=kv_offset, mask_function=function,
                attention_mask=attention_mask, allow_is_causal_skip=allow_is_causal_skip and not own and sequence is None, dtype=dtype, config=config, use_vmap=own,
                device=device, captured=captured, **sizes)
    return mask


def _causal_alone(config):
    if not getattr(config, "is_causal", True):
        refuse("/is_causal", "is_causal false: attention in both directions is not modelled")


def create_causal_mask(config, inputs_embeds, attention_mask, past_key_values, position_ids=None, or_mask_function=None, and_mask_function=None,
                       allow_is_causal_skip=True):
    _causal_alone(config)
    return _create(causal_mask_function, "full", config, inputs_embeds, attention_mask, past_key_values, position_ids, or_mask_function,
                   and_mask_function, allow_is_causal_skip=allow_is_causal_skip)


def create_sliding_window_causal_mask(config, inputs_embeds, attention_mask, past_key_values, position_ids=None, or_mask_function=None,
                                      and_mask_function=None):
    window = config.sliding_window
    if window is None:
        raise ValueError("sliding_window is not set")
    return _create(sliding_window_causal_mask_function(window), "sliding", config, inputs_embeds, attention_mask, past_key_values, position_ids,
                   or_mask_function, and_mask_function, local_size=window)


def _left_padding(attention_mask, batch_size, device):
    if attention_mask is None:
        return torch.zeros(batch_size, device=device, dtype=torch.int64)
    return (attention_mask.cumsum(dim=-1) == torch.zeros_like(attention_mask)).sum(dim=-1)


def create_chunked_causal_mask(config, inputs_embeds, attention_mask, past_key_values, position_ids=None, or_mask_function=None, and_mask_function=None):
    return _create(None, "sliding", config, inputs_embeds, attention_mask, past_key_values, position_ids, or_mask_function, and_mask_function,
                   local_size=config.attention_chunk_size, chunk=config.attention_chunk_size)


def create_recurrent_attention_mask(config, inputs_embeds, attention_mask, past_key_values=None, **kwargs):
    """Of padding, for layers that are no attention; none where nothing is padded."""
    if attention_mask is None or attention_mask.ndim != 2 or inputs_embeds.shape[1] == 1:
        return None
    if torch.all(attention_mask == 1):
        return None
    return attention_mask[:, -inputs_embeds.shape[1] :].contiguous()


def masks_of_hybrids(model, **of):
    """For layers that attend and scan: both masks, each."""
    return [(create_causal_mask(**of), create_recurrent_attention_mask(**of))] * len(model.layers)


def by_kind(masks, kinds):
    """For each layer the mask of its kind; behind them the mapping, which a forward's frame holds to its end, whichever masks it hands out."""
    return [masks.get(kind) for kind in kinds] + [masks]


def masks_of_kinds(model, **of):
    """For layers that attend or scan: the mask of each one's kind."""
    masks = {"full_attention": create_causal_mask(**of), "linear_attention": create_recurrent_attention_mask(**of)}
    masks["conv"] = masks["linear_attention"]
    return by_kind(masks, model.config.layer_types)


def create_masks_for_layers(model, **of):
    """A model's masks by layer: one for each of the kinds that its config names."""
    kinds = model.config.layer_types
    masks = {"full_attention": create_causal_mask(**of)}
    if "sliding_attention" in kinds:
        masks["sliding_attention"] = create_sliding_window_causal_mask(**of)
    return by_kind(masks, kinds)


def create_masks_for_generate(config, **of):
    """Of a cache that is written into, before forward: by kind where the config names kinds."""
    config = getattr(config, "text_config", None) or config
    make = {"full_attention": create_causal_mask, "sliding_attention": create_sliding_window_causal_mask}
    kinds = getattr(config, "layer_types", None)
    if kinds is None:
        return make["full_attention" if getattr(config, "sliding_window", None) is None else "sliding_attention"](config=config, **of)
    return {kind: function(config=config, **of) for kind, function in make.items() if kind in kinds}


def create_bidirectional_mask(config, inputs_embeds, attention_mask, encoder_hidden_states=None, past_key_values=None,
                              mask_function=bidirectional_mask_function, **sizes):
    done, attention_mask, _, q_length, kv_length, q_offset, kv_offset = _preprocess(
        config, inputs_embeds, attention_mask, past_key_values, None, 0, encoder_hidden_states)
    if done:
        return attention_mask
    embeds = encoder_hidden_states if encoder_hidden_states is not None else inputs_embeds
    make = ALL_MASK_ATTENTION_FUNCTIONS[config._attn_implementation]
    mask = make(batch_size=embeds.shape[0], q_length=q_length, kv_length=kv_length, q_offset=q_offset, kv_offset=kv_offset,
                mask_function=mask_function, attention_mask=attention_mask, allow_is_causal_skip=False,
                allow_is_bidirectional_skip=True, causal=False, dtype=embeds.dtype, config=config, use_vmap=False, device=inputs_embeds.device, **sizes)
    return mask


def create_bidirectional_sliding_window_mask(config, inputs_embeds, attention_mask, encoder_hidden_states=None, past_key_values=None):
    window = config.sliding_window
    return create_bidirectional_mask(config, inputs_embeds, attention_mask, encoder_hidden_states, past_key_values,
                                     sliding_window_bidirectional_mask_function(window), local_size=window)
