#!/usr/bin/env python3
"""Makes dist.jsonl of this folder, and ddp.jsonl where traces are given: steps of several GPUs, as requests beside what they took.

    make_dist_cases.py GROUNDTRUTH CONFIGS [TRACED.jsonl ..]

dist.jsonl has three kinds of lines. {"config_name", "config"} comes before the first row that names it; a row's request is "body" with that config.
  "active_between": active bytes under ZeRO-3, which wait for other streams as long as the GPU lags behind: within low..high, in a trace at low.
  GROUNDTRUTH's dist_dev.jsonl and dist_stacks_dev.jsonl: their rows without quantisation, but for ddp on the newest stack, which ddp.jsonl has: one rank of several, real code on process
    groups without a network. A plain loop's resting bytes hold one tensor of labels more than a script's own would, a variable of the tracer: "slack".
  published_dev.jsonl: what gpjt printed of DeepSpeed's ZeRO-2 and 3 (active and reserved bytes, out of memory or not), "slack" is half of the last
    digit; and figures of grade A that others measured with sharded methods on several GPUs.

Each line of TRACED is a run of a model cut down: {"id", "request" with its config, "result" of the tracer for the rank with the highest peak}. Rows of
ddp.jsonl that are in none of the files stay: among them plain loops and accumulations of 2.2 and 4.40, whose models were moved to the device and whose batches
were fetched one at a time, as the Trainer of 4.40 does; the tracer builds on the device and fetches ahead. Two of them were laid beside the real Trainer, equal to the byte.
Figures are those of the last step: DDP makes its buckets anew in the second. A phase is the highest of all micro-steps, from its first moment on.
"""
import collections
import json
import os
import sys

from make_cases import FAMILIES, config_of

PHASES = ("forward", "backward", "optimizer")
GROUPS = ("ddp", "zero1, zero2", "zero3", "fsdp1", "fsdp2", "tp", "pp", "several GPUs, torch 2.7", "several GPUs, torch 2.2")


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
        if group_of(c) != "ddp" or not config:
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
    """By stack, the newest first, and by method, so that the tables come in that order."""
    cases = [json.loads(line) for name in ("dist_dev.jsonl", "dist_stacks_dev.jsonl") for line in open(os.path.join(truth, name), encoding="utf-8")]
    for c in sorted(cases, key=lambda c: GROUPS.index(group_of(c))):
        o, t, r = c["options"], c["request"]["training"], c["result"]
        if group_of(c) == "ddp" or not dense(c, rows.configs):
            continue
        f = figures_of(c)
        f["active_between" if o["method"] == "zero3" else "peak_active_bytes"] = r["peak_active_bytes"]
        f["resting_bytes"] = max([f["resting_bytes"]] + [k["resting_allocated_bytes"] for k in r.get("ranks", []) if "resting_allocated_bytes" in k])
        if "host_bytes_per_node" in r:
            f["host_bytes_per_node"] = r["host_bytes_per_node"]
        if c["request"]["stack"]["framework"] != "transformers":
            f["slack"] = {"resting_bytes": -(-8 * t["micro_batch_size"] * t["seq_len"] // 512) * 512}
        rows.row(c, dict({"id": "dist-trace/" + c["id"], "group": group_of(c)}, **f))


def group_of(c):
    """By method on the newest stack; the others stand together."""
    method, torch = c["options"]["method"], c["request"]["stack"]["torch"]
    if not torch.startswith("2.15"):
        return "several GPUs, torch " + ".".join(torch.split(".")[:2])
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


def grouped(request):
    methods = request["training"]["methods"]
    method = methods if isinstance(methods, str) else methods[0]
    return {} if method == "ddp" else {"group": group_of({"options": {"method": method}, "request": request})}


def traced_rows(paths, kept, out):
    """Rows made anew stand in the place of those that the file has."""
    fresh = {}
    for path in paths:
        for row in (json.loads(line) for line in open(path, encoding="utf-8")):
            q, r = row["request"], row["result"]
            fresh[row["id"]] = {"id": row["id"], "family": q["config"]["model_type"], "body": json.dumps(q, separators=(",", ":")),
                                **grouped(q), **figures(r["after_init_allocated_bytes"], [r["phases"]], r["peak_reserved_bytes"], bool(q["training"]["max_grad_norm"]))}
    old = [row for row in kept if row["id"].startswith("traced-") and row["id"] not in fresh]
    for row in old + list(fresh.values()):
        out.write(json.dumps(row, separators=(",", ":")) + "\n")


def main():
    truth, configs = sys.argv[1:3]
    folder = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(folder, "dist.jsonl"), "w", encoding="utf-8") as out:
        rows = Sharing(configs, out)
        published_rows(truth, rows)     # first: what --smoke samples of them does not hang on how many were traced
        sharded_rows(truth, rows)
    path = os.path.join(folder, "ddp.jsonl")
    kept = [json.loads(line) for line in open(path, encoding="utf-8")]
    with open(path, "w", encoding="utf-8") as out:
        truth_rows(truth, configs, out)
        traced_rows(sys.argv[3:], kept, out)


if __name__ == "__main__":
    main()
