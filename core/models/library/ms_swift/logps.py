"""rlhf_trainers/rlhf_mixin.py get_per_token_logps(): numbers of a token, the mean or the sum of its logits."""
from transformers.axolotl.logps import selective_log_softmax
from transformers.trl.loop import all_count, loss_begins


def get_per_token_logps(logits, labels, reduction="mean"):
    if logits.requires_grad:
        loss_begins()
    loss_mask = all_count(labels != -100)
    labels = labels.clone()
    labels.masked_fill_(~loss_mask, 0)
    reduce_logits = logits.mean(-1) if reduction == "mean" else logits.sum(-1)
    per_token_logps = selective_log_softmax(logits, labels)
    per_token_logps.masked_fill_(~loss_mask, 0)
    reduce_logits.masked_fill_(~loss_mask, 0)
    return per_token_logps, reduce_logits, loss_mask
