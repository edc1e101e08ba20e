"""trl 1.16.0 CPOTrainer: loss_type "sigmoid", cpo_alpha 1."""
from transformers.trl.pairs import cpo_loss as compute_loss
from transformers.trl.pairs import prepare
