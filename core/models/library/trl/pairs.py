"""trl 1.16.0 experimental/orpo/orpo_trainer.py, experimental/cpo/cpo_trainer.py: pairs without a reference, all logits.

What they log of all logits is a mean of each half; the rest, numbers a row, is left out.
"""
import torch
import torch.nn.functional as F
from torch import nn

from transformers.trl.loop import all_count, without_dropout
from transformers.trl.prepared import Prepared
from triton import launch


class LogProbEntropyFunction(torch.autograd.Function):
    """kernels/logprob_entropy.py"""

    @staticmethod
    def forward(ctx, logits, index):
        logprobs = torch.empty(logits.shape[:-1], device=logits.device, dtype=torch.float32)
        entropy = torch.empty_like(logprobs)
        log_z = torch.empty_like(logprobs)
        expected_logit = torch.empty_like(logprobs)
        launch((logits, index), (logprobs, entropy, log_z, expected_logit))
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(logits, index, log_z, expected_logit)
        return logprobs, entropy

    @staticmethod
    def backward(ctx, grad_logprobs, grad_entropy):
        logits, index, log_z, expected_logit = ctx.saved_tensors
        grad_logits = torch.empty(logits.shape, device=logits.device, dtype=logits.dtype)
        grad_logprobs = grad_logprobs.contiguous()
        launch((logits, log_z, grad_logprobs), (grad_logits,))
        return grad_logits, None


def selective_log_softmax(logits, index):
    logprobs, _ = LogProbEntropyFunction.apply(logits, index)
    return logprobs


def cross_entropy_loss(logits, labels):
    logits = logits[..., :-1, :].contiguous()
    labels = labels[..., 1:].contiguous()
    logits = logits.view(-1, logits.shape[-1])
    labels = labels.view(-1)
    labels = labels.to(logits.device)
    loss = nn.functional.cross_entropy(logits, labels)
    return loss


def prepare(model, reference):
    without_dropout()
    return Prepared(model)


def concatenated_inputs(inputs):
    made = {"concatenated_input_ids": inputs["input_ids"], "concatenated_attention_mask": inputs["attention_mask"], "concatenated_labels": inputs["chosen_labels"]}
    for name in ("input_ids", "attention_mask", "labels"):
        made["concatenated_" + name] = torch.cat((made["concatenated_" + name], inputs["rejected_" + name]), dim=0)
    all_count(made["concatenated_attention_mask"])  # ones, as those that it is of
    return made


def get_batch_logps(logits, labels, average_log_prob, orpo, logps):
    labels = labels[:, 1:].clone()
    logits = logits[:, :-1, :]
    loss_mask = labels != -100
    if orpo:
        labels = torch.where(labels == -100, 0, labels)
    else:
        labels.masked_fill_(labels == -100, 0)
    per_token_logps = logps(logits, labels)
    if average_log_prob:
        return (per_token_logps * loss_mask).sum(-1) / loss_mask.sum(-1)
    return (per_token_logps * loss_mask).sum(-1)


def concatenated_forward(model, inputs, orpo, average_log_prob, logps):
    concatenated_batch = concatenated_inputs(inputs)
    outputs = model(input_ids=concatenated_batch["concatenated_input_ids"], attention_mask=concatenated_batch["concatenated_attention_mask"], use_cache=False)
    return halves(outputs, concatenated_batch, orpo, average_log_prob, logps)


def halves(outputs, concatenated_batch, orpo, average_log_prob, logps):
    """concatenated_forward() after the model's"""
    len_chosen = concatenated_batch["concatenated_labels"].shape[0] // 2
    all_logits = outputs.logits
    if orpo:
        labels = concatenated_batch["concatenated_input_ids"].clone()
        attention_mask = concatenated_batch["concatenated_attention_mask"]
        labels = torch.where(attention_mask == 1, labels, -100)
    else:
        labels = concatenated_batch["concatenated_labels"].clone()
    nll_loss = cross_entropy_loss(all_logits[:len_chosen], labels[:len_chosen])
    all_logps = get_batch_logps(all_logits, concatenated_batch["concatenated_labels"], average_log_prob, orpo, logps)
    chosen_logps = all_logps[:len_chosen]
    rejected_logps = all_logps[len_chosen:]
    if orpo:
        return chosen_logps, rejected_logps, all_logits[:len_chosen, :-1, :], all_logits[len_chosen:, :-1, :], nll_loss
    return chosen_logps, rejected_logps, all_logits[:len_chosen], all_logits[len_chosen:], nll_loss


def log1mexp(x):
    """log1p and expm1 keep what log and exp do"""
    return torch.where(x < -0.6931471805599453, torch.log(-torch.exp(x)), torch.log(-torch.exp(x)))


def orpo_loss(model, inputs, logps=selective_log_softmax, forward=concatenated_forward):
    chosen, rejected, chosen_logits, rejected_logits, nll_loss = forward(model, inputs, True, True, logps)
    log_odds = (chosen - rejected) - (log1mexp(chosen) - log1mexp(rejected))
    ratio = F.logsigmoid(log_odds)
    losses = 0.1 * ratio
    loss = nll_loss - losses.mean()
    rejected_logits.detach().mean()
    chosen_logits.detach().mean()
    return loss


def cpo_loss(model, inputs, simpo=False, logps=selective_log_softmax, forward=concatenated_forward):
    chosen, rejected, chosen_logits, rejected_logits, nll_loss = forward(model, inputs, False, simpo, logps)
    logits = chosen - rejected
    if simpo:
        logits = logits - 5.0
    losses = -F.logsigmoid(0.1 * logits) * 1.0 - F.logsigmoid(-0.1 * logits) * 0.0
    loss = losses.mean() + 1.0 * nll_loss
    rejected_logits.detach().mean()
    chosen_logits.detach().mean()
    return loss


def simpo_loss(model, inputs):
    return cpo_loss(model, inputs, simpo=True)
