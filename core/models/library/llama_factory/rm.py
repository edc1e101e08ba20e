"""train/rm/trainer.py PairwiseTrainer: the batch has labels (data/collator.py PairwiseDataCollatorWithPadding), of which the model makes a loss that nobody asks for."""
import torch

from transformers.trl.prepared import Prepared


def prepare(model, reference):
    return Prepared(model)


def compute_loss(model, inputs):
    outputs = model(**inputs, use_cache=False)
    values, _ = outputs.value, outputs.loss  # the logits' name is bound anew
    del outputs
    batch_size = inputs["input_ids"].size(0) // 2
    chosen_masks, rejected_masks = torch.split(inputs["attention_mask"], batch_size, dim=0)
    chosen_rewards, rejected_rewards = torch.split(values, batch_size, dim=0)
    chosen_scores = chosen_rewards.gather(dim=-1, index=(chosen_masks.sum(dim=-1, keepdim=True) - 1))
    rejected_scores = rejected_rewards.gather(dim=-1, index=(rejected_masks.sum(dim=-1, keepdim=True) - 1))
    chosen_scores, rejected_scores = chosen_scores.squeeze(), rejected_scores.squeeze()
    loss = -torch.nn.functional.logsigmoid(chosen_scores.float() - rejected_scores.float()).mean()
    return loss
