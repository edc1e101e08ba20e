"""Liger's kernels on a model that stands: transformers/integrations/liger.py apply_liger_kernel(), liger_kernel/transformers/monkey_patch.py."""
import torch
from torch import nn

from transformers.liger.fused_moe import LigerFusedMoEFunction
from transformers.liger.ops import (
    LigerCrossEntropyFunction,
    LigerFusedLinearCrossEntropyFunction,
    LigerGatedFunction,
    LigerReLUSquaredFunction,
    LigerRMSNormFunction,
    LigerRopeFunction,
    LigerScaledGatedFunction,
)
from transformers.liger.patches import (
    CHUNK_MEMORY, FAILS, FROM_ONE, HEADS, HEADS_SINCE, KEEPS_ROPE, NAMES_CROSS_ENTROPY, OTHERWISE_BEFORE, PATCHES, RAISES, UNREAD)
from transformers.modeling_moe import MoeCausalLM, load_balancing_loss_func
from transformers.modeling_outputs import CausalLMOutputWithPast, MoeCausalLMOutputWithPast
from transformers.modeling_utils import slice_logits_to_keep
from transformers.releases import quirks, refuse
from transformers.trl.loop import reads
from transformers.utils.generic import can_return_tuple


def norm_forward(in_place, wide):
    def forward(self, hidden_states):
        return LigerRMSNormFunction.apply(hidden_states, self.weight, in_place, wide)

    return forward


def gated_forward(self, x):
    """LigerSwiGLUMLP, LigerGEGLUMLP"""
    return self.down_proj(LigerGatedFunction.apply(self.gate_proj(x), self.up_proj(x)))


def gated_of_one_forward(self, x):
    """LigerPhi3SwiGLUMLP: both factors are halves of one product, copied apart"""
    up_states = self.gate_up_proj(x)
    gate, up_states = up_states.chunk(2, dim=-1)
    return self.down_proj(LigerGatedFunction.apply(gate, up_states))


def gated_in_experts_forward(self, x):
    """LigerBlockSparseTop2MLP"""
    return self.w2(LigerGatedFunction.apply(self.w1(x), self.w3(x)))


def gated_with_multipliers_forward(self, x):
    """LigerFalconH1SwiGLUMLP"""
    return self.down_proj(LigerScaledGatedFunction.apply(self.gate_proj(x), self.up_proj(x), self.down_multiplier))


def experts_forward(self, hidden_states, top_k_index, top_k_weights):
    """LigerExperts"""
    shape = hidden_states.shape
    x = hidden_states.view(-1, shape[-1])
    top_k_index = top_k_index.view(-1, top_k_index.shape[-1]).to(torch.int32)
    top_k_weights = top_k_weights.view(-1, top_k_weights.shape[-1])
    out = LigerFusedMoEFunction.apply(x, self.gate_up_proj, self.down_proj, top_k_index, top_k_weights)
    return out.view(shape)


def experts_in_turn_forward(self, hidden_states, top_k_index, top_k_weights):
    """LigerExperts of 0.7"""
    final_hidden_states = torch.zeros_like(hidden_states)
    with torch.no_grad():
        expert_mask = nn.functional.one_hot(top_k_index, num_classes=self.num_experts)
        expert_mask = expert_mask.permute(2, 1, 0)
        expert_hit = torch.greater(expert_mask.sum(dim=(-1, -2)), 0).nonzero()
    for expert_idx in expert_hit:
        expert_idx = expert_idx[0]
        top_k_pos, token_idx = torch.where(expert_mask[expert_idx])
        current_state = hidden_states[token_idx]
        gate, up = nn.functional.linear(current_state, self.gate_up_proj[expert_idx]).chunk(2, dim=-1)
        current_hidden_states = LigerGatedFunction.apply(gate, up)
        current_hidden_states = nn.functional.linear(current_hidden_states, self.down_proj[expert_idx])
        current_hidden_states = current_hidden_states * top_k_weights[token_idx, top_k_pos, None]
        final_hidden_states.index_add_(0, token_idx, current_hidden_states.to(final_hidden_states.dtype))
    return final_hidden_states


def liger_rotary_pos_emb(q, k, cos, sin, position_ids=None, unsqueeze_dim=1):
    return LigerRopeFunction.apply(q, k, cos, sin)


def liger_cross_entropy(input, target, ignore_index=-100, reduction="mean"):
    return LigerCrossEntropyFunction.apply(input, target)


def linear_loss(hidden_states, weight, labels, num_items_in_batch, chunk_memory=1):
    """model/loss_utils.py LigerForCausalLMLoss; before it the hidden states without the last of each row are copied"""
    if quirks.liger_shifts_hidden:
        shift_hidden_states = hidden_states[..., :-1, :].contiguous()
        shift_labels = labels[..., 1:].contiguous()
        hidden_states = shift_hidden_states.view(-1, shift_hidden_states.shape[-1])
    else:
        labels = nn.functional.pad(labels, (0, 1), value=-100)
        shift_labels = labels[..., 1:].contiguous()
        hidden_states = hidden_states.view(-1, hidden_states.shape[-1])
    shift_labels = shift_labels.view(-1)
    loss = LigerFusedLinearCrossEntropyFunction.apply(hidden_states, weight, shift_labels, chunk_memory)
    if num_items_in_batch is not None:
        loss = loss / num_items_in_batch
    return loss


def weight_that_is_read(model):
    """of a head that nobody calls"""
    head = model.get_output_embeddings()
    reads(head)
    return head.weight


@can_return_tuple
def lce_forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, inputs_embeds=None, labels=None, use_cache=None,
                logits_to_keep=0, num_items_in_batch=None, **kwargs):
    """model/llama.py and those like it: in training no logits are made."""
    outputs = getattr(self, self.base_model_prefix)(
        input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, past_key_values=past_key_values, inputs_embeds=inputs_embeds,
        use_cache=use_cache, **kwargs)
    hidden_states = outputs[0]
    kept_hidden_states = slice_logits_to_keep(hidden_states, logits_to_keep)
    if self.config.model_type == "falcon_h1":
        kept_hidden_states = kept_hidden_states * self.config.lm_head_multiplier
    loss = linear_loss(kept_hidden_states, weight_that_is_read(self), labels, num_items_in_batch, CHUNK_MEMORY.get(self.config.model_type, 1))
    return CausalLMOutputWithPast(loss=loss, logits=None, past_key_values=outputs.past_key_values)


@can_return_tuple
def moe_lce_forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, inputs_embeds=None, labels=None, use_cache=None,
                    output_router_logits=None, logits_to_keep=0, num_items_in_batch=None, **kwargs):
    """model/mixtral.py and those like it"""
    asked = output_router_logits if output_router_logits is not None else self.config.output_router_logits
    outputs = self.model(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, past_key_values=past_key_values,
                         inputs_embeds=inputs_embeds, use_cache=use_cache, output_router_logits=asked, **kwargs)
    hidden_states = outputs[0]
    kept_hidden_states = slice_logits_to_keep(hidden_states, logits_to_keep)
    loss = linear_loss(kept_hidden_states, weight_that_is_read(self), labels, num_items_in_batch, CHUNK_MEMORY.get(self.config.model_type, 1))
    aux_loss = None
    if asked:
        aux_loss = load_balancing_loss_func(outputs.router_logits, self.config.num_experts, self.config.num_experts_per_tok, attention_mask)
        loss += self.config.router_aux_loss_coef * aux_loss.to(loss.device)
    return MoeCausalLMOutputWithPast(loss=loss, aux_loss=aux_loss, logits=None, past_key_values=outputs.past_key_values,
                                     router_logits=getattr(outputs, "router_logits", None))


def find(layer, path):
    for name in path.split("."):
        layer = getattr(layer, name, None)
    return layer


def rotates(attention):
    """Some layers of smollm3 and exaone4 do not, and some of hybrids have no attention."""
    return attention is not None and getattr(attention, "use_rope", True) and (
        getattr(attention, "is_sliding", True) or attention.config.sliding_window is None)


def bind(module, forward):
    module.forward = forward.__get__(module)


def patch_mlp(mlp, kind, release):
    """Experts are one module since transformers 5, a list of them before."""
    experts = getattr(mlp, "experts", None)
    shared = getattr(mlp, "shared_expert", None) or getattr(mlp, "shared_experts", None)
    if kind == "nemotron":
        mlp.act_fn = LigerReLUSquaredFunction.apply
    elif kind == "falcon_h1":
        bind(mlp, gated_with_multipliers_forward)
    elif experts is None:
        bind(mlp, gated_of_one_forward if hasattr(mlp, "gate_up_proj") else gated_forward)
    elif isinstance(experts, nn.ModuleList):
        for expert in experts:
            bind(expert, gated_in_experts_forward if hasattr(expert, "w1") else gated_forward)
    else:
        bind(experts, experts_forward if release >= 8 else experts_in_turn_forward)
    if shared is not None:
        bind(shared, gated_forward)


def refuse_unless_patched(model, kind, release, rope, swiglu, fused_linear_cross_entropy):
    if kind in FAILS:
        refuse("/training/liger_kernels", f"Liger raises ImportError for {kind}: leave liger_kernels out")
    if kind in UNREAD:
        refuse("/training/liger_kernels", f"Liger's kernels for {kind} are not modelled yet: leave liger_kernels out")
    if release < PATCHES[kind][4] and kind not in OTHERWISE_BEFORE:
        refuse("/training/liger_kernels", f"this release of Liger has no kernels for {kind} and leaves the model as it is: leave liger_kernels out")
    if release < OTHERWISE_BEFORE.get(kind, 0):
        refuse("/training/liger_kernels", f"what Liger before 0.8 does to {kind} is not modelled yet: liger 0.8, or leave liger_kernels out")
    if rope and RAISES.get(kind) == "rope" or fused_linear_cross_entropy and RAISES.get(kind) == "fused_linear_cross_entropy":
        refuse("/training/liger_kernels", f"Liger raises NotImplementedError for {RAISES[kind]} of {kind}: leave it out")
    if swiglu and kind == "qwen3_moe" and any(not hasattr(layer.mlp, "experts") for layer in model.base_model.layers):
        refuse("/training/liger_kernels", "Liger looks for experts in every layer of qwen3_moe and raises AttributeError where one is dense: leave swiglu out")
    if release < 7 and any(hasattr(getattr(layer, "mlp", None), "experts") and not isinstance(layer.mlp.experts, nn.ModuleList)
                           for layer in model.base_model.layers):
        refuse("/training/liger_kernels", "Liger before 0.7 takes experts for a list and raises on those of transformers 5: liger 0.8")


def apply(model, release, rope, rms_norm, swiglu, geglu, layer_norm, cross_entropy, fused_linear_cross_entropy):
    """No function of a text model has a layer_norm: what it does not take is left out, as _apply_liger_kernel_to_instance() does."""
    kind = model.config.model_type
    if kind not in FAILS + UNREAD and kind not in PATCHES:  # "There are currently no Liger kernels supported for model type": logged, and no more
        return
    refuse_unless_patched(model, kind, release, rope, swiglu, fused_linear_cross_entropy)
    gate, norms, in_place, last_in_place, _ = PATCHES[kind]
    if release < HEADS_SINCE.get(kind, 0):
        norms = tuple(name for name in norms if name not in HEADS)
    decoder, from_one = model.base_model, kind in FROM_ONE
    gates = gate == "swiglu" and swiglu or gate == "geglu" and geglu or gate == "relu_squared"  # that one is no word of the Trainer's: always on
    if fused_linear_cross_entropy:
        bind(model, moe_lce_forward if isinstance(model, MoeCausalLM) else lce_forward)
    if cross_entropy and (not quirks.loss_by_function or release >= 4 and kind not in NAMES_CROSS_ENTROPY):
        nn.functional.cross_entropy = liger_cross_entropy
    if rms_norm and norms:
        bind(decoder.last_norm(), norm_forward(last_in_place, from_one))
    for layer in decoder.layers:
        if rope and kind not in KEEPS_ROPE and gate != "relu_squared" and rotates(getattr(layer, "self_attn", None)):
            layer.self_attn.rotate = liger_rotary_pos_emb
        if gates:
            patch_mlp(find(layer, "mlp") or find(layer, "block_sparse_moe") or layer.feed_forward, kind, release)
        for path in norms if rms_norm else ():
            if find(layer, path) is not None:
                bind(find(layer, path), norm_forward(in_place, from_one))
