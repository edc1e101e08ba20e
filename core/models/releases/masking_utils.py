"""Masks by earlier releases: until masks_by_utils they are made in modeling_attn_mask_utils."""
from transformers.releases import quirks

if not quirks.attention_reads_is_causal:

    def _causal_alone(config):
        pass


if quirks.unmasked_rows_are_packed:

    def find_packed_sequence_indices(position_ids):
        before_first = position_ids[:, :1] - 1
        step = torch.diff(position_ids, prepend=before_first, dim=-1)
        sequence = (step != 1).cumsum(-1)
        return sequence


if not quirks.mask_looked_at_by_sum:

    def fast_all(x):
        return x.all()

    def _ignore_causal_mask_sdpa(padding_mask, q_length, kv_length, q_offset, kv_offset, local_size=None):
        short = local_size is None or kv_length < local_size
        return short and (q_length == 1 or kv_length == q_length) and (padding_mask is None or fast_all(padding_mask))


if quirks.mask_by_vmap:
    # torch.vmap for all of them

    def and_masks(*parts, mapped=True):
        def both(b, h, q, kv):
            result = q.new_ones(q.shape, dtype=torch.bool)
            for part in parts:
                result = result & part(b, h, q, kv).to(result.device)
            return result

        return both


if not quirks.packed_rows_count_anew:

    def packed_sequence_compatibility_function(function, position_ids, sequence):
        def same_sequence(b, h, q, kv):
            return sequence[b, q] == sequence[b, kv]

        return and_masks(function, same_sequence)


if quirks.mask_by_vmap or quirks.mask_by_cache_position:

    def _places(batch_size, q_length, kv_length, q_offset, kv_offset, device):
        if quirks.mask_by_vmap:
            keys = torch.arange(kv_length, device=device)  # += kv_offset
        batches = torch.arange(batch_size, device=device)
        heads = torch.arange(1, device=device)
        if not quirks.mask_by_cache_position:
            queries = torch.arange(q_length, device=device) + q_offset
        if not quirks.mask_by_vmap:
            keys = torch.arange(kv_length, device=device) + kv_offset
        if quirks.mask_by_cache_position:
            queries = keys[kv_length - q_length :] if q_length < kv_length else keys  # cache_position, which the model holds
        return batches, heads, queries, keys


if not quirks.masks_by_utils:
    from transformers.modeling_attn_mask_utils import prepare_4d_mask, update_causal_mask

    create_causal_mask = update_causal_mask if quirks.mask_by_position else prepare_4d_mask

    def create_masks_in_window(model, **of):
        """The one mask of all layers of mistral and qwen2."""
        if not quirks.mask_by_position or not quirks.mask_has_window:
            return [create_causal_mask(**of)] * len(model.layers)
        return [update_causal_mask(window=model.config.sliding_window, **of)] * len(model.layers)
