"""The way into the flash-attn package by earlier releases."""
from transformers.releases import quirks, refuse

if quirks.flash_looks_for_packing < 6:

    def _rising(position_ids, batch):
        """_is_packed_sequence until it asked for one row first."""
        rising = torch.arange(position_ids.shape[1], device=position_ids.device) + position_ids.min()
        return batch == 1 and (rising - position_ids).abs().sum().bool()

    def _is_packed_sequence(position_ids, batch, attention_mask=None):
        how = quirks.flash_looks_for_packing
        if position_ids is None or position_ids.shape[-1] == 1 or how == 0 or (attention_mask is not None and how not in (2, 4)):
            return False
        if how == 3:
            refuse("/stack/transformers", "4.54 cuts every batch without padding into sequences by its position ids "
                   "(modeling_flash_attention_utils.py _prepare_from_posids); that is not modelled")
        if how == 1 or (how == 2 and batch == 1):
            rises = (torch.diff(position_ids, dim=-1) >= 0).all()
            return attention_mask is None and not rises  # of a padded row it is asked and not looked at
        if how == 2:
            return False
        packed = _rising(position_ids, batch)
        return packed if how == 4 else bool(packed)


if quirks.flash_asks_values:

    def _wants_cast(query, value):
        """A class a kernel, which qwen2_moe and olmoe have still, asks queries before it comes here."""
        return (value if quirks.interface_attention else query).dtype == torch.float32


if quirks.flash_keeps_longest:

    def _unpad_data(attention_mask):
        lengths = attention_mask.sum(dim=-1, dtype=torch.int32)
        indices = torch.nonzero(attention_mask.flatten(), as_tuple=False).flatten()
        longest = lengths.max()
        starts = F.pad(torch.cumsum(lengths, dim=0, dtype=torch.int32), (1, 0))
        return indices, starts, longest


if not quirks.flash_indexes:
    from flash_attn.bert_padding import index_first_axis

    def _index_first_axis(x, indices):
        return index_first_axis(x.reshape(x.shape[0] * x.shape[1], -1).view(x.shape[0] * x.shape[1], -1, x.shape[-1]), indices)

elif quirks.flash_lays_out_tokens:

    def _index_first_axis(x, indices):
        rows = x.contiguous().reshape(-1, *x.shape[2:])
        return rows[indices]


if not quirks.flash_unpads_beside:

    def _flash_attention_forward(query, key, value, attention_mask, query_length, is_causal, dropout=0.0, position_ids=None, softmax_scale=None,
                                 sliding_window=None, softcap=None, target_dtype=None, attn_implementation=None, **kwargs):
        batch = query.size(0)
        if target_dtype and _wants_cast(query, value):
            query, key, value = query.to(target_dtype), key.to(target_dtype), value.to(target_dtype)
        options = _options(key.size(1), is_causal, softmax_scale, dropout, sliding_window, softcap)
        packed = _is_packed_sequence(position_ids, batch, attention_mask)
        if attention_mask is not None:
            query, key, value, indices, starts, longest = _unpad(query, key, value, attention_mask, query_length)
            output = flash_attn_varlen_func(query, key, value, cu_seqlens_q=starts, cu_seqlens_k=starts, max_seqlen_q=longest, max_seqlen_k=longest, **options)
            return pad_input(output, indices, batch, query_length)
        if packed:
            query, key, value, starts, longest = _by_positions(query, key, value, position_ids)
            output = flash_attn_varlen_func(query, key, value, cu_seqlens_q=starts, cu_seqlens_k=starts, max_seqlen_q=longest, max_seqlen_k=longest, **options)
            return output.view(batch, -1, *output.shape[-2:])
        return flash_attn_func(query, key, value, **options)
