"""cohere2 by earlier releases."""
from transformers.releases import of, quirks

if not quirks.masks_by_utils:
    from transformers.modeling_attn_mask_utils import cuts_window, one_mask

    of(Cohere2Model)(one_mask, "masks")
    of(Cohere2DecoderLayer)(cuts_window(Cohere2DecoderLayer.forward), "forward")
