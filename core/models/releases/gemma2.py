"""gemma2 by earlier releases."""
import torch
from torch import nn

from transformers.releases import of, quirks

if not quirks.interface_attention:
    from transformers.integrations.flash_attention import flash_attention_forward
    from transformers.integrations.eager_attention import eager_attention_forward

    @of(Gemma2Attention)
    def function(self, kernel):
        if kernel == "eager":
            return eager_attention_forward if quirks.gemma2_attention_functions else None
        return flash_attention_forward if kernel == "flash_attention_2" else None

    @of(Gemma2Attention)
    def scaled(self, scores):
        scores = scores * self.scaling
        if self.config.attn_logit_softcapping is not None:
            scores = scores / self.config.attn_logit_softcapping
            scores = torch.tanh(scores)
            scores = scores * self.config.attn_logit_softcapping
        return scores


if not quirks.masks_by_utils:
    from transformers.modeling_attn_mask_utils import cuts_window, one_mask

    of(Gemma2Model)(one_mask, "masks")
    of(Gemma2DecoderLayer)(cuts_window(Gemma2DecoderLayer.forward), "forward")


if not quirks.gemma2_embedding_scales:

    @of(Gemma2Model)
    def embedding(self, config):
        return nn.Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)

    @of(Gemma2Model)
    def normalized(self, hidden_states):
        return hidden_states * self.config.hidden_size**0.5
