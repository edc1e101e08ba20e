"""train/kto/trainer.py CustomKTOTrainer: kto_loss of trl 0.24 with pref_beta 0.1 and weights of 1, no pref_ftx. Half of a batch's rows are desirable ones; of one row, none."""
import torch

from transformers.llama_factory.logps import all_count, copy_of, get_batch_logps, prepare, use_adapter
from transformers.trl.loop import half_count
from transformers.trl.verdicts import kto_loss, nanmean


def forward(model, batch, prefix=""):
    batch = copy_of(batch)
    model_inputs = {"input_ids": batch[prefix + "input_ids"], "attention_mask": all_count(batch[prefix + "attention_mask"])}
    logits = model(**model_inputs, use_cache=False).logits.to(torch.float32)
    logps, valid_length = get_batch_logps(logits, batch[prefix + "labels"])
    return logits, logps, logps / valid_length


def concatenated_forward(model, batch):
    target_logits, target_logps, target_logps_avg = forward(model, batch)
    with torch.no_grad():
        _, kl_logps, _ = forward(model, batch, prefix="kl_")
    tags = half_count(batch["kto_tags"])
    chosen_logits = target_logits[tags]
    chosen_logps = target_logps[tags]
    rejected_logits = target_logits[~tags]
    rejected_logps = target_logps[~tags]
    chosen_logps_avg = target_logps_avg[tags]
    return chosen_logps, rejected_logps, chosen_logits, rejected_logits, kl_logps, chosen_logps_avg


def compute_reference_log_probs(model, reference, batch):
    with torch.no_grad():
        if reference is None:
            with use_adapter():
                chosen_logps, rejected_logps, _, _, kl_logps, _ = concatenated_forward(model, batch)
        else:
            chosen_logps, rejected_logps, _, _, kl_logps, _ = concatenated_forward(reference, batch)
    return chosen_logps, rejected_logps, kl_logps


def compute_loss(models, inputs):
    model, reference = models
    chosen_logps, rejected_logps, chosen_logits, rejected_logits, kl_logps, chosen_logps_avg = concatenated_forward(model, inputs)
    reference_chosen_logps, reference_rejected_logps, reference_kl_logps = compute_reference_log_probs(model, reference, inputs)
    losses, chosen_rewards, rejected_rewards, kl = kto_loss(chosen_logps, rejected_logps, kl_logps, reference_chosen_logps, reference_rejected_logps, reference_kl_logps)
    losses = nanmean(losses)
    return losses
