"""Attention as operators by earlier releases."""
from transformers.releases import quirks

if not quirks.sinks_cast_weights:

    def eager_attention_with_sinks(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **kwargs):
        keys = repeat_kv(key, module.num_key_value_groups)
        values = repeat_kv(value, module.num_key_value_groups)
        weights = torch.matmul(query, keys.transpose(2, 3)) * scaling
        if attention_mask is not None:
            weights = weights + attention_mask
        sinks = module.sinks.reshape(1, -1, 1, 1).expand(query.shape[0], -1, query.shape[-2], -1)
        logits = torch.cat([weights, sinks], dim=-1)
        logits = logits - logits.max(dim=-1, keepdim=True).values
        probs = nn.functional.softmax(logits, dim=-1, dtype=logits.dtype)
        scores = probs[..., :-1]
        weights = nn.functional.dropout(scores, p=dropout, training=module.training)
        output = torch.matmul(weights, values)
        output = output.transpose(1, 2).contiguous()
        return output, weights
