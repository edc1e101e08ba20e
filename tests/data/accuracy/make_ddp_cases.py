#!/usr/bin/env python3
"""Makes ddp.jsonl of this folder: runs of real DistributedDataParallel, one rank of several, as requests beside what they took.

    make_ddp_cases.py GROUNDTRUTH CONFIGS TRACED.jsonl ..

GROUNDTRUTH's dist_dev.jsonl gives its rows with method ddp and no quantisation. Each line of TRACED is a run of a model cut down:
{"stack": "new" or "old", "config": file, "family", "options", "result": {"static", "steps", "reserved"}}, `options` in the words of the tracer, steps
the phases of three steps. Those with "built": "host" are of models that were moved to the device; old ones fetch their batches one at a time and convert
outputs to fp32 before DDP sees them, as accelerate and the Trainer of 4.40 do: two of them were laid beside the real Trainer, equal to the byte.
Figures are those of the last step: the buckets are made anew in the second. A phase is the highest of all micro-steps, from its first moment on.
"""
import json
import os
import sys

from make_cases import FAMILIES, config_of

STACKS = {"new": {"torch": "2.15.0", "transformers": "5.23.0", "peft": "0.21.2"}, "old": {"torch": "2.2.2", "transformers": "4.40.0", "peft": "0.10.0"}}
PHASES = ("forward", "backward", "optimizer")


def figures(static, steps, reserved, clips=True):
    """Without clipping the optimizer's phase begins while a plain loop still holds its outputs: no peak of the optimizer's own."""
    last = steps[-1]
    return {"peak_allocated_bytes": max(p["peak_allocated_bytes"] for p in last), "peak_reserved_bytes": reserved, "static_bytes": static,
            "resting_bytes": last[-1]["end_allocated_bytes"],
            "phase_peaks_bytes": {name: max(p["peak_allocated_bytes"] for p in last if p["phase"].split(".")[0] == name)
                                  for name in PHASES if clips or name != "optimizer"}}


def truth_rows(truth, configs, out):
    for line in open(os.path.join(truth, "dist_dev.jsonl"), encoding="utf-8"):
        c = json.loads(line)
        o, r = c["options"], c["result"]
        config = config_of(configs, c["config_file"])
        if o["method"] != "ddp" or o.get("quantization", "none") != "none" or config["model_type"] not in FAMILIES:
            continue
        row = {"id": "dist-trace/" + c["id"], "family": config["model_type"], "body": json.dumps(dict(c["request"], config=config), separators=(",", ":"))}
        row.update(figures(r["after_init_allocated_bytes"], [r["phases"]], r["peak_reserved_bytes"], o.get("gradient_clipping", 1.0) != 0))
        out.write(json.dumps(row, separators=(",", ":")) + "\n")


def request(stack, config, o):
    lora, ranks = o.get("tuning") == "lora", o["world_size"]
    precision = o.get("precision", "bf16-mixed")
    t = {"seq_len": o["seq_len"], "micro_batch_size": o["micro_batch_size"], "gradient_accumulation_steps": o.get("gradient_accumulation_steps", 1),
         "methods": "ddp", "tuning": "lora" if lora else "full", "precision": precision.replace("mixed", "autocast") if lora else precision,
         "optimizer": o["optimizer"], "max_grad_norm": o["gradient_clipping"], "gradient_checkpointing": o["gradient_checkpointing"],
         "attention": o["attention"], "padded": bool(o.get("attention_mask")) and not o.get("full_mask"), "use_cache": bool(o.get("use_cache")),
         "gradient_as_bucket_view": bool(o.get("gradient_as_bucket_view")), "sync_each_batch": not o.get("no_sync", True),
         "keep_outputs": o["loop"] == "plain" and not o.get("drop_outputs")}
    if lora:
        t["lora"] = {k: o["lora"][k] for k in ("rank", "dropout", "dtype", "target_modules")}
    if "checkpoint_reentrant" in o:
        t["checkpoint_reentrant"] = o["checkpoint_reentrant"]
    if "ddp_bytes" in o:
        t["buckets"] = {"ddp_bytes": o["ddp_bytes"]}
    return {"config": config, "cluster": {"gpu": "A100-80GB", "gpus_per_node": min(ranks, 8), "nodes": max(1, ranks // 8)}, "training": t,
            "stack": dict(STACKS[stack], framework="transformers" if o["loop"] == "trainer" else "torch")}


def comparable(row):
    """Not what the tracer does otherwise than a user: see the README of the tracer and docs/accuracy-notes.md."""
    o, stack, family = row["options"], row["stack"], row["family"]
    trainer, moved = o["loop"] == "trainer", row.get("built") == "host"
    if "failed" in row["result"] or (stack == "new" and o.get("full_mask")):
        return False        # a mask of ones cannot be asked for: left out, there is none
    if trainer and (not o["gradient_clipping"] or (o.get("lora") or {}).get("dtype") == "bf16"):
        return False        # the Trainer of 5.x takes the norm all the same; adapters stay in fp32 on the meta device
    if stack == "old" and family in ("codegen", "gptj"):
        return False        # 4.40 keeps their tables as plain attributes, which stay on the host
    return trainer or moved or family not in ("neo", "bigcode", "codegen", "gptj")      # buffers that leave gaps when made on the device


def traced_rows(path, configs, out):
    """Every third: all take too long for each build; they were compared once."""
    for at, line in enumerate(open(path, encoding="utf-8")):
        row = json.loads(line)
        o = row["options"]
        if at % 3 or not comparable(row):
            continue
        config = config_of(configs, os.path.basename(row["config"]))
        config.update(o.get("config_overrides") or {})
        name = "traced-%s/%s-%d-%s-%s" % (row["stack"], row["family"], at, o["loop"], o.get("tuning", "full"))
        r = {"id": name, "family": config["model_type"], "body": json.dumps(request(row["stack"], config, o), separators=(",", ":"))}
        r.update(figures(row["result"]["static"], row["result"]["steps"], row["result"]["reserved"], bool(o["gradient_clipping"])))
        out.write(json.dumps(r, separators=(",", ":")) + "\n")


def main():
    truth, configs = sys.argv[1:3]
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "ddp.jsonl"), "w", encoding="utf-8") as out:
        truth_rows(truth, configs, out)
        for path in sys.argv[3:]:
            traced_rows(path, configs, out)


if __name__ == "__main__":
    main()
