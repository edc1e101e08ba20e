"""Attention as operators, which each decoder has as a function of its own."""
import torch
from torch import nn

from transformers.integrations.sdpa_attention import repeat_kv


def eager_attention_forward(module, query, key, value, attention_mask, scaling=None, dropout=0.0, softcap=None, **kwargs):
    keys = repeat_kv(key, module.num_key_value_groups)
    values = repeat_kv(value, module.num_key_value_groups)
    weights = torch.matmul(query, keys.transpose(2, 3)) * scaling
    if softcap is not None:
        weights = weights / softcap
        weights = torch.tanh(weights)
        weights = weights * softcap
    if attention_mask is not None:
        weights = weights + attention_mask
    weights = nn.functional.softmax(weights, dim=-1, dtype=torch.float32).to(query.dtype)
    weights = nn.functional.dropout(weights, p=dropout, training=module.training)
    output = torch.matmul(weights, values)
    output = output.transpose(1, 2).contiguous()
    return output, weights


def eager_attention_with_sinks(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **kwargs):
    """With a logit a head that takes its share of the softmax and gives no value."""
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
    weights = nn.functional.dropout(scores, p=dropout, training=module.training).to(values.dtype)
    output = torch.matmul(weights, values)
    output = output.transpose(1, 2).contiguous()
    return output, weights


def eager_attention_without_cast(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **kwargs):
    """Its weights are not summed in fp32."""
    keys = repeat_kv(key, module.num_key_value_groups)
    values = repeat_kv(value, module.num_key_value_groups)
    weights = torch.matmul(query, keys.transpose(2, 3)) * scaling
    if attention_mask is not None:
        weights = weights + attention_mask
    weights = nn.functional.softmax(weights, dim=-1)
    weights = nn.functional.dropout(weights, p=dropout, training=module.training)
    output = torch.matmul(weights, values)
    output = output.transpose(1, 2).contiguous()
    return output, weights
