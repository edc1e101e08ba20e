"""nemotron_h by earlier releases."""
from transformers.releases import of, quirks, refuse

if not quirks.nemotron_norms_in_fp32:
    from transformers.modeling_norm import RMSNorm

    RMSNormInFloat.forward = RMSNorm.forward

if not quirks.recurrent_masks_by_utils:

    @of(NemotronHModel)
    def masks(self, attention_mask, **of):
        mask = attention_mask
        causal = create_causal_mask(attention_mask=attention_mask, **of)
        if mask is not None and torch.all(mask == 1):
            mask = None
        masks = {"full_attention": causal, "linear_attention": mask}
        return by_kind(masks, [layer.block_type for layer in self.layers])


if not quirks.mixer_of_functions:
    NemotronHMamba2Mixer.masks_before = False
    NemotronHMamba2Mixer.begins_at_zeros = bool(quirks.nemotron_begins_at_zeros)

    @of(NemotronHMamba2Mixer)
    def left(self, B_decay, hidden_states):
        product = B_decay.permute(0, 1, 3, 2, 4)[..., None] * hidden_states.permute(0, 1, 3, 2, 4)[..., None, :]
        return product.sum(dim=3).permute(0, 1, 2, 4, 3)


if not quirks.nemotron_checkpoints:
    NemotronHModel.supports_gradient_checkpointing = NemotronHForCausalLM.supports_gradient_checkpointing = False

if not quirks.nemotron_layers_of_mlps:
    of_block = NemotronHBlock.__init__

    @of(NemotronHBlock)
    def __init__(self, config, layer_idx):
        if config.layers_block_type[layer_idx] == "mlp":
            refuse("/config/hybrid_override_pattern", "before transformers 5.6 no layer of nemotron_h may be an MLP: modeling_nemotron_h.py raises")
        of_block(self, config, layer_idx)
