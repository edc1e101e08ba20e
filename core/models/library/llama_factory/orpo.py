"""CustomDPOTrainer: pref_loss orpo."""
from transformers.llama_factory.logps import prepare
from transformers.llama_factory.pairs import loss_of, odds_ratio_loss


def compute_loss(models, inputs):
    return loss_of(models, inputs, odds_ratio_loss)
