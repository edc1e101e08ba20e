"""Masks until masking_utils.py: of a kernel's converter (AttentionMaskConverter), later of cache positions (_update_causal_mask of each model)."""
import torch

from transformers.releases import quirks, refuse


NO_WINDOW = object()  # the class knows none; None: its config has none


def is_full(attention_mask):
    if attention_mask is None:
        return True
    equal = attention_mask == 1
    full = torch.all(equal)
    return bool(full)


def unmask_unattended(mask, lowest):
    """Rows that attend to nothing attend to all, which the kernel wants."""
    return mask.mul(~torch.all(mask == lowest, dim=-1, keepdim=True))


def refuse_right_padding(attention_mask, past_key_values):
    if quirks.flash_wants_left_padding and past_key_values is not None and attention_mask[:, -1].sum().item() != attention_mask.shape[0]:
        refuse("/stack/transformers", "this release's flash attention of mistral and qwen2 refuses rows that are padded on the right while "
               "use_cache is on: modeling_mistral.py, modeling_qwen2.py")


# ------------------------------------------------------------------------------------------------------------ by a converter
def make_causal_mask(batch, seq, dtype, device, window, seen=0):
    lowest = torch.finfo(dtype).min
    mask = torch.full((seq, seq), lowest, device=device, dtype=torch.float32)
    places = torch.arange(seq, device=device)
    mask.masked_fill_(places < (places + 1).view(seq, 1), 0)
    mask = mask.to(dtype)
    if seen:
        mask = torch.cat([torch.zeros(seq, seen, dtype=dtype, device=device), mask], dim=-1)
    if window:
        context = torch.tril(torch.ones_like(mask, dtype=torch.bool), diagonal=-window)
        mask.masked_fill_(context, lowest)
    return mask[None, None, :, :].expand(batch, 1, seq, seen + seq)


def expand_mask(attention_mask, dtype, seq):
    batch = attention_mask.shape[0]
    expanded = attention_mask[:, None, None, :].expand(batch, 1, seq, attention_mask.shape[1]).to(dtype)
    inverted = 1.0 - expanded
    return inverted.masked_fill(inverted.to(torch.bool), torch.finfo(dtype).min)


def to_4d(attention_mask, batch, seq, dtype, device, window):
    """One token has no causal part where no window cuts it."""
    causal, seen = None, 0 if attention_mask is None else attention_mask.shape[1] - seq
    if seq > 1 or window:
        causal = make_causal_mask(batch, seq, dtype, device, window, seen)
    if attention_mask is None:
        return causal
    expanded = expand_mask(attention_mask, dtype, seq)
    if causal is None:
        return expanded
    expanded = causal.masked_fill(expanded.to(torch.bool), torch.finfo(dtype).min)
    return expanded


def prepare_4d_mask(config, inputs_embeds, attention_mask, past_key_values=None, position_ids=None):
    window, kernel = getattr(config, "sliding_window", None), config._attn_implementation
    batch, seq = inputs_embeds.shape[:2]
    if kernel == "flash_attention_2":
        if attention_mask is not None:
            refuse_right_padding(attention_mask, past_key_values)
        return flash_mask(attention_mask, False)
    if kernel == "sdpa" and (not window or seq < window) and is_full(attention_mask):
        return None
    mask = to_4d(attention_mask, batch, seq, inputs_embeds.dtype, inputs_embeds.device, window)
    if kernel == "sdpa" and attention_mask is not None:
        mask = unmask_unattended(mask, torch.finfo(inputs_embeds.dtype).min)
    return mask


# ------------------------------------------------------------------------------------------------------- by cache positions
def padded_places(mask, attention_mask):
    wide = attention_mask[:, None, None, :]
    if not quirks.mask_adds_padding:
        return mask.eq(0.0) * wide.eq(0.0)
    places = mask + wide
    places = places == 0
    return places


def cut(mask, position, window):
    """What lies above the diagonal, and behind the window; what has a name there."""
    if window is NO_WINDOW:
        mask *= torch.arange(mask.shape[-1], device=mask.device) > position.reshape(-1, 1)
        return None
    above = torch.arange(mask.shape[-1], device=mask.device) > position.reshape(-1, 1)
    behind = None
    if window is not None and quirks.mask_made_apart:
        behind = torch.arange(mask.shape[-1], device=mask.device) <= (position.reshape(-1, 1) - window)
        above |= behind
    elif window is not None:
        above |= torch.arange(mask.shape[-1], device=mask.device) <= (position.reshape(-1, 1) - window)
    mask *= above
    return above, behind


def mask_of_positions(inputs_embeds, attention_mask, position, window, spare=1):
    """The mask, and what of its making lives on with the caller."""
    batch, seq = inputs_embeds.shape[:2]
    dtype, places = inputs_embeds.dtype, None
    lowest = torch.finfo(dtype).min
    mask = torch.full((seq, seq if attention_mask is not None else seq + spare), lowest, dtype=dtype, device=inputs_embeds.device)
    if window is NO_WINDOW and seq != 1:
        mask = torch.triu(mask, diagonal=1)
    named = cut(mask, position, window)
    mask = mask[None, None, :, :].expand(batch, 1, -1, -1)
    if attention_mask is not None:
        mask = mask.clone()
        places = padded_places(mask, attention_mask)
        mask[:, :, :, :seq] = mask.masked_fill(places, lowest)
    return mask, None if quirks.mask_made_apart else (named, places)


def flash_mask(attention_mask, compares):
    if attention_mask is None:
        return None
    if compares:
        zeros = attention_mask == 0.0
        zeros.any()
    return attention_mask if 0.0 in attention_mask else None


def update_causal_mask(config, inputs_embeds, attention_mask, past_key_values=None, position_ids=None, window=NO_WINDOW, always=False):
    """always: whether the kernel needs a mask or not."""
    kernel, seq = config._attn_implementation, inputs_embeds.shape[1]
    if kernel == "flash_attention_2":
        if attention_mask is not None and window is not NO_WINDOW:
            refuse_right_padding(attention_mask, past_key_values)
        if always and quirks.gemma2_always_unpads:
            return attention_mask
        return flash_mask(attention_mask, quirks.mask_zeros_compared and window is NO_WINDOW and not always)
    if kernel == "sdpa" and not always and (window is NO_WINDOW or window is None or seq < window) and is_full(attention_mask):
        return None
    if quirks.mask_window_may_be_off and window is not NO_WINDOW and not getattr(config, "use_sliding_window", True):
        window = None
    mask, named = mask_of_positions(inputs_embeds, attention_mask, position_ids, window)
    if attention_mask is None:
        mask = mask[:, :, :, :seq]
    elif kernel == "sdpa" and not always:
        mask = unmask_unattended(mask, torch.finfo(inputs_embeds.dtype).min)
    return mask


def one_mask(self, **of):
    """A model's masks: one that all layers share, whatever the kernel makes of it."""
    return [update_causal_mask(always=True, **of)] * len(self.layers)


def cuts_window(forward):
    """A layer's forward that cuts its window out of the mask that all share, and holds what it was cut with to its end: gemma2's, gemma3's and cohere2's."""

    def cutting(self, hidden_states, attention_mask=None, position_ids=None, **kwargs):
        window = self.self_attn.keywords["sliding_window"]
        if window is not None and attention_mask is not None and self.self_attn.config._attn_implementation != "flash_attention_2":
            behind = torch.tril(torch.ones_like(attention_mask, dtype=torch.bool), diagonal=-window)
            attention_mask = torch.where(behind, torch.finfo(attention_mask.dtype).min, attention_mask)
            if quirks.gemma2_picks_columns:
                length = min(max(hidden_states.shape[1], window), attention_mask.shape[-1])
                offset = position_ids[0, -1] - length + 1
                offset = torch.clamp(offset, min=0)
                columns = torch.arange(length, device=attention_mask.device)
                columns += offset
                attention_mask = attention_mask[:, :, :, columns]
        return forward(self, hidden_states, attention_mask=attention_mask, position_ids=position_ids, **kwargs)

    return cutting
