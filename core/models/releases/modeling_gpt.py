"""What GPT-like families wrote alike in earlier releases."""
import torch
from torch import nn

from transformers.masking_utils import create_causal_mask
from transformers.modeling_decoder import CausalLM, positions
from transformers.modeling_utils import slice_logits_to_keep
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.releases import quirks
from transformers.utils.generic import can_return_tuple


def run_layer(model, layer, hidden_states, **by_name):
    """Before layers checkpointed themselves the model did, every argument by its place."""
    if quirks.checkpoint_keywords or not (model.gradient_checkpointing and model.training):
        return layer(hidden_states, **by_name)
    names = tuple(by_name)
    return model._gradient_checkpointing_func(
        lambda hidden_states, *values: layer(hidden_states, **dict(zip(names, values))), hidden_states, *by_name.values())


def places_of(model, inputs, seen):
    """cache_position, which generate() hands over."""
    return model.places_given[None] if hasattr(model, "places_given") else positions(inputs, seen)


def padding_to_add(attention_mask, dtype):
    """For scores that a causal buffer masks already."""
    mask = attention_mask[:, None, None, :]
    mask = mask.to(dtype=dtype)
    mask = (1.0 - mask) * torch.finfo(dtype).min
    return mask


def own_mask(model, attention_mask):
    """What eager classes with a causal buffer, and classes of a kernel, made of the batch's mask: no causal one."""
    if attention_mask is None:
        return None
    if model.config._attn_implementation == "flash_attention_2":
        return attention_mask if 0 in attention_mask else None
    return padding_to_add(attention_mask, model.dtype)


def mask_for_kernel(attention_mask, config, **of):
    """What a flash class wants of it; the mask of a converter for others."""
    if config._attn_implementation == "flash_attention_2":
        return attention_mask if attention_mask is not None and 0 in attention_mask else None
    return create_causal_mask(config=config, attention_mask=attention_mask, **of)


def sdpa_of_class(query, key, value, attention_mask, dropout):
    output = nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=attention_mask, dropout_p=dropout, is_causal=attention_mask is None and query.shape[2] > 1)
    output = output.transpose(1, 2).contiguous()
    return output


def drops_weights(attention):
    """Its forward kept them to itself."""
    of_class = attention.forward

    def forward(self, *args, **kwargs):
        output, weights = of_class(self, *args, **kwargs)
        return output, None

    attention.forward = forward


def keeps_causal_buffer(module, name, length, masked=None):
    module.register_buffer(name, torch.tril(torch.ones((length, length), dtype=torch.bool)).view(1, 1, length, length), persistent=False)
    if masked is not None:
        module.register_buffer("masked_bias", masked, persistent=False)


if not quirks.loss_by_function or quirks.gpt_cast_logits:

    def shift(logits):
        return logits[..., :-1, :]

    CausalLM.shift, CausalLM.casts = staticmethod(shift), (False, False)  # logits to fp32; for the loss alone, and back behind it

    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, labels=None, use_cache=None, logits_to_keep=0,
                **kwargs):
        """The loss is no function's: its parts are locals here. Where the class has no logits_to_keep logits are of all places, whatever generate() wants."""
        outputs = getattr(self, self.base_model_prefix)(
            input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, past_key_values=past_key_values, use_cache=use_cache)
        hidden_states = outputs.last_hidden_state
        if quirks.gpt_slices_logits:
            hidden_states = slice_logits_to_keep(hidden_states, logits_to_keep)
        logits = self.logits(hidden_states)
        upcast, for_loss = self.casts
        back = for_loss and labels is not None
        if upcast and (back or not for_loss):
            logits = logits.to(torch.float32)
        loss = None
        if labels is None:
            pass
        elif quirks.loss_by_function:
            loss = self.loss_function(logits=logits, labels=labels, vocab_size=self.config.vocab_size, **kwargs)
        else:
            shift_logits = self.shift(logits).contiguous()
            shift_labels = labels[..., 1:].contiguous()
            loss = nn.functional.cross_entropy(shift_logits.view(-1, shift_logits.size(-1)), shift_labels.view(-1))
        if back:
            logits = logits.to(hidden_states.dtype)
        if upcast and labels is not None:
            loss = loss.to(hidden_states.dtype)
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=outputs.past_key_values)

    CausalLM.forward = forward
