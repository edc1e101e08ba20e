"""rlhf_trainers/kto_trainer.py KTOTrainer over trl 0.29.1 experimental/kto/kto_trainer.py: loss_type kto, beta 0.1, weights of 1.

Verdicts are a list on the host, half of a batch's rows are desirable ones; of one row, none. A batch of one row keeps the tokens that count by a mask (trainers/mixin.py
prepare_logits_to_keep): all but the first, which nobody foretells.
"""
import torch
import torch.nn.functional as F

from transformers.ms_swift.dpo import prepare
from transformers.ms_swift.logps import get_per_token_logps
from transformers.trl.loop import all_count
from transformers.trl.prepared import disable_gradient_checkpointing, use_adapter
from transformers.trl.verdicts import kto_loss, nanmean


def prepare_logits_to_keep(inputs):
    labels = inputs["labels"]
    if labels.shape[0] == 1:
        loss_mask = (labels != -100)[0]
        labels = labels[:, 1:][:, all_count(loss_mask[1:])]
        labels = F.pad(labels, (1, 0), value=-100)
        logits_to_keep = all_count(F.pad(loss_mask[1:], (0, 1), value=True))
    else:
        logits_to_keep = labels.shape[-1] + 1
        labels = labels[:, -logits_to_keep:]
    inputs["labels"] = labels
    inputs["logits_to_keep"] = logits_to_keep


def _get_model_kwargs(inputs, prefix):
    model_kwargs = {name: inputs[prefix + name] for name in ("input_ids", "attention_mask", "labels")}
    prepare_logits_to_keep(model_kwargs)
    labels = model_kwargs.pop("labels")
    return model_kwargs, labels


def get_batch_logps(logits, labels):
    labels = torch.roll(labels, shifts=-1, dims=1)
    per_token_logps, sum_logits, loss_mask = get_per_token_logps(logits, labels, reduction="sum")
    all_logps = per_token_logps.sum(-1)
    all_logits = sum_logits.sum(-1)
    return all_logps, all_logits


def _compute_kl_logps(model, batch):
    KL_model_kwargs, labels = _get_model_kwargs(batch, "KL_")
    with torch.no_grad(), disable_gradient_checkpointing(model.model):
        KL_logits = model(**KL_model_kwargs).logits
    KL_logps, _ = get_batch_logps(KL_logits, labels)
    return KL_logps


def rows(first, last):
    """A list of places becomes a tensor where it indexes one."""
    return torch.arange(first, last, device="cuda")


def forward(model, batch):
    KL_logps = _compute_kl_logps(model, batch)
    model_kwargs, labels = _get_model_kwargs(batch, "")
    outputs = model(**model_kwargs)
    completion_logits = outputs.logits
    completion_logps, completion_logits = get_batch_logps(completion_logits, labels)
    n = completion_logps.shape[0]
    chosen_logps = completion_logps[rows(0, n // 2)]
    rejected_logps = completion_logps[rows(n // 2, n)]
    chosen_logits = completion_logits[rows(0, n // 2)]
    rejected_logits = completion_logits[rows(n // 2, n)]
    return chosen_logps, rejected_logps, chosen_logits, rejected_logits, KL_logps


def get_batch_loss_metrics(models, batch):
    model, reference = models
    num_chosen = torch.zeros((), dtype=torch.int64, device="cuda")
    num_rejected = torch.zeros((), dtype=torch.int64, device="cuda")
    policy_chosen_logps, policy_rejected_logps, policy_chosen_logits, policy_rejected_logits, policy_KL_logps = forward(model, batch)
    with torch.no_grad():
        if reference is None:
            with use_adapter():
                reference_chosen_logps, reference_rejected_logps, _, _, reference_KL_logps = forward(model, batch)
        else:
            reference_chosen_logps, reference_rejected_logps, _, _, reference_KL_logps = forward(reference, batch)
    losses, chosen_rewards, rejected_rewards, kl = kto_loss(policy_chosen_logps, policy_rejected_logps, policy_KL_logps, reference_chosen_logps,
                                                            reference_rejected_logps, reference_KL_logps)
    return nanmean(losses)


def compute_loss(models, inputs):
    return get_batch_loss_metrics(models, inputs)
