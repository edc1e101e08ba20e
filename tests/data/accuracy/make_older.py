#!/usr/bin/env python3
"""Makes older.jsonl of this folder: steps on one GPU of families whose earlier releases differ, as the oracle traces them in environments of those releases.

    make_older.py ORACLE 4.40=PYTHON 4.44=PYTHON:FOLDER .. [--only TEXT]

ORACLE holds ask.py; each PYTHON is that of an environment with the torch of STACKS, which has this release of transformers or finds it in FOLDER
(pip install --no-deps --target FOLDER transformers==4.44.2 tokenizers==.. huggingface_hub==..).
"""
import argparse
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
STACKS = {"4.40": {"torch": "2.2", "transformers": "4.40", "peft": "0.10"}, "4.48": {"torch": "2.4", "transformers": "4.48", "peft": "0.13"},
          "4.42": {"torch": "2.2", "transformers": "4.42", "peft": "0.10"}, "4.44": {"torch": "2.2", "transformers": "4.44", "peft": "0.10"},
          "4.45": {"torch": "2.4", "transformers": "4.45", "peft": "0.13"}, "4.47": {"torch": "2.4", "transformers": "4.47", "peft": "0.13"},
          "4.53": {"torch": "2.7", "transformers": "4.53", "peft": "0.15"},
          "4.57": {"torch": "2.7", "transformers": "4.57", "peft": "0.15"},
          **{release: {"torch": "2.15", "transformers": release, "peft": "0.21"} for release in ("5.18", "5.20", "5.22")}}
SHAPE = {"hidden_size": 512, "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 1408, "vocab_size": 8000,
         "max_position_embeddings": 2048, "pad_token_id": 0}
CONFIGS = {"mpt": {"d_model": 512, "n_heads": 8, "n_layers": 3, "vocab_size": 8000, "max_seq_len": 512, "expansion_ratio": 4},
           "falcon": {"hidden_size": 256, "num_hidden_layers": 3, "num_attention_heads": 8, "vocab_size": 1000, "multi_query": True},
          "nemotron": {**SHAPE, "head_dim": 64}, "cohere": {**SHAPE, "use_qk_norm": True}, "olmo": {**SHAPE, "clip_qkv": 8.0}}
CONFIGS["olmoe"] = {"hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 2, "num_attention_heads": 16, "num_key_value_heads": 16,
                    "num_experts": 8, "num_experts_per_tok": 8, "vocab_size": 50304, "max_position_embeddings": 4096, "rope_theta": 10000.0,
                    "norm_topk_prob": False, "clip_qkv": None}
for kind in ("deepseek_v3", "glm4_moe", "gemma3"):  # as small as in tests/data/families.jsonl
    for line in open(os.path.join(HERE, "..", "families.jsonl"), encoding="utf-8"):
        if json.loads(line)["config"]["model_type"] == kind:
            CONFIGS[kind] = json.loads(line)["config"]
CONFIGS["glm4_moe"] = {**CONFIGS["glm4_moe"], "num_hidden_layers": 3}
CONFIGS["mixtral"] = {**SHAPE, "num_local_experts": 4}
CONFIGS["qwen2_moe"] = {**SHAPE, "moe_intermediate_size": 352, "shared_expert_intermediate_size": 704, "num_experts": 8}
CONFIGS["phi"] = CONFIGS["phi3"] = SHAPE
CONFIGS["phi3-long"] = {**SHAPE, "original_max_position_embeddings": 1024, "sliding_window": 128,
                        "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 32, "long_factor": [2.0] * 32}}
EAGER, SDPA = {"precision": "bf16", "attention": "eager"}, {"precision": "bf16", "attention": "sdpa"}
CONFIGS["llama"] = SHAPE
CONFIGS["gemma2"] = {**SHAPE, "head_dim": 64, "sliding_window": 128}
CONFIGS["opt"] = {"hidden_size": 512, "ffn_dim": 1408, "num_attention_heads": 8, "num_hidden_layers": 3, "vocab_size": 8000, "max_position_embeddings": 2048,
                  "word_embed_proj_dim": 512}
# bitsandbytes before 0.45 tiles weights at their first use
INT8 = {"attention": "sdpa", "tuning": "qlora", "quantization": "int8", "prepare_kbit": "peft", "lora": {"rank": 8, "dropout": 0.1}}
MIXED = {"precision": "bf16-mixed", "gradient_checkpointing": True, "padded": True}
ROWS = [("mpt", "4.40", {**EAGER}), ("mpt", "4.40", {**MIXED, "attention": "eager"}), ("mpt", "4.48", {**EAGER}),
        ("mpt", "4.48", {**MIXED, "attention": "eager"}),
        ("mpt", "4.53", {**EAGER}), ("mpt", "4.53", {**MIXED, "attention": "eager"}), ("nemotron", "4.48", SDPA),
        ("nemotron", "4.48", {**MIXED, "attention": "sdpa"}), ("nemotron", "4.53", EAGER), ("nemotron", "4.53", {**MIXED, "attention": "sdpa"}),
        ("falcon", "4.53", SDPA), ("falcon", "4.53", {**MIXED, "attention": "sdpa"}), ("olmoe", "4.53", SDPA),
        ("olmoe", "4.53", {**MIXED, "attention": "sdpa"}), ("deepseek_v3", "4.53", SDPA), ("deepseek_v3", "4.53", {**MIXED, "attention": "sdpa"}),
        *((kind, release, training) for kind in ("mixtral", "qwen2_moe", "phi") for release in ("4.40", "4.42", "4.44", "4.45", "4.47")
          for training in (EAGER, {**MIXED, "attention": "sdpa"})),
        *(("phi3", release, EAGER) for release in ("4.42", "4.44", "4.45", "4.47")), ("phi3-long", "4.44", EAGER), ("phi3-long", "4.45", EAGER),
        *(("gemma3", release, training) for release in ("5.18", "5.20", "5.22") for training in (EAGER, {**MIXED, "attention": "sdpa"})),
        ("phi3", "4.45", {**MIXED, "attention": "sdpa"}), ("phi3", "4.47", {**MIXED, "attention": "sdpa"}), ("glm4_moe", "4.57", SDPA),
        *((kind, release, {**INT8, **how}) for kind, release in (("llama", "4.48"), ("gemma2", "4.48"), ("opt", "4.48"))
          for how in ({"precision": "fp16-autocast"}, {"precision": "bf16", "prepare_kbit": "none"},
                      {"precision": "fp16-autocast", "gradient_checkpointing": True, "gradient_accumulation_steps": 2})),
        ("cohere", "4.40", EAGER), ("cohere", "4.40", SDPA), ("olmo", "4.40", SDPA), ("olmo", "4.40", {**MIXED, "attention": "sdpa"})]


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("oracle")
    a.add_argument("pythons", nargs="+")
    a.add_argument("--only", default="")
    a = a.parse_args()
    pythons = dict(p.split("=", 1) for p in a.pythons)
    target, rows = os.path.join(HERE, "older.jsonl"), {}
    if a.only and os.path.exists(target):
        rows = {json.loads(line)["id"]: line for line in open(target, encoding="utf-8")}
    for kind, release, training in ROWS:
        name = "%s-%s-%s%s" % (kind, release, training["attention"], "-mixed-ckpt-pad" if training["precision"] != "bf16" else "")
        if "quantization" in training:
            name = "%s-%s-int8-%s%s" % (kind, release, training["prepare_kbit"], "-ckpt-accumulated" if "gradient_checkpointing" in training else "")
        if a.only not in name or release not in pythons:
            continue
        request = {"cluster": {"gpu": "A100-80GB"},
                   "training": {"methods": "single", "tuning": "full", "gradient_checkpointing": False, "optimizer": "adamw_torch", "micro_batch_size": 2,
                                "seq_len": 256, **training}, "stack": {**STACKS[release], **({"bitsandbytes": "0.43"} if "quantization" in training else {})}, "config": {"model_type": kind.removesuffix("-long"), **CONFIGS[kind]}}
        python, _, folder = pythons[release].partition(":")
        told = subprocess.run([python, "ask.py", "-", "--json"], cwd=a.oracle, input=json.dumps(request), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, env={**os.environ, **({"PYTHONPATH": folder} if folder else {})})
        if told.returncode or "{" not in told.stdout:
            print(name, told.stdout[-300:], told.stderr[-1500:], file=sys.stderr)
            continue
        result = json.loads(told.stdout[told.stdout.index("\n{") if not told.stdout.startswith("{") else 0:])
        row = {"id": "older/" + name, "group": "one GPU, earlier releases", "body": json.dumps(request, separators=(",", ":")),
               **{k: result[k] for k in ("peak_allocated_bytes", "peak_reserved_bytes", "static_bytes", "resting_bytes", "peak_phase", "phase_peaks_bytes")}}
        rows[row["id"]] = json.dumps(row, separators=(",", ":")) + "\n"
        print(name, row["peak_allocated_bytes"], row["peak_reserved_bytes"], flush=True)
    with open(target, "w", encoding="utf-8") as out:
        out.writelines(rows.values())


if __name__ == "__main__":
    main()
