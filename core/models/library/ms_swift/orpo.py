"""rlhf_trainers/orpo_trainer.py ORPOTrainer: beta 0.1."""
from transformers.ms_swift.pairs import orpo_loss as compute_loss
from transformers.ms_swift.pairs import prepare
