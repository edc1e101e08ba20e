#!/usr/bin/env python3
"""Makes gptq.jsonl of this folder: what others measured of training over GPTQ checkpoints.

    make_gptq.py GROUNDTRUTH CONFIGS

Rows of GROUNDTRUTH's published_dev.jsonl: fms-acceleration's benchmarks on A100, one GPU and FSDP: all without other kernels, each tenth with them (and their fused
adapters, which nothing here has). Llama-2-70B's stay out: its checkpoint has one
group a column, which no request can say.
"""
import json
import os
import sys


def main():
    truth, configs = sys.argv[1:3]
    here = os.path.dirname(os.path.abspath(__file__))
    rows = [json.loads(line) for line in open(os.path.join(truth, "published_dev.jsonl"), encoding="utf-8")]
    rows = [c for c in rows if c.get("request", {}).get("training", {}).get("quantization") == "gptq4" and c["source"].startswith("fms-accel")
            and c["metric"].endswith("_bytes") and "70b" not in c["config_file"]]
    plain = [c for c in rows if not c["request"]["training"]["liger_kernels"]]
    with open(os.path.join(here, "gptq.jsonl"), "w", encoding="utf-8") as out:
        for c in plain + [c for c in rows if c not in plain][::10]:
            with open(os.path.join(configs, c["config_file"]), encoding="utf-8") as f:
                config = {k: v for k, v in json.load(f).items() if not k.startswith("_")}
            out.write(json.dumps({"id": "%s/%s" % (c["source"], c["id"]), "metric": c["metric"], "expected": c["expected"], "grade": c["grade"],
                                  "source_ref": c.get("source_ref"), "body": json.dumps(dict(c["request"], config=config), separators=(",", ":"))},
                                 separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
