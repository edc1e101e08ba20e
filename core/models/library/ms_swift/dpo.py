"""rlhf_trainers/dpo_trainer.py DPOTrainer, rlhf_mixin.py RLHFTrainerMixin: loss_type sigmoid, beta 0.1; every token counts, so all logits are kept."""
import torch
import torch.nn.functional as F

from transformers.ms_swift.logps import get_per_token_logps
from transformers.trl.loop import all_count, without_dropout
from transformers.trl.prepared import Prepared, use_adapter


def prepare(model, reference):
    without_dropout()
    return Prepared(model), Prepared(reference, policy=False) if reference is not None else None


def concatenated_forward(model, batch, is_ref_model=False):
    batch = dict(batch)
    labels = batch.pop("labels")
    outputs = model(**batch, use_cache=False)
    all_logits = outputs.logits
    labels = torch.roll(labels, shifts=-1, dims=1)
    per_token_logps, mean_all_logits, loss_mask = get_per_token_logps(all_logits, labels)
    output = {}
    num_examples = labels.shape[0] // 2
    chosen, rejected = all_count(loss_mask[:num_examples]), all_count(loss_mask[num_examples:])
    if not is_ref_model:
        output["nll_loss"] = -per_token_logps[:num_examples][chosen].mean()
    all_logps = per_token_logps.sum(-1)
    output["chosen_logps"] = all_logps[:num_examples]
    output["rejected_logps"] = all_logps[num_examples:]
    output["mean_chosen_logits"] = mean_all_logits[:num_examples][chosen].mean()
    output["mean_rejected_logits"] = mean_all_logits[num_examples:][rejected].mean()
    return output


def compute_ref_log_probs(model, reference, batch):
    with torch.no_grad():
        if reference is None:
            with use_adapter():
                output = concatenated_forward(model, batch, is_ref_model=True)
        else:
            output = concatenated_forward(reference, batch, is_ref_model=True)
    return output["chosen_logps"], output["rejected_logps"]


def dpo_loss(chosen_logps, rejected_logps, ref_chosen_logps, ref_rejected_logps, beta, label_smoothing):
    chosen_logratios = chosen_logps - ref_chosen_logps
    rejected_logratios = rejected_logps - ref_rejected_logps
    logratios = chosen_logps - rejected_logps
    ref_logratios = ref_chosen_logps - ref_rejected_logps
    logits = logratios - ref_logratios
    losses = -F.logsigmoid(beta * logits) * (1 - label_smoothing) - F.logsigmoid(-beta * logits) * label_smoothing
    chosen_rewards = beta * (chosen_logps - ref_chosen_logps).detach()
    rejected_rewards = beta * (rejected_logps - ref_rejected_logps).detach()
    return losses, chosen_rewards, rejected_rewards


def get_batch_loss_metrics(models, batch):
    model, reference = models
    model_output = concatenated_forward(model, batch)
    if "ref_chosen_logps" in batch:
        ref_chosen_logps, ref_rejected_logps = batch["ref_chosen_logps"], batch["ref_rejected_logps"]
    else:
        ref_chosen_logps, ref_rejected_logps = compute_ref_log_probs(model, reference, batch)
    _losses, _chosen_rewards, _rejected_rewards = dpo_loss(
        model_output["chosen_logps"], model_output["rejected_logps"], ref_chosen_logps, ref_rejected_logps, beta=0.1, label_smoothing=0.0)
    losses = 0 + _losses * 1.0
    return losses.mean()


def compute_loss(models, inputs, num_items_in_batch=1):
    loss = get_batch_loss_metrics(models, inputs)
    loss = loss / 1  # gradient_accumulation_steps
    return loss
