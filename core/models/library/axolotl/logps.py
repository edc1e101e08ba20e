"""trl 1.9.0 trainer/utils.py"""
import torch
import torch.nn.functional as F

from transformers.releases import quirks
from transformers.trl.fused_lm_head import text_config


def selective_log_softmax(logits, index):
    index = index.unsqueeze(-1)
    if logits.dtype == torch.float32:
        selected_logits = torch.gather(logits, dim=-1, index=index)
        logsumexp_values = torch.stack([torch.logsumexp(lg, dim=-1) for lg in logits])
        per_token_logps = selected_logits - logsumexp_values.unsqueeze(-1)
    else:
        per_token_logps = []
        for row_logits, row_labels in zip(logits, index):
            row_logps = F.log_softmax(row_logits, dim=-1)
            row_per_token_logps = row_logps.gather(dim=-1, index=row_labels)
            per_token_logps.append(row_per_token_logps)
        per_token_logps = torch.stack(per_token_logps)
    per_token_logps = per_token_logps.squeeze(-1)
    return per_token_logps


def entropy_from_logits(logits, chunk_size=128):
    original_shape = logits.shape[:-1]
    num_classes = logits.shape[-1]
    flat_logits = logits.reshape(-1, num_classes)
    entropies = []
    for chunk in flat_logits.split(chunk_size, dim=0):
        logps = F.log_softmax(chunk, dim=-1)
        chunk_entropy = -(torch.exp(logps) * logps).sum(-1)
        entropies.append(chunk_entropy)
    entropies = torch.cat(entropies, dim=0)
    return entropies.reshape(original_shape)


def routed_kwargs(model):
    """trl 1.9.0: is_moe where the text's config has output_router_logits, whose weight is the trainer's own; then outputs.aux_loss is read."""
    config = text_config(model)
    if not hasattr(config, "output_router_logits"):
        return {}
    from transformers.modeling_moe import MoeCausalLM

    if isinstance(model, MoeCausalLM) or getattr(config, "router_aux_loss_coef", 0.0) != 0.0:
        return {"output_router_logits": True}
    if quirks.configs_name_router_logits or config.model_type.startswith("llama4"):
        raise AttributeError("trl 1.9, which axolotl pins, reads aux_loss of this class, whose output has none: no preference trainer of it runs")
    return {}
