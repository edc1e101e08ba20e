"""trl 1.16.0 trainer/reward_trainer.py RewardTrainer: no margins, no centring. What it logs are numbers a row: left out."""
import torch
from torch import nn

from transformers.trl.loop import without_dropout
from transformers.trl.prepared import Prepared


def prepare(model, reference):
    without_dropout()
    return Prepared(model)


def compute_loss(model, inputs):
    inputs["use_cache"] = False
    outputs = model(**inputs)
    rewards_chosen, rewards_rejected = torch.chunk(outputs.logits.squeeze(-1), chunks=2)
    loss = -nn.functional.logsigmoid(rewards_chosen - rewards_rejected).mean()
    return loss
