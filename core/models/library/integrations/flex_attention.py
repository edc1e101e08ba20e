"""torch's flex_attention behind the attention interface of transformers 5. Both ways of it are compiled: what is allocated here is what Inductor writes around its kernels."""
import torch
from torch.nn.attention.flex_attention import BlockMask
from transformers.integrations.sdpa_attention import repeat_kv
from transformers.releases import refuse
from triton import attend, launch


def like(x, width):
    """infer_dense_strides(): dense, laid out in the order of x"""
    if width > x.shape[-1]:
        refuse("/training/attention", "flex_attention of values that are wider than queries is not modelled")
    return torch.empty_like(x[..., :width])


def cast(x, dtype):
    """A buffer of the compiled region's"""
    if dtype is None or x.dtype == dtype:
        return x
    made = torch.empty_like(x, dtype=dtype)
    launch((x,), (made,))
    return made


class CompiledFunction(torch.autograd.Function):
    """torch/_inductor/kernel/flex/flex_attention.py: the kernel writes scores' logarithms and maxima; logarithms of base e are written over the latter and returned."""

    @staticmethod
    def forward(ctx, query, key, value, block_mask):
        ctx.dtypes = query.dtype, key.dtype, value.dtype
        half = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else None
        query, key, value = cast(query, half), cast(key, half), cast(value, half)
        lse = torch.empty(query.shape[:-1], dtype=torch.float32, device=query.device)
        returned = torch.empty(query.shape[:-1], dtype=torch.float32, device=query.device)
        output = like(query, value.shape[-1])
        attend(query, key, block_mask.causal, False)
        launch((lse,), (returned,))
        ctx.box_arguments()
        ctx.causal = block_mask.causal
        ctx.save_for_backward(query, key, value, *block_mask.tensors(), output, lse)
        return output, returned

    @staticmethod
    def backward(ctx, arguments):
        query, key, value, *mask, output, lse, grad_output, grad_lse = arguments
        arguments.clear()
        if grad_output.stride() != output.stride():  # runtime_wrappers.py coerce_runtime_tangent
            grad_output = torch.empty_like(output).copy_(grad_output)
        delta = torch.empty_like(lse)
        launch((output, grad_output, grad_lse), (delta,))
        del output, grad_lse
        grad_query, grad_value, grad_key = like(query, query.shape[-1]), like(value, value.shape[-1]), like(key, key.shape[-1])
        attend(query, key, ctx.causal, True)
        del query, key, value, mask, lse, delta, grad_output
        query_dtype, key_dtype, value_dtype = ctx.dtypes
        grad_query = cast(grad_query, query_dtype)
        grad_key = cast(grad_key, key_dtype)
        return grad_query, grad_key, cast(grad_value, value_dtype), None


def flex_attention_forward(module, query, key, value, attention_mask, scaling=None, softcap=None, s_aux=None, position_bias=None, **kwargs):
    if kwargs.get("dropout", 0.0) > 0:
        refuse("/training/attention", "flex_attention knows no dropout of attention, and transformers raises: attention_dropout 0 in the config, or sdpa")
    if position_bias is not None or not isinstance(attention_mask, BlockMask):
        refuse("/training/attention", "flex_attention with scores of the model's own (a bias of positions, a mask of numbers) is not modelled")
    heads = query.shape[1]
    if heads & (heads - 1):
        key = repeat_kv(key, heads // key.shape[1])
        value = repeat_kv(value, heads // value.shape[1])
    flex_attention_output = CompiledFunction.apply(query, key, value, attention_mask)
    output, lse = flex_attention_output
    lse = lse.to(value.dtype)
    if s_aux is not None:
        batch, heads, length, _ = output.shape
        sinks = s_aux.view(1, -1, 1, 1).expand(batch, heads, length, 1)
        lse_expanded = lse.unsqueeze(-1)
        combined_lse = torch.logsumexp(torch.cat([lse_expanded, sinks], dim=-1), dim=-1, keepdim=True)
        renorm_factor = torch.exp(lse_expanded - combined_lse)
        output = output * renorm_factor
        output = output.to(query.dtype)
    output = output.transpose(1, 2).contiguous()
    return output, lse
