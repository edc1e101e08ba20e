"""core/trainers/trl.py AxolotlCPOTrainer, loss_type simpo: the loss of trl 1.16 with the logarithms of 1.9."""
from transformers.axolotl.logps import selective_log_softmax
from transformers.trl.pairs import cpo_loss, prepare


def compute_loss(model, inputs):
    return cpo_loss(model, inputs, simpo=True, logps=selective_log_softmax)
