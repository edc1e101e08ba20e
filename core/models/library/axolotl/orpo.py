"""core/trainers/trl.py AxolotlORPOTrainer: the loss of trl 1.16 with the logarithms of 1.9."""
from transformers.axolotl.logps import selective_log_softmax
from transformers.trl.pairs import orpo_loss, prepare


def compute_loss(model, inputs):
    return orpo_loss(model, inputs, logps=selective_log_softmax)
