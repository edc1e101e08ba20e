"""qwen2_5_vl before 4.56: Trainer counts items, which its loss does not take."""
from transformers.releases import quirks

if not quirks.grids_hand_loss_items:
    Qwen2_5_VLForConditionalGeneration.items_are_not_taken = False
