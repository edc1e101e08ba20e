#!/usr/bin/env python3
"""Makes zero.jsonl of this folder: steps under DeepSpeed's ZeRO with what its file says beside buckets: round_robin_gradients, stage3_max_reuse_distance.

    make_zero.py ORACLE CONFIGS PYTHON [--only TEXT]

as make_freeze.py, whose tracer it is.
"""
import make_freeze
from make_freeze import CKPT, GPT2, QWEN3, TINY

ROUND = dict(precision="bf16", buckets={"round_robin": True})
# axolotl's zero3*.json: no parameter is kept for later, a sub-group a parameter
NOTHING = dict(precision="bf16", buckets={"max_live_elems": 0, "reuse_elems": 0, "sub_group_elems": 1}, overlap_comm=True)
LORA = dict(tuning="lora", lora={"rank": 16, "dropout": 0.05, "target_modules": ["q_proj", "v_proj"]})

# name, method, ranks, config, layers, rows, tokens of a row, the rest of `training`
CASES = [
    ("round-zero1", "zero1", 4, TINY, 6, 1, 512, ROUND),
    ("round-zero2", "zero2", 4, TINY, 6, 1, 512, dict(ROUND, **CKPT)),
    ("round-zero2-tied", "zero2", 2, QWEN3, 4, 2, 512, ROUND),
    ("round-zero2-offload", "zero2", 4, GPT2, 6, 1, 512, dict(ROUND, offload="optimizer", **CKPT)),
    ("round-zero2-lora", "zero2", 4, QWEN3, 6, 1, 512, dict(ROUND, **LORA)),
    ("nothing-kept", "zero3", 4, TINY, 6, 1, 512, NOTHING),
    ("nothing-kept-ckpt", "zero3", 4, QWEN3, 6, 2, 512, dict(NOTHING, **CKPT)),
    ("nothing-kept-lora", "zero3", 4, TINY, 6, 1, 512, dict(NOTHING, **LORA, **CKPT)),
    ("near-alone", "zero3", 4, TINY, 6, 1, 512, dict(precision="bf16", buckets={"max_live_elems": 1000000000, "reuse_elems": 20000000})),
    ("far", "zero3", 2, GPT2, 6, 1, 512, dict(precision="bf16", buckets={"max_live_elems": 3000000, "reuse_elems": 1000000000}, **CKPT)),
]

if __name__ == "__main__":
    make_freeze.main(CASES, "zero", "DeepSpeed's file")
