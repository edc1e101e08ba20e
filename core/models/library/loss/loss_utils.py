"""Losses, loss_utils of transformers 5."""
import torch
from torch import nn
from transformers.releases import quirks
from triton import launch


def fixed_cross_entropy(source, target, num_items_in_batch=None, ignore_index=-100, **kwargs):
    reduction = "mean" if num_items_in_batch is None else "sum"
    loss = nn.functional.cross_entropy(source, target, ignore_index=ignore_index, reduction=reduction)
    if reduction == "sum":
        if torch.is_tensor(num_items_in_batch):
            num_items_in_batch = num_items_in_batch.to(loss.device)
        loss = loss / num_items_in_batch
    return loss


def ForCausalLMLoss(logits, labels, vocab_size, num_items_in_batch=None, ignore_index=-100, shift_labels=None, **kwargs):
    logits = logits.float()
    if shift_labels is None:
        labels = nn.functional.pad(labels, (0, 1), value=ignore_index)
        shift_labels = labels[..., 1:].contiguous()
    logits = logits.view(-1, vocab_size)
    shift_labels = shift_labels.view(-1)
    shift_labels = shift_labels.to(logits.device)
    loss = fixed_cross_entropy(logits, shift_labels, num_items_in_batch, ignore_index, **kwargs)
    return loss


class CompiledCrossEntropy(torch.autograd.Function):
    """Inductor's log_softmax and nll_loss, one kernel each way: logits are kept as they came, and two numbers a row. Logits that the graph returns and nobody reads have a
    gradient of zeros, which AOTAutograd makes as large as they are. (output_code and allocations of torch 2.15 and 2.7)"""

    @staticmethod
    def forward(ctx, logits, labels, in_parts):
        rows = logits.numel() // logits.shape[-1]
        amax = torch.empty((rows, 1), dtype=torch.float32, device=logits.device)
        log = torch.empty((rows, 1), dtype=torch.float32, device=logits.device)
        loss = torch.empty((), dtype=torch.float32, device=logits.device)
        launch((logits, labels), (amax, log, loss))
        ctx.save_for_backward(logits, labels, amax, log)
        ctx.returned = torch.float32 if torch.is_autocast_enabled("cuda") else logits.dtype  # accelerate's convert_outputs_to_fp32 is compiled too
        ctx.in_parts = in_parts
        return loss

    @staticmethod
    def backward(ctx, grad_output):
        logits, labels, amax, log = ctx.saved_tensors
        tangents = [torch.zeros_like(logits, dtype=ctx.returned)]
        if ctx.in_parts:  # what was returned stands yet, beside a gradient of zeros of what it was made of
            tangents.append(torch.zeros_like(logits))
        grad = torch.empty_like(logits)
        launch((logits, labels, amax, log, tangents[0], grad_output), (grad,))
        if not quirks.compiled_gradients_boxed:
            ctx.tangents = tangents
        return grad, None, None


def compiled_loss(in_parts):
    def loss_of(logits, labels, vocab_size, num_items_in_batch=None, ignore_index=-100, shift_labels=None, **kwargs):
        if shift_labels is None:
            shift_labels = nn.functional.pad(labels, (0, 1), value=ignore_index)
        loss = CompiledCrossEntropy.apply(logits, shift_labels, in_parts)
        if torch.is_tensor(num_items_in_batch):
            loss = loss / num_items_in_batch
        return loss

    return loss_of


LOSS_MAPPING = {"ForCausalLM": ForCausalLMLoss, "Compiled": compiled_loss(False), "CompiledInParts": compiled_loss(True)}
