"""trl 1.16.0 ORPOTrainer: beta 0.1."""
from transformers.trl.pairs import orpo_loss as compute_loss
from transformers.trl.pairs import prepare
