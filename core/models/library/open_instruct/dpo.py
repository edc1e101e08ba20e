"""loss_type dpo_norm; beta 5. The reference's numbers are looked up in tensors of the whole data set, of which no figure knows."""
import torch

from transformers.open_instruct.pairs import concatenated_forward, dpo_loss, prepare


def compute_loss(model, inputs):
    policy_chosen_logps, policy_rejected_logps = concatenated_forward(model, inputs)
    reference_chosen_logps = torch.empty(policy_chosen_logps.shape, dtype=torch.float32, device=policy_chosen_logps.device)
    reference_rejected_logps = torch.empty(policy_chosen_logps.shape, dtype=torch.float32, device=policy_chosen_logps.device)
    losses, chosen_rewards, rejected_rewards = dpo_loss(policy_chosen_logps, policy_rejected_logps, reference_chosen_logps, reference_rejected_logps,
                                                        beta=5.0, label_smoothing=0.0)
    return losses.mean()
