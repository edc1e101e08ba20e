"""cohere2 by earlier releases."""
from transformers.releases import of, quirks

if not quirks.masks_by_utils:
    from transformers.modeling_attn_mask_utils import cut_window, update_causal_mask

    @of(Cohere2Model)
    def masks(self, **of):
        return [update_causal_mask(always=True, **of)] * len(self.layers)

    of_layer = Cohere2DecoderLayer.forward

    @of(Cohere2DecoderLayer)
    def forward(self, hidden_states, attention_mask=None, position_ids=None, **kwargs):
        attention_mask, held = cut_window(self, attention_mask, position_ids)
        return of_layer(self, hidden_states, attention_mask=attention_mask, position_ids=position_ids, **kwargs)
