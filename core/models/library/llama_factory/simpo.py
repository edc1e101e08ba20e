"""CustomDPOTrainer: pref_loss simpo."""
from transformers.llama_factory.logps import prepare
from transformers.llama_factory.pairs import loss_of, simpo_loss


def compute_loss(models, inputs):
    return loss_of(models, inputs, simpo_loss)
