"""rlhf_trainers/rlhf_mixin.py RLHFTrainerMixin over the losses of trl 0.29.1 experimental/orpo/orpo_trainer.py, experimental/cpo/cpo_trainer.py.

The model sees a batch in which chosen and rejected rows are together already; trl's function is handed what it returned.
"""
from transformers.axolotl.logps import selective_log_softmax
from transformers.trl import pairs
from transformers.trl.pairs import prepare


def concatenated_forward(model, batch, orpo, average_log_prob, logps):
    model_kwargs = dict(batch)
    labels = model_kwargs.pop("labels")
    outputs = model(**model_kwargs, use_cache=False)
    concatenated = {"concatenated_" + name: value for name, value in model_kwargs.items()}
    concatenated["concatenated_labels"] = labels
    if orpo:
        concatenated["concatenated_input_ids"] = labels
    return pairs.halves(outputs, concatenated, orpo, average_log_prob, logps)


def orpo_loss(model, inputs, num_items_in_batch=1):
    loss = pairs.orpo_loss(model, inputs, logps=selective_log_softmax, forward=concatenated_forward)
    loss = loss / 1  # gradient_accumulation_steps
    return loss


def cpo_loss(model, inputs, num_items_in_batch=1, simpo=False):
    loss = pairs.cpo_loss(model, inputs, simpo=simpo, logps=selective_log_softmax, forward=concatenated_forward)
    loss = loss / 1  # gradient_accumulation_steps
    return loss


def simpo_loss(model, inputs, num_items_in_batch=1):
    return cpo_loss(model, inputs, num_items_in_batch, simpo=True)
