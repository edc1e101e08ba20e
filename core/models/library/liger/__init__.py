"""Liger's kernels on a model that stands: transformers/integrations/liger.py apply_liger_kernel(), liger_kernel/transformers/monkey_patch.py."""
from torch import nn

from transformers.liger.ops import (
    LigerCrossEntropyFunction,
    LigerFusedLinearCrossEntropyFunction,
    LigerGatedFunction,
    LigerRMSNormFunction,
    LigerRopeFunction,
)
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.modeling_utils import slice_logits_to_keep
from transformers.releases import quirks, refuse
from transformers.utils.generic import can_return_tuple

BOTH = ("input_layernorm", "post_attention_layernorm")
FOUR = BOTH + ("pre_feedforward_layernorm", "post_feedforward_layernorm")
AFTER = ("post_attention_layernorm", "post_feedforward_layernorm")
HEADS = ("self_attn.q_norm", "self_attn.k_norm")

# What apply_liger_kernel_to_* of 0.8.5 does to a model that stands: which gate, which norms of a layer, whether the gradient of one is written over the
# gradient of its result (of the layers', of the last). The release in which the function came, as 1000 * major + minor.
PATCHES = {
    "llama": ("swiglu", BOTH, True, True, 3),
    "mistral": ("swiglu", BOTH, True, True, 3),
    "qwen2": ("swiglu", BOTH, True, True, 3),
    "qwen3": ("swiglu", BOTH + HEADS, True, True, 5),
    "smollm3": ("swiglu", BOTH, True, True, 6),
    "gemma": ("geglu", BOTH, True, True, 3),
    "gemma2": ("geglu", FOUR, False, False, 3),
    "gemma3_text": ("geglu", FOUR + HEADS, False, False, 5),
    "phi3": ("swiglu", BOTH, True, True, 3),
    "olmo2": ("swiglu", AFTER, False, True, 5),
    "olmo3": ("swiglu", AFTER, False, True, 6),
    "exaone4": ("swiglu", AFTER + HEADS, False, False, 6),
    "glm4": ("swiglu", BOTH + ("post_self_attn_layernorm", "post_mlp_layernorm"), False, False, 5),
    "granite": ("swiglu", BOTH, True, True, 5),
}
# What raises NotImplementedError there.
RAISES = {"glm4": "rope", "granite": "fused_linear_cross_entropy"}


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


def liger_rotary_pos_emb(q, k, cos, sin, position_ids=None, unsqueeze_dim=1):
    return LigerRopeFunction.apply(q, k, cos, sin)


def liger_cross_entropy(input, target, ignore_index=-100, reduction="mean"):
    return LigerCrossEntropyFunction.apply(input, target)


def linear_loss(hidden_states, weight, labels, num_items_in_batch):
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
    loss = LigerFusedLinearCrossEntropyFunction.apply(hidden_states, weight, shift_labels)
    if num_items_in_batch is not None:
        loss = loss / num_items_in_batch
    return loss


@can_return_tuple
def lce_forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, inputs_embeds=None, labels=None, use_cache=None,
                logits_to_keep=0, num_items_in_batch=None, **kwargs):
    """model/llama.py and those like it: in training no logits are made."""
    outputs = getattr(self, self.base_model_prefix)(
        input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, past_key_values=past_key_values, inputs_embeds=inputs_embeds,
        use_cache=use_cache, **kwargs)
    hidden_states = outputs[0]
    kept_hidden_states = slice_logits_to_keep(hidden_states, logits_to_keep)
    loss = linear_loss(kept_hidden_states, self.get_output_embeddings().weight, labels, num_items_in_batch)
    return CausalLMOutputWithPast(loss=loss, logits=None, past_key_values=outputs.past_key_values)


# The other types of 0.8.5's MODEL_TYPE_TO_APPLY_LIGER_FN: their classes, experts or losses have no program here.
UNREAD = (
    "deepseek_v2", "deepseek_v3", "deepseek_v4", "falcon_h1", "gemma3", "gemma4", "gemma4_text", "glm4v", "glm4v_moe", "gpt_oss",
    "hunyuan_v1_dense", "hunyuan_v1_moe", "internvl", "llama4", "llama4_text", "llava", "ministral", "mixtral", "mllama", "mllama_text_model", "muse_glimmer",
    "nemotron", "paligemma", "pixtral", "qwen2_5_vl", "qwen2_5_vl_text", "qwen2_vl", "qwen2_vl_text", "qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text",
    "qwen3_5_text", "qwen3_moe", "qwen3_next", "qwen3_vl", "qwen3_vl_moe", "qwen3_vl_moe_text", "qwen3_vl_text", "smolvlm")


def find(layer, path):
    for name in path.split("."):
        layer = getattr(layer, name, None)
    return layer


def rotates(attention):
    """Some layers of smollm3 and exaone4 do not."""
    return getattr(attention, "use_rope", True) and (getattr(attention, "is_sliding", True) or attention.config.sliding_window is None)


def bind(module, forward):
    module.forward = forward.__get__(module)


def apply(model, release, rope, rms_norm, swiglu, geglu, layer_norm, cross_entropy, fused_linear_cross_entropy):
    """No function of a text model has a layer_norm: what it does not take is left out, as _apply_liger_kernel_to_instance() does."""
    kind = model.config.model_type
    if kind in UNREAD:
        refuse("/training/liger_kernels", f"Liger's kernels for {kind} are not modelled yet: leave liger_kernels out")
    if kind not in PATCHES or release < PATCHES[kind][4]:
        refuse("/training/liger_kernels", f"this release of Liger has no kernels for {kind} and leaves the model as it is: leave liger_kernels out")
    if rope and RAISES.get(kind) == "rope" or fused_linear_cross_entropy and RAISES.get(kind) == "fused_linear_cross_entropy":
        refuse("/training/liger_kernels", f"Liger raises NotImplementedError for {RAISES[kind]} of {kind}: leave it out")
    gate, norms, in_place, last_in_place, _ = PATCHES[kind]
    decoder = model.base_model
    if fused_linear_cross_entropy:
        bind(model, lce_forward)
    if cross_entropy:
        nn.functional.cross_entropy = liger_cross_entropy
    if rms_norm:
        bind(decoder.norm, norm_forward(last_in_place, gate == "geglu"))
    for layer in decoder.layers:
        if rope and rotates(layer.self_attn):
            layer.self_attn.rotate = liger_rotary_pos_emb
        if gate == "swiglu" and swiglu or gate == "geglu" and geglu:
            bind(layer.mlp, gated_of_one_forward if hasattr(layer.mlp, "gate_up_proj") else gated_forward)
        for path in norms if rms_norm else ():
            if find(layer, path) is not None:
                bind(find(layer, path), norm_forward(in_place, gate == "geglu"))
