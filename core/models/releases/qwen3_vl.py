"""qwen3_vl before 5.2: text asks for the index of three grids, whose first are its own."""
from transformers.releases import quirks

if quirks.text_asks_rope_index:
    from transformers.modeling_composite import asks_rope_index, sees_positions

    asks_rope_index(Qwen3VLModel)
    sees_positions(Qwen3VLTextModel)
