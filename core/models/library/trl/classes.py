"""Classes that a stage loads in the place of the causal model: modeling_layers.py of transformers 5.23."""
from dataclasses import dataclass

import torch
from torch import nn

from transformers.modeling_decoder import CausalLM
from transformers.releases import refuse
from transformers.utils.generic import ModelOutput, can_return_tuple


@dataclass
class SequenceClassifierOutputWithPast(ModelOutput):
    loss: object = None
    logits: object = None
    past_key_values: object = None


class GenericForSequenceClassification:
    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, labels=None, use_cache=None, **kwargs):
        transformer_outputs = self.base_model(input_ids=input_ids, attention_mask=attention_mask, use_cache=use_cache, **kwargs)
        hidden_states = transformer_outputs.last_hidden_state
        logits = self.score(hidden_states)
        batch_size = input_ids.shape[0]
        non_pad_mask = (input_ids != 0).to(logits.device, torch.int32)  # pad_token_id: the trainer sets it
        token_indices = torch.arange(input_ids.shape[-1], device=logits.device, dtype=torch.int32)
        last_non_pad_token = (token_indices * non_pad_mask).argmax(-1)
        pooled_logits = logits[torch.arange(batch_size, device=logits.device), last_non_pad_token]
        return SequenceClassifierOutputWithPast(logits=pooled_logits, past_key_values=transformer_outputs.past_key_values)

    def get_output_embeddings(self):
        return self.score


def for_sequence_classification(causal, num_labels=1):
    """The decoder of a causal model under a head of labels."""
    if not issubclass(causal, CausalLM):
        refuse("/training/stage", "a head of labels on this model is not modelled yet")

    class ForSequenceClassification(GenericForSequenceClassification, causal):
        _tied_weights_keys = None

        def __init__(self, config):
            config.num_labels = num_labels
            super(CausalLM, self).__init__(config)
            prefix = self.base_model_prefix
            setattr(self, prefix, self.decoder(config))
            self.score = nn.Linear(getattr(self, prefix).get_input_embeddings().embedding_dim, num_labels, bias=False)
            self.post_init()

    return ForSequenceClassification
