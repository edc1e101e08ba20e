#!/usr/bin/env python3
"""Makes dist.jsonl of this folder, and ddp.jsonl where traces are given: steps of several GPUs, as requests beside what they took.

    make_dist_cases.py GROUNDTRUTH CONFIGS [TRACED.jsonl ..]

dist.jsonl has three kinds of lines. {"config_name", "config"} comes before the first row that names it; a row's request is "body" with that config.
  "active_between": active bytes under ZeRO-3, which wait for other streams as long as the GPU lags behind: within low..high, in a trace at low.
  GROUNDTRUTH's dist_dev.jsonl: its rows without quantisation, but for method ddp, which ddp.jsonl has: one rank of several, real code on process
    groups without a network. A plain loop's resting bytes hold one tensor of labels more than a script's own would, a variable of the tracer: "slack".
  published_dev.jsonl: what gpjt printed of DeepSpeed's ZeRO-2 and 3 (active and reserved bytes, out of memory or not), "slack" is half of the last
    digit; and figures of grade A that others measured with sharded methods on several GPUs.

Each line of TRACED is a run of a model cut down:
{"stack": "new" or "old", "config": file, "family", "options", "result": {"static", "steps", "reserved"}}, `options` in the words of the tracer, steps
the phases of three steps. Those with "built": "host" are of models that were moved to the device; old ones fetch their batches one at a time and convert
outputs to fp32 before DDP sees them, as accelerate and the Trainer of 4.40 do: two of them were laid beside the real Trainer, equal to the byte.
Figures are those of the last step: DDP makes its buckets anew in the second. A phase is the highest of all micro-steps, from its first moment on.
"""
import collections
import json
import os
import sys

from make_cases import FAMILIES, config_of

STACKS = {"new": {"torch": "2.15.0", "transformers": "5.23.0", "peft": "0.21.2"}, "old": {"torch": "2.2.2", "transformers": "4.40.0", "peft": "0.10.0"}}
PHASES = ("forward", "backward", "optimizer")
GROUPS = ("ddp", "zero1, zero2", "zero3", "fsdp1", "fsdp2", "tp", "pp")


def figures(static, steps, reserved, clips=True):
    """The optimizer's phase may begin, without clipping or in an engine's step, while a plain loop still holds its outputs: no peak of its own."""
    last = steps[-1]
    phases, before = {}, -1
    for p in last:
        name = p["phase"].split(".")[0]
        if p["peak_allocated_bytes"] > before or name != "optimizer":
            phases[name] = max(phases.get(name, 0), p["peak_allocated_bytes"])
        before = p["end_allocated_bytes"]
    return {"peak_allocated_bytes": max(p["peak_allocated_bytes"] for p in last), "peak_reserved_bytes": reserved, "static_bytes": static,
            "resting_bytes": last[-1]["end_allocated_bytes"],
            "phase_peaks_bytes": {name: phases[name] for name in PHASES if name in phases and (clips or name != "optimizer")}}


def dense(c, configs):
    """The config of a traced row whose family has a program, else None."""
    config = config_of(configs, c["config_file"])
    return config if c["options"].get("quantization", "none") == "none" and config["model_type"] in FAMILIES else None


def figures_of(c):
    o, r = c["options"], c["result"]
    return figures(r["after_init_allocated_bytes"], [r["phases"]], r["peak_reserved_bytes"], o.get("gradient_clipping", 1.0) != 0)


def truth_rows(truth, configs, out):
    for line in open(os.path.join(truth, "dist_dev.jsonl"), encoding="utf-8"):
        c = json.loads(line)
        config = dense(c, configs)
        if c["options"]["method"] != "ddp" or not config:
            continue
        row = {"id": "dist-trace/" + c["id"], "family": config["model_type"], "body": json.dumps(dict(c["request"], config=config), separators=(",", ":"))}
        row.update(figures_of(c))
        out.write(json.dumps(row, separators=(",", ":")) + "\n")


class Sharing:
    """Rows of one file whose configs stand in it once."""

    def __init__(self, configs, out):
        self.configs, self.out, self.told = configs, out, set()

    def row(self, c, figures):
        name = c["config_file"]
        if name not in self.told:
            self.told.add(name)
            self.line({"config_name": name, "config": json.dumps(config_of(self.configs, name), separators=(",", ":"))})
        self.line(dict(figures, config=name, body=json.dumps(c["request"], separators=(",", ":"))))

    def line(self, values):
        self.out.write(json.dumps(values, separators=(",", ":")) + "\n")


def sharded_rows(truth, rows):
    """By method, so that the tables come in that order."""
    cases = [json.loads(line) for line in open(os.path.join(truth, "dist_dev.jsonl"), encoding="utf-8")]
    for c in sorted(cases, key=lambda c: GROUPS.index(group_of(c["options"]["method"]))):
        o, t, r = c["options"], c["request"]["training"], c["result"]
        if o["method"] == "ddp" or not dense(c, rows.configs):
            continue
        f = figures_of(c)
        f["active_between" if o["method"] == "zero3" else "peak_active_bytes"] = r["peak_active_bytes"]
        f["resting_bytes"] = max([f["resting_bytes"]] + [k["resting_allocated_bytes"] for k in r.get("ranks", []) if "resting_allocated_bytes" in k])
        if "host_bytes_per_node" in r:
            f["host_bytes_per_node"] = r["host_bytes_per_node"]
        if c["request"]["stack"]["framework"] != "transformers":
            f["slack"] = {"resting_bytes": -(-8 * t["micro_batch_size"] * t["seq_len"] // 512) * 512}
        rows.row(c, dict({"id": "dist-trace/" + c["id"], "group": group_of(o["method"])}, **f))


def group_of(method):
    return "fsdp1" if method in ("fsdp", "fsdp_grad_op", "fsdp_no_shard", "hsdp") else "fsdp2" if method.replace("hsdp2", "fsdp2").startswith("fsdp2") else \
        "zero1, zero2" if method in ("zero1", "zero2") else "tp" if method.startswith("tp") else method


def gpjt_group(c):
    t, gpus = c["request"]["training"], c["request"]["cluster"]["gpus_per_node"]
    return "gpjt zero3, 8 GPUs" if t["methods"] == ["zero3"] and gpus > 1 else "gpjt"


def published_rows(truth, rows):
    """One row a request: metrics of one run stand together."""
    runs = collections.OrderedDict()
    for line in open(os.path.join(truth, "published_dev.jsonl"), encoding="utf-8"):
        c = json.loads(line)
        t, cluster = c.get("request", {}).get("training", {}), c.get("request", {}).get("cluster", {})
        gpjt = c["source"] == "gpjt" and c["metric"] != "slope_bytes_per_token"
        several = c["grade"] == "A" and cluster.get("gpus_per_node", 1) > 1 and not c.get("needs") and t.get("quantization", ["none"]) in ("none", ["none"]) and \
            c["metric"].endswith("_bytes") and "qlora" not in t.get("tuning", "")
        if (gpjt or several) and config_of(rows.configs, c["config_file"])["model_type"] in FAMILIES:
            runs.setdefault(json.dumps([c["config_file"], c["request"]], sort_keys=True), []).append(c)
    for cases in sorted(runs.values(), key=lambda cases: cases[0]["source"] != "gpjt"):
        c = cases[0]
        group = gpjt_group(c) if c["source"] == "gpjt" else "published, several GPUs"
        f = {"id": "%s/%s" % (c["source"], c["id"]), "group": group, "source_ref": c["source_ref"]}
        f.update((x["metric"], x["expected"]) for x in cases)
        if group == "gpjt zero3, 8 GPUs" and "peak_active_bytes" in f:
            f["active_between"] = f["peak_active_bytes"]
        f["slack"] = {x["metric"]: x["rounding_bytes"] for x in cases if x.get("rounding_bytes")}
        rows.row(c, f)


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
    folder = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(folder, "dist.jsonl"), "w", encoding="utf-8") as out:
        rows = Sharing(configs, out)
        sharded_rows(truth, rows)
        published_rows(truth, rows)
    if not sys.argv[3:]:
        return
    with open(os.path.join(folder, "ddp.jsonl"), "w", encoding="utf-8") as out:
        truth_rows(truth, configs, out)
        for path in sys.argv[3:]:
            traced_rows(path, configs, out)


if __name__ == "__main__":
    main()
