"""stablelm by earlier releases."""
import torch

from transformers.releases import of, quirks, refuse

StableLmForCausalLM.upcasts = False  # the logits, before there was a function for the loss

if not quirks.interface_attention:
    StableLmAttention.norms_heads = property(lambda self: self.config.qk_layernorm)

    def kernel_takes(self, turned):
        """StableLmFlashAttention2 casts nothing."""
        if self.config._attn_implementation == "flash_attention_2" and turned[0].dtype == torch.float32:
            refuse("/training/attention", "flash-attn raises on the fp32 queries that StableLmFlashAttention2 of this transformers release hands it, "
                   "where parts of heads are turned in fp32: weights in half without autocast, or sdpa")
        return turned

    @of(StableLmAttention)
    def rotate(self, q, k, cos, sin):
        return kernel_takes(self, PartlyRotated.rotate(self, q, k, cos, sin))

    if quirks.rope_tables_kept:

        @of(StableLmAttention)
        def turn(self, *args):
            return kernel_takes(self, PartlyRotated.turn(self, *args))
