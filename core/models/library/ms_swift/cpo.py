"""rlhf_trainers/cpo_trainer.py CPOTrainer: loss_type sigmoid, cpo_alpha 1."""
from transformers.ms_swift.pairs import cpo_loss as compute_loss
from transformers.ms_swift.pairs import prepare
