#!/usr/bin/env python3
"""Makes hybrids_older.jsonl of this folder: hybrids of releases of transformers before the newest, all beside one PyTorch, so that what differs is transformers' alone.

    make_hybrids_older.py ORACLE PYTHON VERSION=PATH.. [--only TEXT]

ORACLE holds one_gpu; PYTHON is that of its environment (torch 2.15, peft 0.21). PATH is what PYTHONPATH needs for transformers VERSION there: the unpacked wheel, for
4.x an older huggingface_hub in front, and a sitecustomize that skips its version checks.
"""
import argparse
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PLAIN = {"precision": "bf16"}
PAD = {"precision": "bf16-mixed", "gradient_checkpointing": True, "padded": True}
EAGER = ("mamba", "mamba2")
TYPES = {"mamba": ("5.5", "5.10", "5.18"), "mamba2": ("4.53", "4.57", "5.0", "5.2", "5.5", "5.10", "5.18"), "jamba": ("5.2", "5.5", "5.10"),
         "bamba": ("4.53", "4.55", "4.57", "5.0", "5.2", "5.10", "5.18"), "granitemoehybrid": ("5.18", "5.20"), "granite_dense": ("4.57", "5.0", "5.10"),
         "falcon_h1": ("5.0", "5.2", "5.10", "5.18"), "nemotron_h": ("5.18", "5.20"), "lfm2": ("5.0", "5.2", "5.10", "5.18"), "lfm2_moe": ("5.0", "5.10", "5.18"),
         "qwen3_next": ("5.0", "5.2", "5.5", "5.10", "5.18", "5.22"), "qwen3_5_text": ("5.2", "5.10", "5.18", "5.22"), "apertus": ("5.2", "5.10")}
DENSE = {"model_type": "granitemoehybrid", "vocab_size": 1000, "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128,
         "shared_intermediate_size": 256, "num_local_experts": 0, "num_experts_per_tok": 0, "mamba_n_heads": 8, "mamba_d_state": 32,
         "layer_types": ["mamba", "mamba", "attention", "mamba"]}


def configs():
    """Small ones of ../families.jsonl."""
    known = {"granite_dense": DENSE}
    for line in open(os.path.join(HERE, "..", "families.jsonl"), encoding="utf-8"):
        c = json.loads(line)["config"]
        if "vocab_size" in c:
            c["vocab_size"] = min(c["vocab_size"], 8000)
        if c["model_type"] == "falcon_h1":
            c["num_hidden_layers"] = 2
        known.setdefault(c["model_type"], c)
    return known


TRACE = """
import json, sys
sys.path.insert(0, sys.argv[1])
import environment
environment.ensure()
from one_gpu import emulate, report
emulate.install_flash_attn()
r = report.trace(sys.argv[2], json.loads(sys.argv[3]), events=None, capacity=None, top=1, bare=False)
print()
print(json.dumps({k: r[k] for k in ("peak_allocated_bytes", "peak_reserved_bytes", "static_bytes", "phase_peaks_bytes")}))
"""


def row_of(kind, version, training, config, told):
    name = "%s-%s-%s" % (kind, version, "mixed-ckpt-pad" if training is PAD else "plain")
    request = {"cluster": {"gpu": "A100-80GB"},
               "training": {"methods": "single", "tuning": "full", "attention": "eager" if kind in EAGER else "sdpa", "gradient_checkpointing": False,
                            "optimizer": "adamw_torch", "micro_batch_size": 2, "seq_len": 48 if kind in ("mamba", "jamba") else 200, **training},
               "stack": {"torch": "2.15", "transformers": version, "peft": "0.21"}, "config": config}
    return {"id": "hybrids-older/" + name, "group": "one GPU, earlier releases", "body": json.dumps(request, separators=(",", ":")), **told}


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("oracle")
    a.add_argument("python")
    a.add_argument("paths", nargs="+")
    a.add_argument("--only", default="")
    a = a.parse_args()
    paths, known = dict(p.split("=", 1) for p in a.paths), configs()
    target, rows = os.path.join(HERE, "hybrids_older.jsonl"), {}
    if os.path.exists(target):
        rows = {json.loads(line)["id"]: line for line in open(target, encoding="utf-8")}
    for kind, versions in TYPES.items():
        for version in versions:
            for training in (PLAIN, PAD):
                row = row_of(kind, version, training, known[kind], {})
                if a.only not in row["id"] or version not in paths:
                    continue
                t = json.loads(row["body"])["training"]
                options = {"seq_len": t["seq_len"], "micro_batch_size": 2, "attention": t["attention"], **training}
                path = "/tmp/hybrids-older-%d.json" % os.getpid()
                with open(path, "w", encoding="utf-8") as f:
                    json.dump(known[kind], f)
                told = subprocess.run([a.python, "-c", TRACE, a.oracle, path, json.dumps(options)], env={**os.environ, "PYTHONPATH": paths[version]},
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                os.unlink(path)
                if told.returncode or "\n{" not in told.stdout:
                    print(row["id"], told.stderr[-800:], file=sys.stderr)
                    continue
                row.update(json.loads(told.stdout[told.stdout.rindex("\n{"):]))
                rows[row["id"]] = json.dumps(row, separators=(",", ":")) + "\n"
                print(row["id"], row["peak_allocated_bytes"], flush=True)
    with open(target, "w", encoding="utf-8") as out:
        out.writelines(rows.values())


if __name__ == "__main__":
    main()
