"""Losses that a script or another library puts in the place of the model's own: the decoder runs, the head is read where it stands."""
import torch
from torch import nn

from transformers.liger import bind, linear_loss
from transformers.liger.ops import is_one
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.releases import refuse
from triton import cdiv, launch


def head_of(model, pointer="/training/loss"):
    head = model.get_output_embeddings()
    if getattr(head, "bias", None) is not None:
        refuse(pointer, "a head with a bias under this loss is not modelled yet")
    return head


def decoder_of(model):
    if model.base_model is model or model.get_output_embeddings() is None:
        refuse("/training/loss", "this model has no decoder apart from its head, or no head")
    return model.base_model


def put(model, loss_of):
    """forward: hidden states into a loss, no logits"""
    decoder_of(model)

    def forward(self, labels=None, num_items_in_batch=None, **batch):
        hidden_states = decoder_of(self)(**batch)[0]
        loss = loss_of(hidden_states, self, labels, num_items_in_batch)
        return CausalLMOutputWithPast(loss=loss, logits=None)

    bind(model, forward)


def liger(model):
    """LigerFusedLinearCrossEntropyLoss that a script calls itself"""
    head_of(model)
    put(model, lambda hidden, model, labels, items: linear_loss(hidden, model.get_output_embeddings().weight, labels, items))


def chunked(model):
    """torchtune modules/loss/ce_chunked_output_loss.py CEWithChunkedOutputLoss: a head product a chunk of the sequence, each cross-entropy in fp32"""

    def loss_of(hidden, model, labels, items):
        head = model.get_output_embeddings()
        target = nn.functional.pad(labels, (0, 1), value=-100)[..., 1:].contiguous()
        logits = [head(part) for part in hidden.chunk(8, dim=1)]
        targets = [part.reshape(-1) for part in target.chunk(8, dim=1)]
        total = 0.0
        valid = (target != -100).sum()
        for part, t in zip(logits, targets):
            total = total + nn.functional.cross_entropy(part.reshape(-1, part.size(-1)).float(), t, ignore_index=-100, reduction="sum")
        return total / valid

    put(model, loss_of)
