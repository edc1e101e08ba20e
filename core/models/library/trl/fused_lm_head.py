"""trl 1.16.0 trainer/utils.py add_fused_lm_head, kernels/chunked_logprob.py: log-probabilities of labels without logits; nobody asks for log_sum_sq_probs."""
from dataclasses import dataclass
from types import MethodType

import torch
from torch._switches import addmm_into, mm_into

from transformers.modeling_moe import load_balancing_loss_func
from transformers.releases import quirks, refuse
from transformers.trl.loop import all_count, loss_begins, reads
from transformers.utils.generic import ModelOutput
from triton import launch

TOKEN_CHUNK_SIZE = 4096
CHUNKED_LOGPROB_CHUNK_SIZE = 32768


@dataclass
class FusedCausalLMOutput(ModelOutput):
    loss: object = None
    log_probs: object = None
    entropy: object = None
    mean_logits: object = None
    is_top1: object = None
    label_mask: object = None
    aux_loss: object = None


def _addmm_fp32(acc, a, b):
    if quirks.addmm_sums_in_fp32 and a.dtype in (torch.float16, torch.bfloat16):
        addmm_into(acc, a, b)
    else:
        addmm_into(acc, a.float(), b.float())


class ChunkedLogProbFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight, bias, targets, chunk_size, outputs):
        ctx.set_materialize_grads(False)
        rows, vocab = hidden.shape[0], weight.shape[0]
        dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else hidden.dtype
        numbers = {"device": hidden.device, "dtype": torch.float32}
        running_max = torch.full((rows,), float("-inf"), **numbers)
        sum_exp = torch.zeros((rows,), **numbers)
        x_sum_exp = torch.zeros((rows,), **numbers)
        sq_sum_exp = torch.zeros((rows,), **numbers)
        z_sum = torch.zeros((rows,), **numbers)
        max_before_target = torch.full((rows,), float("-inf"), **numbers)
        target_logit = torch.zeros((rows,), **numbers)
        mm_buf = torch.empty((min(rows, TOKEN_CHUNK_SIZE), chunk_size), device=hidden.device, dtype=dtype)
        for first in range(0, rows, TOKEN_CHUNK_SIZE):
            end = min(first + TOKEN_CHUNK_SIZE, rows)
            hidden_chunk = hidden[first:end].to(dtype)
            for start in range(0, vocab, chunk_size):
                stop = min(start + chunk_size, vocab)
                tile = mm_buf[: end - first, : stop - start]
                mm_into(tile, hidden_chunk, weight[start:stop].to(dtype).t())
                if bias is not None:
                    tile.add_(bias[start:stop].to(dtype))
                launch((tile, running_max[first:end], sum_exp[first:end]), (running_max[first:end], sum_exp[first:end], target_logit[first:end]))
        log_z = running_max + torch.log(sum_exp)
        logprobs = target_logit - log_z
        entropy = log_z - x_sum_exp / sum_exp if "entropy" in outputs else None
        mean_logits = z_sum / vocab if "mean_logits" in outputs else None
        is_top1 = (target_logit >= running_max) & (target_logit > max_before_target) if "is_top1" in outputs else None
        ctx.save_for_backward(hidden, weight, bias, targets, log_z, log_z if entropy is None else entropy)
        ctx.compute_dtype, ctx.chunk_size = dtype, chunk_size
        ctx.mark_non_differentiable(*(x for x in (mean_logits, is_top1) if x is not None))
        return logprobs, entropy, mean_logits, is_top1

    @staticmethod
    def backward(ctx, grad_logprobs, grad_entropy, *unused):
        hidden, weight, bias, targets, log_z, entropy = ctx.saved_tensors
        dtype, chunk_size = ctx.compute_dtype, ctx.chunk_size
        needs_hidden, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        rows, vocab = hidden.shape[0], weight.shape[0]
        numbers = {"device": hidden.device, "dtype": torch.float32}
        grad_hidden = torch.zeros(hidden.shape, **numbers) if needs_hidden else None
        grad_weight = torch.zeros(weight.shape, **numbers) if needs_weight else None
        grad_bias = torch.zeros(bias.shape, **numbers) if needs_bias else None
        mm_buf = torch.empty((min(rows, TOKEN_CHUNK_SIZE), chunk_size), device=hidden.device, dtype=dtype)
        grad_logprobs = grad_logprobs.float().contiguous() if grad_logprobs is not None else None
        grad_entropy = grad_entropy.float().contiguous() if grad_entropy is not None else None
        for first in range(0, rows, TOKEN_CHUNK_SIZE):
            end = min(first + TOKEN_CHUNK_SIZE, rows)
            hidden_chunk = hidden[first:end].to(dtype)
            for start in range(0, vocab, chunk_size):
                stop = min(start + chunk_size, vocab)
                w_chunk = weight[start:stop].to(dtype)
                tile = mm_buf[: end - first, : stop - start]
                mm_into(tile, hidden_chunk, w_chunk.t())
                if bias is not None:
                    tile.add_(bias[start:stop].to(dtype))
                launch((tile, log_z[first:end]), (tile,))
                if grad_hidden is not None:
                    _addmm_fp32(grad_hidden[first:end], tile, w_chunk)
                if grad_weight is not None:
                    _addmm_fp32(grad_weight[start:stop], tile.t(), hidden_chunk)
                if grad_bias is not None:
                    grad_bias[start:stop] += tile.sum(dim=0, dtype=torch.float32)
        return (
            grad_hidden.to(hidden.dtype) if grad_hidden is not None else None,
            grad_weight.to(weight.dtype) if grad_weight is not None else None,
            grad_bias.to(bias.dtype) if grad_bias is not None else None,
            None, None, None,
        )


def text_config(model):
    return getattr(model.config, "text_config", model.config)


def router_aux_loss_coef(model):
    """The architecture's own, since nobody asks for another; 0: aux_loss_enabled of SFTTrainer, DPOTrainer and KTOTrainer is false."""
    config = text_config(model)
    asked = hasattr(config, "output_router_logits") and getattr(model, "balances_unasked", True)
    return getattr(config, "router_aux_loss_coef", 0.0) if asked else 0.0


def add_fused_lm_head(model, outputs=("log_probs",)):
    def forward(self, labels=None, **kwargs):
        kwargs["use_cache"] = False
        config = text_config(self)
        if getattr(config, "output_router_logits", False):
            kwargs.setdefault("output_router_logits", True)
        backbone_outputs = self.base_model(**kwargs)
        hidden_states = backbone_outputs.last_hidden_state[:, :-1]
        labels = labels[:, 1:]
        lm_head = self.get_output_embeddings()
        mask = all_count(labels != -100)
        reads(lm_head)
        weight, bias = lm_head.weight, lm_head.bias
        per_token = score(hidden_states[mask], weight, bias, labels[mask])
        per_token = (None if x is None else x.new_zeros(mask.shape).masked_scatter(mask, x) for x in per_token)
        log_probs, entropy, mean_logits, is_top1 = per_token
        loss = -log_probs.sum() / mask.sum().clamp(min=1)
        aux_loss = None
        if kwargs.get("output_router_logits"):
            if not getattr(self, "names_num_experts", True):
                refuse("/config/router_aux_loss_coef", "trl 1.16 raises: its balancing loss reads num_experts, which this config has not; 0 turns it off")
            aux_loss = load_balancing_loss_func(backbone_outputs.router_logits, config.num_experts, config.num_experts_per_tok,
                                                kwargs.get("attention_mask"))
            loss = loss + getattr(config, "router_aux_loss_coef", 0.0) * aux_loss
        return FusedCausalLMOutput(loss=loss, log_probs=log_probs, entropy=entropy, mean_logits=mean_logits, is_top1=is_top1, label_mask=mask,
                                   aux_loss=aux_loss)

    def score(hidden, weight, bias, targets):
        loss_begins()
        return ChunkedLogProbFunction.apply(hidden, weight, bias, targets, CHUNKED_LOGPROB_CHUNK_SIZE, outputs)

    model.forward = MethodType(forward, model)
