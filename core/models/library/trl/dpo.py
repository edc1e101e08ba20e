"""trl 1.16.0 trainer/dpo_trainer.py DPOTrainer: loss_type ["sigmoid"], f_divergence_type "reverse_kl", no label smoothing, no weighting.

What it logs are means of a number a token, made when the tiles of the head are gone: left out.
"""
import torch
import torch.nn.functional as F

from transformers.trl.fused_lm_head import add_fused_lm_head, router_aux_loss_coef
from transformers.trl.loop import without_dropout
from transformers.trl.prepared import Prepared, disable_gradient_checkpointing, use_adapter


def prepare(model, reference):
    without_dropout()
    add_fused_lm_head(model, ("log_probs", "entropy", "mean_logits", "is_top1"))
    if reference is not None:
        add_fused_lm_head(reference)
        return Prepared(model), Prepared(reference, policy=False)
    return Prepared(model), None


def compute_loss(models, inputs):
    return _compute_loss(models, inputs)


def _compute_loss(models, inputs):
    model, reference = models
    beta = 0.1
    model_kwargs = {name: inputs[name] for name in ("input_ids", "attention_mask")}
    coef = router_aux_loss_coef(model.model)
    routed = {"output_router_logits": True} if coef != 0.0 else {}
    completion_mask = inputs["completion_mask"]
    shift_completion_mask = completion_mask[..., 1:]
    labels = inputs["input_ids"].masked_fill(completion_mask == 0, -100)
    outputs = model(**model_kwargs, **routed, labels=labels)
    seq_len = shift_completion_mask.size(1)
    per_token_logps = outputs.log_probs[:, -seq_len:]
    logps = per_token_logps.sum(dim=1)
    chosen_logps, rejected_logps = logps.chunk(2, dim=0)
    if "ref_chosen_logps" in inputs:
        ref_chosen_logps, ref_rejected_logps = inputs["ref_chosen_logps"], inputs["ref_rejected_logps"]
    else:
        with torch.no_grad(), disable_gradient_checkpointing(model.model):
            if reference is None:
                with use_adapter():
                    ref_outputs = model(**model_kwargs, labels=labels)
            else:
                ref_outputs = reference(**model_kwargs, labels=labels)
        ref_per_token_logps = ref_outputs.log_probs[:, -seq_len:]
        ref_logps = ref_per_token_logps.sum(dim=1)
        ref_chosen_logps, ref_rejected_logps = ref_logps.chunk(2, dim=0)
    chosen_logratios = chosen_logps - ref_chosen_logps
    rejected_logratios = rejected_logps - ref_rejected_logps
    chosen_scores = chosen_logratios
    rejected_scores = rejected_logratios
    delta_score = chosen_scores - rejected_scores
    loss = 0.0
    per_sequence_loss = -F.logsigmoid(beta * delta_score)
    loss += per_sequence_loss.mean() * 1.0
    if coef != 0.0:
        aux_loss = outputs.aux_loss
        loss = loss + coef * aux_loss
    return loss
