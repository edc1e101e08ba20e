"""trl 1.16.0 trainer/kto_trainer.py KTOTrainer: loss_type "kto", whose divergence takes a forward of its own, without a graph, of each model.

Half of a batch's rows are desirable ones. What it logs is left out.
"""
import torch
import torch.nn.functional as F

from transformers.trl.fused_lm_head import add_fused_lm_head, router_aux_loss_coef
from transformers.trl.loop import half_count, without_dropout
from transformers.trl.prepared import Prepared, disable_gradient_checkpointing, use_adapter


def prepare(model, reference):
    without_dropout()
    add_fused_lm_head(model, ("log_probs", "entropy", "mean_logits"))
    if reference is not None:
        add_fused_lm_head(reference)
        return Prepared(model), Prepared(reference, policy=False)
    return Prepared(model), None


def _compute_kl_logps(model, batch):
    KL_labels = batch["KL_input_ids"].masked_fill(batch["KL_completion_mask"] == 0, -100)
    with torch.no_grad():
        KL_per_token_logps = model(input_ids=batch["KL_input_ids"], attention_mask=batch["KL_attention_mask"], labels=KL_labels).log_probs
    KL_logps = KL_per_token_logps[:, -(KL_labels.size(1) - 1) :].sum(-1)
    return KL_logps


def compute_loss(models, batch):
    return _compute_loss(models, batch)


def _compute_loss(models, batch):
    model, reference = models
    labels = half_count(batch["label"])
    num_chosen = labels.sum()
    num_rejected = len(labels) - num_chosen
    KL_logps = _compute_kl_logps(model, batch)
    model_kwargs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    coef = router_aux_loss_coef(model.model)
    routed = {"output_router_logits": True} if coef != 0.0 else {}
    completion_labels = batch["input_ids"].masked_fill(batch["completion_mask"] == 0, -100)
    outputs = model(**model_kwargs, **routed, labels=completion_labels)
    seq_len = batch["input_ids"].size(1) - 1
    per_token_logps = outputs.log_probs[:, -seq_len:]
    completion_logps = per_token_logps.sum(-1)
    chosen_idx = torch.nonzero(labels, as_tuple=False).view(-1)
    rejected_idx = torch.nonzero(~labels, as_tuple=False).view(-1)
    chosen_logps = completion_logps[chosen_idx]
    rejected_logps = completion_logps[rejected_idx]
    if "ref_logps" in batch:
        ref_chosen_logps = batch["ref_logps"][chosen_idx]
        ref_rejected_logps = batch["ref_logps"][rejected_idx]
        ref_KL_logps = batch["ref_KL_logps"]
    else:
        with torch.no_grad(), disable_gradient_checkpointing(model.model):
            if reference is None:
                with use_adapter():
                    ref_KL_logps = _compute_kl_logps(model, batch)
                    ref_outputs = model(**model_kwargs, labels=completion_labels)
            else:
                ref_KL_logps = _compute_kl_logps(reference, batch)
                ref_outputs = reference(**model_kwargs, labels=completion_labels)
        ref_per_token_logps = ref_outputs.log_probs[:, -seq_len:]
        ref_completion_logps = ref_per_token_logps.sum(-1)
        ref_chosen_logps = ref_completion_logps[chosen_idx]
        ref_rejected_logps = ref_completion_logps[rejected_idx]
    kl = (KL_logps - ref_KL_logps).mean().detach()
    kl = kl.mean().clamp(min=0)
    chosen_logratios = chosen_logps - ref_chosen_logps
    chosen_losses = 1 - F.sigmoid(0.1 * (chosen_logratios - kl))
    rejected_logratios = rejected_logps - ref_rejected_logps
    rejected_losses = 1 - F.sigmoid(0.1 * (kl - rejected_logratios))
    losses = torch.cat((1.0 * chosen_losses, 1.0 * rejected_losses), 0)
    loss = losses.mean()
    if coef != 0.0:
        aux_loss = outputs.aux_loss
        loss = loss + coef * aux_loss
    return loss
