"""dpo_utils.py concatenated_forward() and its losses, padding_free_collator.py calculate_per_token_logps(); rows of one length, no packing."""
import torch
import torch.nn.functional as F

from transformers.trl.loop import loss_begins
from transformers.trl.prepared import Prepared


def prepare(model, reference):
    return Prepared(model)


def concatenated_inputs(batch):
    return {
        "input_ids": torch.cat((batch["input_ids"], batch["rejected_input_ids"]), dim=0),
        "attention_mask": torch.cat((batch["attention_mask"], batch["rejected_attention_mask"]), dim=0),
        "labels": torch.cat((batch["chosen_labels"], batch["rejected_labels"]), dim=0)}


def calculate_per_token_logps(logits, labels):
    loss_begins()
    shifted_labels = torch.full_like(labels, -100)
    shifted_labels[:, :-1] = labels[:, 1:]
    logits = logits.to(torch.float32)
    safe = shifted_labels.clamp(min=0)
    return torch.gather(logits.log_softmax(-1), 2, safe.unsqueeze(2)).squeeze(2)


def get_batch_logps(per_token_logps, labels):
    """average_log_prob"""
    per_token_logps = per_token_logps[:, :-1]
    loss_mask = labels[:, 1:] != -100
    return (per_token_logps * loss_mask).sum(-1) / loss_mask.sum(-1).clamp(min=1)


def concatenated_forward(model, batch):
    concatenated_batch = concatenated_inputs(batch)
    inputs = {"input_ids": concatenated_batch["input_ids"], "attention_mask": concatenated_batch["attention_mask"]}
    logits = model(**inputs).logits
    concatenated_labels = concatenated_batch["labels"]
    per_token_logps = calculate_per_token_logps(logits, concatenated_labels)
    all_logps = get_batch_logps(per_token_logps, concatenated_labels)
    bs = batch["input_ids"].shape[0]
    chosen_logps = all_logps[:bs]
    rejected_logps = all_logps[bs:]
    return chosen_logps, rejected_logps


def dpo_loss(policy_chosen_logps, policy_rejected_logps, reference_chosen_logps, reference_rejected_logps, beta, label_smoothing):
    pi_logratios = policy_chosen_logps - policy_rejected_logps
    ref_logratios = reference_chosen_logps - reference_rejected_logps
    logits = pi_logratios - ref_logratios
    losses = -F.logsigmoid(beta * logits) * (1 - label_smoothing) - F.logsigmoid(-beta * logits) * label_smoothing
    chosen_rewards = (beta * (policy_chosen_logps - reference_chosen_logps)).detach()
    rejected_rewards = (beta * (policy_rejected_logps - reference_rejected_logps)).detach()
    return losses, chosen_rewards, rejected_rewards


def simpo_loss(policy_chosen_logps, policy_rejected_logps, beta, gamma_beta_ratio, label_smoothing):
    pi_logratios = policy_chosen_logps - policy_rejected_logps
    logits = pi_logratios - gamma_beta_ratio
    losses = -F.logsigmoid(beta * logits) * (1 - label_smoothing) - F.logsigmoid(-beta * logits) * label_smoothing
    chosen_rewards = (beta * policy_chosen_logps).detach()
    rejected_rewards = (beta * policy_rejected_logps).detach()
    return losses, chosen_rewards, rejected_rewards
