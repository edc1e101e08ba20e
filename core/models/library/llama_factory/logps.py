"""train/trainer_utils.py get_batch_logps(), nested_detach(); numbers of a row that trl 0.24 logs are left out."""
import torch

from transformers.trl.loop import all_count, loss_begins, without_dropout
from transformers.trl.prepared import Prepared, use_adapter

__all__ = ["all_count", "use_adapter", "prepare", "copy_of", "get_batch_logps"]


def prepare(model, reference):
    without_dropout()
    return Prepared(model), Prepared(reference, policy=False) if reference is not None else None


def copy_of(batch):
    return {name: value.detach().clone() for name, value in batch.items()}


def get_batch_logps(logits, labels):
    if torch.is_grad_enabled():
        loss_begins()
    labels = labels[:, 1:].clone()
    logits = logits[:, :-1, :]
    loss_mask = labels != -100
    labels.masked_fill_(labels == -100, 0)
    per_token_logps = torch.gather(logits.log_softmax(-1), dim=2, index=labels.unsqueeze(2)).squeeze(2)
    valid_length = loss_mask.sum(-1)
    logps = (per_token_logps * loss_mask).sum(-1)
    return logps, valid_length
