"""kto_loss() of trl 0.24 trainer/kto_trainer.py and 0.29.1 experimental/kto/kto_trainer.py, which other trainers call: beta 0.1, weights of 1."""
import torch
import torch.nn.functional as F

BETA = 0.1


def kto_loss(chosen_logps, rejected_logps, kl_logps, reference_chosen_logps, reference_rejected_logps, reference_kl_logps):
    kl = (kl_logps - reference_kl_logps).mean().detach()
    kl = kl.mean().clamp(min=0)
    if chosen_logps.shape[0] != 0:
        chosen_logratios = chosen_logps - reference_chosen_logps
        chosen_losses = 1 - F.sigmoid(BETA * (chosen_logratios - kl))
        chosen_rewards = BETA * chosen_logratios.detach()
    else:
        chosen_losses = chosen_rewards = torch.empty(0, device=kl.device)
    rejected_logratios = rejected_logps - reference_rejected_logps
    rejected_losses = 1 - F.sigmoid(BETA * (kl - rejected_logratios))
    rejected_rewards = BETA * rejected_logratios.detach()
    losses = torch.cat((1.0 * chosen_losses, 1.0 * rejected_losses), 0)
    return losses, chosen_rewards, rejected_rewards, kl


def nanmean(losses):
    """ReduceOps.cpp nanmean()"""
    factor = (losses == losses).sum()
    return losses.sum().div(factor)
