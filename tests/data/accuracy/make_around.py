#!/usr/bin/env python3
"""Steps of the oracle's loops, then one evaluation batch as prediction_step() has it: model.eval(), torch.no_grad(), model(**batch). What tests/api/test_around.c holds
us to.

    make_around.py ORACLE CONFIGS

run with the oracle's Python (torch 2.15, transformers 5.23, deepspeed 0.19).
"""
import json
import os
import subprocess
import sys

ORACLE, CONFIGS = sys.argv[1:3]
sys.path.insert(0, ORACLE)
import environment  # noqa: E402

MODEL = "Qwen__Qwen3-0.6B"
PURE, MIXED = dict(precision="bf16"), dict(precision="bf16-mixed")
NF4 = dict(tuning="lora", quantization="nf4", lora=dict(rank=8, alpha=8))
CASES = [dict(PURE, method="single"), dict(PURE, method="ddp"), dict(MIXED, method="zero3"), dict(MIXED, method="fsdp"),
         dict(MIXED, method="fsdp2", wrap="accelerate"), dict(PURE, method="ddp", **NF4), dict(MIXED, method="fsdp", quant_storage="bf16", **NF4),
         dict(MIXED, method="zero2", offload="optimizer"), dict(MIXED, method="zero3", offload="optimizer+params"),
         dict(MIXED, method="fsdp2", wrap="accelerate", offload="optimizer+params")]
BATCH = 8


def trace(o):
    import torch
    import dist_trace
    from many_gpus import counters, models, parallel, reads, step
    environment.without_cudnn_attention()
    reads.install(o["padded"])
    if o["method"] != "single":
        parallel.init_fake(o["world_size"], 0)
    cfg = models.load_config(os.path.join(CONFIGS, MODEL + ".json"), o["config_overrides"])
    cfg.use_cache = o["use_cache"]
    model, _ = dist_trace.wrap_model(cfg, o, 0)
    if o["method"] == "single":
        model = model.to("cuda")
    if o["method"].startswith("zero"):
        step.run_engine(model, o, None)
    else:
        make = step.LocalOptimizer if o["local_optimizer"] else step.make_optimizer
        step.run(model, make(step.groups_of(model, o), o), o, None)
    model.eval()
    with torch.no_grad():
        batch = step.batch(dict(o, micro_batch_size=BATCH), None)
        counters.reset_peaks()
        with step.autocast(o):
            out = model(**batch)
        out.loss.detach().mean()
        return counters.read("peak")["allocated"]


def main():
    import dist_trace
    if len(sys.argv) > 3:
        environment.ensure(80, 0)
        print(trace(dist_trace.resolve(json.loads(sys.argv[3]))))
        return
    for case in CASES:
        given = dict(case, world_size=1 if case["method"] == "single" else 4, loop="trainer", seq_len=1024)
        done = subprocess.run([sys.executable, *sys.argv, json.dumps(given)], capture_output=True, text=True, check=True)
        print(case["method"], done.stdout.strip().splitlines()[-1], flush=True)


if __name__ == "__main__":
    main()
