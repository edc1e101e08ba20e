"""CustomDPOTrainer: pref_loss sigmoid."""
from transformers.llama_factory.logps import prepare
from transformers.llama_factory.pairs import loss_of as compute_loss
