"""train/dpo/trainer.py CustomDPOTrainer: pref_loss sigmoid, orpo, simpo; pref_beta 0.1, simpo_gamma 0.5, no pref_ftx, no pref_bco_weight, no ld_alpha."""
import torch
import torch.nn.functional as F

from transformers.llama_factory.logps import all_count, copy_of, get_batch_logps, use_adapter

BETA = 0.1


def concatenated_forward(model, batch, averages, refers):
    if refers:
        batch = copy_of(batch)
        all_count(batch["attention_mask"])
    batch = dict(batch)
    labels = batch.pop("labels")
    all_logits = model(**batch, use_cache=False).logits.to(torch.float32)
    all_logps, valid_length = get_batch_logps(all_logits, labels)
    if averages:
        all_logps = all_logps / valid_length
    batch_size = batch["input_ids"].size(0) // 2
    chosen_logps, rejected_logps = all_logps.split(batch_size, dim=0)
    chosen_logits, rejected_logits = all_logits.split(batch_size, dim=0)
    chosen_length, _ = valid_length.split(batch_size, dim=0)
    chosen_logps_avg = chosen_logps if averages else chosen_logps / chosen_length
    return chosen_logps, rejected_logps, chosen_logits, rejected_logits, chosen_logps_avg


def compute_reference_log_probs(model, reference, batch):
    with torch.no_grad():
        if reference is None:
            with use_adapter():
                output = concatenated_forward(model, batch, False, True)
        else:
            output = concatenated_forward(reference, batch, False, True)
        chosen_logps = output[0]
        rejected_logps = output[1]
    return chosen_logps, rejected_logps


def dpo_loss(chosen_logps, rejected_logps, reference_chosen_logps, reference_rejected_logps):
    chosen_logratios = chosen_logps - 1 * reference_chosen_logps
    rejected_logratios = rejected_logps - 1 * reference_rejected_logps
    logratios = chosen_logps - rejected_logps
    ref_logratios = reference_chosen_logps - reference_rejected_logps
    logits = logratios - ref_logratios
    losses = -F.logsigmoid(BETA * logits) * 1.0 - F.logsigmoid(-BETA * logits) * 0.0
    chosen_rewards = BETA * (chosen_logps - reference_chosen_logps).detach()
    rejected_rewards = BETA * (rejected_logps - reference_rejected_logps).detach()
    return losses, chosen_rewards, rejected_rewards


def odds_ratio_loss(chosen_logps, rejected_logps):
    log_odds = (chosen_logps - rejected_logps) - (torch.log1p(-torch.exp(chosen_logps)) - torch.log1p(-torch.exp(rejected_logps)))
    sft_loss = -chosen_logps
    odds_ratio_loss = -F.logsigmoid(log_odds)
    orpo_loss = sft_loss + BETA * odds_ratio_loss
    return orpo_loss


def simpo_loss(chosen_logps, rejected_logps):
    pi_logratios = chosen_logps - rejected_logps
    gamma_logratios = 5.0
    logits = pi_logratios - gamma_logratios
    simpo_loss = -F.logsigmoid(BETA * logits)
    return simpo_loss


def loss_of(models, inputs, free=None):
    """get_batch_loss_metrics(); `free`: the loss of a pair without a reference"""
    model, reference = models
    chosen_logps, rejected_logps, chosen_logits, rejected_logits, chosen_logps_avg = concatenated_forward(model, inputs, free is not None, free is None)
    if free is None:
        reference_chosen_logps, reference_rejected_logps = compute_reference_log_probs(model, reference, inputs)
        losses, chosen_rewards, rejected_rewards = dpo_loss(chosen_logps, rejected_logps, reference_chosen_logps, reference_rejected_logps)
    else:
        losses = free(chosen_logps, rejected_logps)
        chosen_rewards = BETA * chosen_logps.detach()
        rejected_rewards = BETA * rejected_logps.detach()
    sft_loss = -chosen_logps_avg
    chosen_logits.mean()
    rejected_logits.mean()
    return losses.mean()
