"""scaled_dot_product_attention by earlier releases."""
from transformers.releases import quirks

if not (quirks.sdpa_shares_narrow_heads and quirks.sdpa_enables_gqa):

    def use_gqa_in_sdpa(attention_mask, key, value):
        return bool(quirks.sdpa_enables_gqa and quirks.sdpa_shares_heads and attention_mask is None
                    and (not quirks.sdpa_shares_narrow_heads or key.shape[-1] <= 256))


if quirks.sdpa_lays_out_inputs:

    def sdpa_attention_forward(module, query, key, value, attention_mask, dropout=0.0, scaling=None, is_causal=None, **kwargs):
        grouped = {}
        groups = getattr(module, "num_key_value_groups", 1)
        if groups > 1:
            if use_gqa_in_sdpa(attention_mask, key, value):
                grouped["enable_gqa"] = True
            else:
                key = repeat_kv(key, groups)
                value = repeat_kv(value, groups)
        query = query.contiguous()
        key = key.contiguous()
        value = value.contiguous()
        is_causal = query.shape[2] > 1 and attention_mask is None and getattr(module, "is_causal", True)
        output = torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=attention_mask, dropout_p=dropout, scale=scaling, is_causal=is_causal, **grouped)
        output = output.transpose(1, 2).contiguous()
        return output, None
