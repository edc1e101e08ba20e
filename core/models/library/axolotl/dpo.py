"""core/trainers/dpo/trainer.py AxolotlDPOTrainer over trl 1.9.0 trainer/dpo_trainer.py DPOTrainer: loss_type ["sigmoid"], all logits, of which it logs entropy, means and hits.

After each step the cache is emptied.
"""
import torch
import torch.nn.functional as F

from transformers.axolotl.logps import entropy_from_logits, routed_kwargs, selective_log_softmax
from transformers.trl.loop import all_count, loss_begins, without_dropout
from transformers.trl.prepared import Prepared, disable_gradient_checkpointing, use_adapter


def prepare(model, reference):
    without_dropout()
    return Prepared(model), Prepared(reference, policy=False) if reference is not None else None


def compute_loss(models, inputs):
    return _compute_loss(models, inputs)


def _compute_loss(models, inputs):
    model, reference = models
    beta = 0.1
    model_kwargs = {name: inputs[name] for name in ("input_ids", "attention_mask")}
    routed = routed_kwargs(model.model)
    outputs = model(**model_kwargs, **routed, use_cache=False)
    loss_begins()
    input_ids = inputs["input_ids"]
    completion_mask = inputs["completion_mask"]
    shift_logits = outputs.logits[..., :-1, :]
    shift_labels = input_ids[..., 1:]
    shift_completion_mask = completion_mask[..., 1:]
    per_token_logps = selective_log_softmax(shift_logits, shift_labels)
    per_token_logps.masked_fill_(shift_completion_mask == 0, 0.0)
    logps = per_token_logps.sum(dim=1)
    chosen_logps, rejected_logps = logps.chunk(2, dim=0)
    if "ref_chosen_logps" in inputs:
        ref_chosen_logps, ref_rejected_logps = inputs["ref_chosen_logps"], inputs["ref_rejected_logps"]
    else:
        with torch.no_grad(), disable_gradient_checkpointing(model.model):
            if reference is None:
                with use_adapter():
                    ref_outputs = model(**model_kwargs, use_cache=False)
            else:
                ref_outputs = reference(**model_kwargs, use_cache=False)
        ref_shift_logits = ref_outputs.logits[..., :-1, :]
        ref_per_token_logps = selective_log_softmax(ref_shift_logits, shift_labels)
        ref_per_token_logps.masked_fill_(shift_completion_mask == 0, 0.0)
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
    per_token_entropy = entropy_from_logits(shift_logits.detach())
    entropy_sum = (per_token_entropy * shift_completion_mask).sum()
    total_tokens = shift_completion_mask.sum()
    chosen_logits, rejected_logits = shift_logits.detach().chunk(2, dim=0)
    chosen_mask, rejected_mask = shift_completion_mask.chunk(2, dim=0)
    total_chosen_logits = chosen_logits[all_count(chosen_mask.bool())].mean(-1).sum()
    total_chosen_tokens = chosen_mask.sum()
    total_rejected_logits = rejected_logits[all_count(rejected_mask.bool())].mean(-1).sum()
    predictions = chosen_logits.argmax(dim=-1)
    if routed:
        aux_loss = outputs.aux_loss
        loss = loss + 0.001 * aux_loss
    return loss
