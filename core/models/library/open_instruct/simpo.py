"""loss_type simpo."""
from transformers.open_instruct.pairs import concatenated_forward, prepare, simpo_loss


def compute_loss(model, inputs):
    policy_chosen_logps, policy_rejected_logps = concatenated_forward(model, inputs)
    losses, chosen_rewards, rejected_rewards = simpo_loss(policy_chosen_logps, policy_rejected_logps, beta=5.0, gamma_beta_ratio=0.3, label_smoothing=0.0)
    return losses.mean()
