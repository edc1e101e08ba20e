#!/usr/bin/env python3
"""make_cases.py GROUNDTRUTH CONFIGS > cases.jsonl: what an installed transformers is held to, by type and release.

A line: type, release, stack, recipes (how many published recipes are of the type), config; `parameters`, or options with `peak` and where it was.
"""
import collections
import csv
import json
import sys

truth, configs = sys.argv[1:3]
STACKS = {"trace-new": ("5.23.0", "2.15/5.23/0.21"), "trace-2025": ("4.53.3", "2.7/4.53/0.16"), "trace-old": ("4.40.0", "2.2/4.40/0.10")}
READ = ("adamw_torch", "adamw_torch_fused", "sgd")  # optimizers of tests/support/traced.h
LEFT_OUT = ("id2label", "label2id", "task_specific_params", "architectures_", "quantization_config")
KEPT = 2  # memory cases of a type and release

recipes = collections.Counter()
for line in open(truth + "/recipes_dev.jsonl"):
    row = json.loads(line)
    if not row.get("later"):
        recipes[row.get("model_type")] += row["recipes"]


def config_of(name):
    return {k: v for k, v in json.load(open(configs + "/" + name)).items() if k[0] != "_" and k not in LEFT_OUT}


def put(kind, release, stack, config, **more):
    print(json.dumps({"type": kind, "release": release, "stack": stack, "recipes": recipes[kind], "config": config, **more}, separators=(",", ":")))


seen = set()
for row in csv.DictReader(open(truth + "/params_dev.csv")):
    config = config_of(row["file"]) if row["status"] == "exact" and row["class"].endswith("ForCausalLM") else {}
    kind = config.get("model_type")
    if kind and kind == row["model_type"] and kind not in seen:
        seen.add(kind)
        put(kind, "5.23.0", "2.15/5.23/0.21", config, parameters=int(row["total"]))
count = collections.Counter()
for name in ("trace_dev.jsonl", "trace_stacks_dev.jsonl"):
    for line in open(truth + "/" + name):
        case = json.loads(line)
        options = {k: v for k, v in case["oracle_options"].items() if v is not None}
        release, stack = STACKS.get(case["id"].split("/")[0], (None, None))
        config = config_of(case["config_file"])
        kind = config.get("model_type")
        if not release or options["quantization"] != "none" or options["loss"] != "hf" or options["optimizer"] not in READ:
            continue
        if options.get("model_config") or count[kind, release] == KEPT:
            continue
        lora = options.pop("lora")
        if options["tuning"] == "lora":
            targets = case["request"]["training"].get("lora", {}).get("target_modules")
            options["lora"] = {k: lora[k] for k in ("rank", "dropout", "dtype")} | ({"target_modules": targets} if targets else {})
        for key in ("quantization", "trl_cast", "prepare_kbit", "pad_per_row", "position_ids", "loss", "param_groups", "steps", "model_config"):
            options.pop(key, None)
        count[kind, release] += 1
        at = case["result"]["peak_event"]
        put(kind, release, stack, config, options=options, peak=case["result"]["peak_allocated_bytes"],
            at="%s, %s" % (at["path"] or "outside of the model", at["phase"]))
