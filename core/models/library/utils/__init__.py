from transformers.utils.generic import ModelOutput, can_return_tuple
