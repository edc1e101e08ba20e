"""Heads over a decoder that many files take from modeling_layers.py of transformers 5.23, in the place of the causal model's."""
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import CrossEntropyLoss

from transformers.modeling_decoder import CausalLM
from transformers.modeling_heads import labelled_loss
from transformers.releases import refuse
from transformers.utils.generic import ModelOutput, can_return_tuple


@dataclass
class SequenceClassifierOutputWithPast(ModelOutput):
    loss: object = None
    logits: object = None
    past_key_values: object = None


class GenericForSequenceClassification:
    pads = True  # who trains rows of several lengths has set pad_token_id

    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, labels=None, use_cache=None, **kwargs):
        transformer_outputs = self.base_model(input_ids=input_ids, attention_mask=attention_mask, use_cache=use_cache, **kwargs)
        hidden_states = transformer_outputs.last_hidden_state
        logits = self.score(hidden_states)
        batch_size = input_ids.shape[0]
        if self.pads or batch_size > 1:
            non_pad_mask = (input_ids != 0).to(logits.device, torch.int32)
            token_indices = torch.arange(input_ids.shape[-1], device=logits.device, dtype=torch.int32)
            last_non_pad_token = (token_indices * non_pad_mask).argmax(-1)
        else:
            last_non_pad_token = -1
        pooled_logits = logits[torch.arange(batch_size, device=logits.device), last_non_pad_token]
        loss = None
        if labels is not None:
            loss = labelled_loss(self.config, pooled_logits, labels)
        return SequenceClassifierOutputWithPast(loss=loss, logits=pooled_logits, past_key_values=transformer_outputs.past_key_values)


class GenericForTokenClassification:
    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, labels=None, use_cache=None, **kwargs):
        outputs = self.base_model(input_ids=input_ids, attention_mask=attention_mask, use_cache=use_cache, **kwargs)
        sequence_output = outputs.last_hidden_state
        sequence_output = self.dropout(sequence_output)
        logits = self.score(sequence_output)
        loss = None
        if labels is not None:
            loss = self.loss_of(logits, labels)
        return SequenceClassifierOutputWithPast(loss=loss, logits=logits)

    def loss_of(self, logits, labels):
        """loss_utils.py ForTokenClassification"""
        logits = logits.view(-1, self.config.num_labels)
        labels = labels.view(-1)
        logits = logits.float()
        return CrossEntropyLoss()(logits, labels)


def over(generic, causal, finish):
    """The decoder of a causal model under another head, which finish() makes."""
    if not issubclass(causal, CausalLM):
        refuse("/training/stage", "a head of labels on this model is not modelled yet")

    class Scored(generic, causal):
        _tied_weights_keys = None

        def __init__(self, config):
            super(CausalLM, self).__init__(config)
            prefix = self.base_model_prefix
            setattr(self, prefix, self.decoder(config))
            finish(self, config, self.get_input_embeddings().embedding_dim)

        def get_output_embeddings(self):
            return self.score

    return Scored


def score_rows(model, config, width):
    model.pads = getattr(config, "pad_token_id", None) is not None
    model.score = nn.Linear(width, config.num_labels, bias=False)


def score_pairs(model, config, width):
    config.num_labels = 1  # and the trainer sets pad_token_id
    model.score = nn.Linear(width, 1, bias=False)


def score_tokens(model, config, width):
    own = getattr(config, "classifier_dropout", None)
    own = own if own is not None else getattr(config, "hidden_dropout", None)
    model.dropout = nn.Dropout(own if own is not None else 0.1)
    model.score = nn.Linear(width, config.num_labels)


def scored(causal, stage):
    if stage == "embedding" and issubclass(causal, CausalLM):
        if getattr(causal, "composed", None) is not None:
            refuse("/training/stage", "embedding by a model with towers is not modelled yet")
        return causal.decoder
    if stage == "reward":
        return over(GenericForSequenceClassification, causal, score_pairs)
    if stage == "classification":
        return over(GenericForSequenceClassification, causal, score_rows)
    if stage == "token_classification":
        return over(GenericForTokenClassification, causal, score_tokens)
    refuse("/training/stage", f"{stage} of this model is not modelled")
