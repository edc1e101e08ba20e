"""trl 1.16.0 CPOTrainer: loss_type "simpo", cpo_alpha 1 as its config has it."""
from transformers.trl.pairs import simpo_loss as compute_loss
from transformers.trl.pairs import prepare
