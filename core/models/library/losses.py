"""Losses that a script or another library puts in the place of the model's own: the decoder runs, the head is read where it stands."""
import torch
from torch import nn

from transformers.liger import bind, linear_loss, liger_cross_entropy, weight_that_is_read
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.releases import refuse
from transformers.trl.fused_lm_head import add_fused_lm_head, router_aux_loss_coef, text_config
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
    put(model, lambda hidden, model, labels, items: linear_loss(hidden, weight_that_is_read(model), labels, items))


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


def logits_once(model):
    """nobody's: the least that a compiled loss over whole logits can do with, their gradient written over them"""

    def loss_of(hidden, model, labels, items):
        logits = model.get_output_embeddings()(hidden)
        target = nn.functional.pad(labels, (0, 1), value=-100)[..., 1:].contiguous()
        return liger_cross_entropy(logits.view(-1, logits.size(-1)), target.view(-1))

    put(model, loss_of)


class ReturnedFunction(torch.autograd.Function):
    """Whatever a compiled graph returns and nobody reads has a gradient of zeros: keys and values of a cache"""

    @staticmethod
    def forward(ctx, loss, *returned):
        ctx.sizes = [(x.shape, x.dtype, x.device) for x in returned]
        return loss.clone()

    @staticmethod
    def backward(ctx, grad_output):
        ctx.tangents = [torch.zeros(size, dtype=dtype, device=device) for size, dtype, device in ctx.sizes]
        return (grad_output, *([None] * len(ctx.sizes)))


def compiled(model, loss_type="Compiled"):
    """nobody's: the model's own loss as a compiled graph holds it at the most"""
    model.loss_type = loss_type
    own = model.forward

    def forward(self, **batch):
        outputs = own(**batch)
        cache = getattr(outputs, "past_key_values", None)
        layers = getattr(cache, "layers", None) or ()
        returned = [x for layer in layers for x in (getattr(layer, "keys", None), getattr(layer, "values", None)) if x is not None]
        if returned and outputs.loss is not None:
            outputs.loss = ReturnedFunction.apply(outputs.loss, *returned)
        return outputs

    bind(model, forward)


def compiled_in_parts(model):
    """the same where hooks of adapters break the graph (enable_input_require_grads)"""
    compiled(model, "CompiledInParts")


class LinearCrossEntropyFunction(torch.autograd.Function):
    """cut_cross_entropy 25.1.1 cce.py: keeps hidden states, the head and the rows' log-sum-exp; no logits, in backward neither."""

    @staticmethod
    def forward(ctx, e, c, targets, valids):
        B, V = valids.shape[0], c.shape[0]
        lse = e.new_full((B,), 0.0, dtype=torch.float32)
        locks = e.new_full((cdiv(B, 128),), 0, dtype=torch.int32)
        logit_avg = e.new_full((V,), 0.0, dtype=torch.float32)
        launch((e, c, valids), (lse, logit_avg))
        del locks
        neg_dot = e.new_zeros((B,), dtype=torch.float32)
        launch((e, targets, valids), (neg_dot,))
        nll = neg_dot.add_(lse)
        loss = nll.sum()
        ctx.save_for_backward(e, c, lse, targets, valids, logit_avg)
        ctx.params = targets, valids  # which live as long as the node
        return loss

    @staticmethod
    def backward(ctx, grad_out):
        e, c, lse, targets, valids, logit_avg = ctx.saved_tensors
        B, V, D = valids.shape[0], c.shape[0], c.shape[1]
        sorted = torch.empty_like(logit_avg)
        places = torch.empty_like(logit_avg, dtype=torch.int64)
        vocab_ordering = places.to(torch.int32)
        del sorted, places
        de = torch.zeros_like(e)
        dc = torch.zeros_like(c, dtype=e.dtype) if ctx.needs_input_grad[1] else None
        nd_locks = cdiv(D, 64)
        de_locks = e.new_zeros((cdiv(B, nd_locks), nd_locks), dtype=torch.int32)
        dc_locks = c.new_zeros((cdiv(V, nd_locks), nd_locks), dtype=torch.int32)
        launch((e, c, lse, vocab_ordering), (de, dc, de_locks, dc_locks))
        return de, dc.to(c.dtype) if dc is not None else None, None, None


def valid_rows(targets):
    """cut_cross_entropy utils.py _build_flat_valids(shift=True), of targets that all count"""
    targets = targets[..., 1:]
    valid = targets != -100
    places = torch.empty((valid.numel(), 2), dtype=torch.int64, device=targets.device)
    del valid
    places = places.to(torch.int32)
    return places.sum(1)


def cut_cross_entropy(model):
    """ml-cross-entropy transformers/utils.py apply_lce, as axolotl's plugin and cce_patch() put it into a model's forward; axolotl's fork casts what is wide"""
    head_of(model)

    def loss_of(hidden, model, labels, items):
        c = weight_that_is_read(model)
        e = hidden
        if e.dtype == torch.float32:
            if c.dtype != torch.bfloat16:
                refuse("/training/loss", "cut cross-entropy's backward takes hidden states in half precision, and these are fp32: bf16 weights")
            e = e.to(c.dtype)
        e = e.contiguous()
        targets = labels.contiguous()
        valids = valid_rows(targets)
        e = e.flatten(0, -2)
        targets = targets.flatten()
        loss = LinearCrossEntropyFunction.apply(e, c, targets, valids)
        del c
        return loss / items if items is not None else loss

    put(model, loss_of)


def chunked_nll(model):
    """trl 1.16.0 trainer/sft_trainer.py SFTTrainer.compute_loss, over the head of trainer/utils.py add_fused_lm_head: no logits"""
    decoder_of(model)
    add_fused_lm_head(model, ("log_probs", "entropy", "is_top1"))
    fused, coef = model.forward, router_aux_loss_coef(model)
    if coef != 0.0:
        text_config(model).output_router_logits = True

    def forward(self, labels=None, num_items_in_batch=None, **batch):
        outputs = fused(labels=labels, **batch)
        per_token_loss = -outputs.log_probs
        num_tokens = outputs.label_mask.sum() if num_items_in_batch is None else num_items_in_batch
        loss = per_token_loss.sum() / torch.as_tensor(num_tokens).clamp(min=1)
        if coef != 0.0:
            weighted_aux_loss = coef * outputs.aux_loss
            loss = loss + weighted_aux_loss / 1  # the steps of an accumulation
        return CausalLMOutputWithPast(loss=loss, logits=None)

    bind(model, forward)
