#!/usr/bin/env python3
"""Makes tensor.jsonl of this folder: steps under tensor parallelism of every style of cut that transformers' plans name, as the oracle's code for several
GPUs traces them.

    make_tensor.py ORACLE PYTHON [--only TEXT]

ORACLE holds ask.py; PYTHON is that of its environment (torch 2.15, transformers 5.23).
"""
import argparse
import json
import os
import subprocess
import sys

from make_many import figures

HERE = os.path.dirname(os.path.abspath(__file__))
STACK = {"torch": "2.15", "transformers": "5.23", "peft": "0.21"}
SHAPE = {"hidden_size": 1024, "num_hidden_layers": 3, "num_attention_heads": 16, "num_key_value_heads": 4, "intermediate_size": 2816, "vocab_size": 32000,
         "max_position_embeddings": 2048, "pad_token_id": 0}
LATENT = {"num_key_value_heads": 16, "moe_intermediate_size": 512, "n_routed_experts": 8, "n_shared_experts": 2, "num_experts_per_tok": 2,
          "first_k_dense_replace": 1, "kv_lora_rank": 256, "q_lora_rank": 384, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "v_head_dim": 64, "n_group": 1,
          "topk_group": 1, "topk_method": "greedy", "norm_topk_prob": False, "routed_scaling_factor": 1.0}
HALF, MIXED = {"precision": "bf16"}, {"precision": "bf16-mixed", "gradient_checkpointing": True}
# name, model type, GPUs, more of the config (True: that of tests/data/families.jsonl; a list: what of that is otherwise), the rest of `training`
CASES = [
    ("olmo2", "olmo2", 2, {}, HALF), ("olmo2-ckpt", "olmo2", 4, {}, MIXED), ("olmo3", "olmo3", 2, {"sliding_window": 256}, HALF),
    ("glm4", "glm4", 2, {"head_dim": 64}, HALF), ("phi3", "phi3", 4, {}, MIXED), ("phi", "phi", 2, {"num_key_value_heads": 16}, HALF),
    ("deepseek-v2", "deepseek_v2", 2, LATENT, HALF), ("deepseek-v2-ckpt", "deepseek_v2", 4, LATENT, MIXED),
    ("deepseek-v3", "deepseek_v3", 2, True, HALF), ("mixtral", "mixtral", 2, True, MIXED), ("qwen3-moe", "qwen3_moe", 2, True, HALF),
    ("qwen2-moe", "qwen2_moe", 4, True, MIXED), ("olmoe", "olmoe", 2, True, MIXED), ("glm4-moe", "glm4_moe", 2, True, MIXED),
    ("granitemoe", "granitemoe", 2, True, HALF), ("minimax-m2", "minimax_m2", 4, True, HALF), ("lfm2-moe", "lfm2_moe", 2, True, HALF),
    ("qwen3-next", "qwen3_next", 2, True, HALF),
    # plans of experts alone leave heads whole: fewer heads of keys than GPUs
    ("whole-lfm2-moe", "lfm2_moe", 4, [{"num_key_value_heads": 2}], HALF), ("whole-hunyuan-moe", "hunyuan_v1_moe", 4, [{"num_key_value_heads": 1}], MIXED),
    ("whole-jamba", "jamba", 4, [{"num_key_value_heads": 2}], HALF), ("whole-minimax-m2", "minimax_m2", 8, [{"num_key_value_heads": 4}], HALF),
    # sinks are parameters of attention itself, which runs with its part of them
    ("sinks-granite", "granite_swa", 2, True, {**HALF, "attention": "eager"}), ("sinks-granite-ckpt", "granite_swa", 2, [{"num_hidden_layers": 3}], {**MIXED, "attention": "eager"}),
    ("sinks-granitemoe", "granitemoe_swa", 2, True, {**MIXED, "attention": "eager"}), ("sinks-granitemoe-half", "granitemoe_swa", 2, True, {**HALF, "attention": "eager"}),
    ("more-ernie-moe", "ernie4_5_moe", 2, True, MIXED), ("more-qwen3-5-moe", "qwen3_5_moe_text", 2, True, MIXED), ("more-dots1", "dots1", 2, True, MIXED),
]


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("oracle")
    a.add_argument("python")
    a.add_argument("--only", default="")
    a = a.parse_args()
    target, rows = os.path.join(HERE, "tensor.jsonl"), {}
    if a.only and os.path.exists(target):
        rows = {json.loads(line)["id"]: line for line in open(target, encoding="utf-8")}
    with open(os.path.join(HERE, "..", "families.jsonl"), encoding="utf-8") as f:
        families = {c["model_type"]: c for c in (json.loads(line)["config"] for line in f)}
    for name, kind, gpus, more, training in CASES:
        if a.only not in name:
            continue
        config = {**families[kind], **(more[0] if more is not True else {})} if not isinstance(more, dict) else {"model_type": kind, **SHAPE, **more}
        request = {"cluster": {"gpu": "A100-80GB", "gpus_per_node": gpus},
                   "training": {"methods": "tp", "tensor_parallel": gpus, "tuning": "full", "attention": "sdpa", "gradient_checkpointing": False,
                                "optimizer": "adamw_torch", "micro_batch_size": 2, "seq_len": 512, "gradient_accumulation_steps": 1, **training},
                   "stack": STACK, "config": {k: v for k, v in config.items() if v is not None}}
        told = subprocess.run([a.python, "ask.py", "-", "--json"], cwd=a.oracle, input=json.dumps(request), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if told.returncode or "{" not in told.stdout:
            print(name, told.stdout[-300:], told.stderr[-1500:], file=sys.stderr)
            continue
        result = json.loads(told.stdout[told.stdout.index("\n{") if not told.stdout.startswith("{") else 0:])
        row = {"id": "tensor/" + name, "group": "tp", "body": json.dumps(request, separators=(",", ":")), **figures(result)}
        rows[row["id"]] = json.dumps(row, separators=(",", ":")) + "\n"
        print(name, row["peak_allocated_bytes"], row["peak_reserved_bytes"], flush=True)
    with open(target, "w", encoding="utf-8") as out:
        out.writelines(rows.values())


if __name__ == "__main__":
    main()
