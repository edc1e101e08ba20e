#!/usr/bin/env python3
"""Writes a tape of this directory from a traced run of real PyTorch, transformers and peft.

    make_tapes.py 2.15|2.2|TORCH/TRANSFORMERS/PEFT CONFIG.json OPTIONS.json EVENTS.csv > NAME.tape

EVENTS.csv has a row an event: kind (alloc, free), id, bytes, phase, fwd_phase, op, node, recompute. The tape holds

    stack 2.15              the traced versions: torch 2.15 with transformers 5.23, torch 2.2 with transformers 4.40; 2.15/4.45/0.21: torch,
                            transformers, peft (transformers is pure Python: any release runs in front of one torch, PYTHONPATH; its checks of
                            other packages' versions are skipped, and the labels are counted as its own Trainer.get_batch_samples does)
    config {..}             the model
    options {..}            the step, what differs from the defaults of traced.h
    kernel a aten::mm ..    a letter for each pair of operator and autograd node
    =backward/forward!      births from here on: phase, phase of the node's forward where it is another, ! in a recomputation
    a64                     a birth of 64 * 512 bytes in kernel a
    -3                      the death of the block born 3 births before the last one
"""
import csv
import json
import sys
import textwrap

DEFAULTS = {
    "seq_len": 1024, "micro_batch_size": 1, "gradient_accumulation_steps": 1, "precision": "bf16", "tuning": "full",
    "gradient_checkpointing": False, "use_reentrant": None, "attention": "sdpa", "padded": False, "optimizer": "adamw_torch",
    "max_grad_norm": 1.0,
}
LORA = {"rank": 16, "dropout": 0.0, "target_modules": None, "dtype": "fp32"}
IDLE = ("_name_or_path", "task_specific_params", "architectures", "auto_map", "transformers_version", "summary_activation",
        "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj", "id2label", "label2id")


def letters(n):
    s = ""
    n += 1
    while n:
        n, r = divmod(n - 1, 26)
        s = chr(97 + r) + s
    return s


def options_of(o):
    if o.get("precision", "").endswith("-mixed") and o.get("weights_dtype") == "bf16":
        o["precision"] = "bf16-autocast"
    o["attention"] = o.get("attention_used", o.get("attention", "sdpa"))
    ret = {k: o[k] for k in DEFAULTS if k in o and o[k] != DEFAULTS[k]}
    if ret.get("tuning") == "lora":
        ret["lora"] = {k: v for k, v in o.get("lora", {}).items() if k in LORA and v != LORA[k]}
    return ret


def tape_of(path):
    kernels, births, tokens, where = {}, {}, [], None
    for e in csv.DictReader(open(path)):
        if e["kind"] == "alloc":
            here = e["phase"] + ("/" + e["fwd_phase"] if e["fwd_phase"] != e["phase"] else "") + ("!" if e["recompute"] == "1" else "")
            if here != where:
                tokens.append("=" + here)
                where = here
            code = kernels.setdefault((e["op"], e["node"]), letters(len(kernels)))
            births[e["id"]] = len(births)
            tokens.append("%s%d" % (code, max(1, (int(e["bytes"]) + 511) // 512)))
        elif e["kind"] == "free" and e["id"] in births:
            tokens.append("-%d" % (len(births) - 1 - births[e["id"]]))
    return kernels, tokens


def main(stack, config, options, events):
    kernels, tokens = tape_of(events)
    model = {k: v for k, v in json.load(open(config)).items() if k not in IDLE}
    print("stack", stack)
    print("config", json.dumps(model, separators=(",", ":")))
    print("options", json.dumps(options_of(json.load(open(options))), separators=(",", ":")))
    for (op, node), code in kernels.items():
        print(("kernel %s %s %s" % (code, op, node)).rstrip())
    print("\n".join(textwrap.wrap(" ".join(tokens), 150, break_long_words=False, break_on_hyphens=False)))


if __name__ == "__main__":
    main(*sys.argv[1:])
