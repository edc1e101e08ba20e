"""core/trainers/trl.py AxolotlKTOTrainer over trl 1.9.0 trainer/kto_trainer.py KTOTrainer: loss_type "kto", whose divergence takes a forward of its own, without a graph, of each model.

Half of a batch's rows are desirable ones. All logits, of which it logs entropy and means; numbers a row of what it logs are left out.
"""
import torch
import torch.nn.functional as F

from transformers.axolotl.dpo import prepare
from transformers.axolotl.logps import entropy_from_logits, routed_kwargs, selective_log_softmax
from transformers.trl.loop import all_count, half_count, loss_begins
from transformers.trl.prepared import disable_gradient_checkpointing, use_adapter


def _compute_kl_logps(model, batch, **cache):
    with torch.no_grad():
        KL_logits = model(input_ids=batch["KL_input_ids"], attention_mask=batch["KL_attention_mask"], **cache).logits
    KL_shift_logits = KL_logits[:, :-1, :]
    KL_per_token_logps = selective_log_softmax(KL_shift_logits, batch["KL_input_ids"][:, 1:])
    KL_per_token_logps.masked_fill_(batch["KL_completion_mask"][:, 1:] == 0, 0.0)
    KL_logps = KL_per_token_logps.sum(-1)
    return KL_logps


def compute_loss(models, inputs):
    return _compute_loss(models, inputs)


def _compute_loss(models, batch):
    model, reference = models
    labels = half_count(batch["label"])
    num_chosen = labels.sum()
    num_rejected = len(labels) - num_chosen
    KL_logps = _compute_kl_logps(model, batch)
    model_kwargs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    routed = routed_kwargs(model.model)
    outputs = model(**model_kwargs, **routed)
    loss_begins()
    shift_logits = outputs.logits[:, :-1, :]
    per_token_logps = selective_log_softmax(shift_logits, batch["input_ids"][:, 1:])
    per_token_logps.masked_fill_(batch["completion_mask"][:, 1:] == 0, 0.0)
    completion_logps = per_token_logps.sum(-1)
    chosen_idx = torch.nonzero(labels, as_tuple=False).view(-1)
    rejected_idx = torch.nonzero(~labels, as_tuple=False).view(-1)
    chosen_logps = completion_logps.index_select(0, chosen_idx)
    rejected_logps = completion_logps.index_select(0, rejected_idx)
    if "ref_logps" in batch:
        ref_chosen_logps = batch["ref_logps"].index_select(0, chosen_idx)
        ref_rejected_logps = batch["ref_logps"].index_select(0, rejected_idx)
        ref_KL_logps = batch["ref_KL_logps"]
    else:
        with torch.no_grad(), disable_gradient_checkpointing(model.model):
            if reference is None:
                with use_adapter():
                    ref_KL_logps = _compute_kl_logps(model, batch)
                    ref_outputs = model(**model_kwargs)
            else:
                cache = {"use_cache": reference.model._uses_cache}  # nobody turns its own off
                ref_KL_logps = _compute_kl_logps(reference, batch, **cache)
                ref_outputs = reference(**model_kwargs, **cache)
        ref_shift_logits = ref_outputs.logits[:, :-1, :]
        ref_per_token_logps = selective_log_softmax(ref_shift_logits, batch["input_ids"][:, 1:])
        ref_per_token_logps.masked_fill_(batch["completion_mask"][:, 1:] == 0, 0.0)
        ref_completion_logps = ref_per_token_logps.sum(-1)
        ref_chosen_logps = ref_completion_logps.index_select(0, chosen_idx)
        ref_rejected_logps = ref_completion_logps.index_select(0, rejected_idx)
    kl = (KL_logps - ref_KL_logps).mean().detach()
    kl = kl.mean().clamp(min=0)
    chosen_logratios = chosen_logps - ref_chosen_logps
    chosen_losses = 1 - F.sigmoid(0.1 * (chosen_logratios - kl))
    chosen_rewards = 0.1 * chosen_logratios.detach()
    rejected_logratios = rejected_logps - ref_rejected_logps
    rejected_losses = 1 - F.sigmoid(0.1 * (kl - rejected_logratios))
    rejected_rewards = 0.1 * rejected_logratios.detach()
    losses = torch.cat((1.0 * chosen_losses, 1.0 * rejected_losses), 0)
    per_token_entropy = entropy_from_logits(shift_logits.detach())
    mask = batch["completion_mask"][:, 1:]
    entropy_sum = (per_token_entropy * mask).sum()
    total_tokens = mask.sum()
    chosen_logits = shift_logits.detach().index_select(0, chosen_idx)
    rejected_logits = shift_logits.detach().index_select(0, rejected_idx)
    chosen_mask = mask.index_select(0, chosen_idx)
    rejected_mask = mask.index_select(0, rejected_idx)
    total_chosen_logits = chosen_logits[all_count(chosen_mask.bool())].mean(-1).sum()
    total_chosen_tokens = chosen_mask.sum()
    total_rejected_logits = rejected_logits[all_count(rejected_mask.bool())].mean(-1).sum()
    loss = losses.mean()
    if routed:
        aux_loss = outputs.aux_loss
        loss = loss + 0.001 * aux_loss
    return loss
