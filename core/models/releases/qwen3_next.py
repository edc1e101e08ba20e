"""qwen3_next by earlier releases: rows of a chunk's system, one after the other, are nodes of their own."""
from transformers.releases import quirks

if not quirks.delta_rule_by_triangles:
    Qwen3NextForCausalLM.turn = (64, 768)
