"""rlhf_trainers/cpo_trainer.py CPOTrainer: loss_type simpo, cpo_alpha 1."""
from transformers.ms_swift.pairs import simpo_loss as compute_loss
from transformers.ms_swift.pairs import prepare
