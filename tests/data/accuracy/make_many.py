#!/usr/bin/env python3
"""Makes many.jsonl of this folder: steps of several GPUs over quantised base weights or with parameters on the host, as the oracle's code for several GPUs
traces them.

    make_many.py ORACLE CONFIGS PYTHON [--only TEXT]

ORACLE holds ask.py, dist_trace.py and one_gpu; PYTHON is that of its environment (torch 2.15, transformers 5.23, peft 0.21, bitsandbytes 0.50, deepspeed 0.19).
A quantised model comes from transformers' own loader here, as one_gpu has it: the order of loading decides what the allocator cannot split off.
"""
import argparse
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
STACK = {"torch": "2.15", "transformers": "5.23", "peft": "0.21", "bitsandbytes": "0.50", "deepspeed": "0.19"}
TINY, QWEN, GPT2, OPT = "TinyLlama__TinyLlama-1.1B-Chat-v1.0", "Qwen__Qwen3-0.6B", "openai-community__gpt2", "facebook__opt-350m"
PHASES = ("forward", "backward", "optimizer")
PLAIN = {"framework": "torch"}


def qlora(kind, **more):
    return dict(tuning="qlora", quantization=kind, prepare_kbit="none", **more)


# name, config, layers, GPUs, rows, tokens, the rest of `training`, more of `stack`
CASES = [
    ("fsdp-nf4", TINY, 4, 4, 1, 512, qlora("nf4", methods="fsdp", precision="bf16-autocast", gradient_checkpointing=True), {}),
    ("fsdp-nf4-dq", QWEN, 4, 2, 2, 384, qlora("nf4-dq", methods="fsdp", precision="bf16-autocast"), {}),
    ("fsdp-nf4-flat", QWEN, 4, 4, 1, 512, qlora("nf4", methods="fsdp", precision="bf16-autocast", gradient_checkpointing=True,
                                                 fsdp={"use_orig_params": False}), {}),
    ("fsdp-grad-op-nf4", OPT, 4, 4, 2, 384, qlora("nf4", methods="fsdp_grad_op", precision="bf16-autocast", lora={"rank": 8, "dtype": "fp32"},
                                                   fsdp={"use_orig_params": False}), {}),
    ("fsdp-nf4-plain", TINY, 4, 8, 1, 512, qlora("nf4-dq", methods="fsdp", precision="bf16"), PLAIN),
    ("fsdp2-nf4", TINY, 4, 2, 1, 512, qlora("nf4", methods="fsdp2", precision="bf16-mixed", gradient_checkpointing=True,
                                             fsdp={"wrap": "accelerate"}), {}),
    ("fsdp2-nf4-dq-plain", QWEN, 4, 8, 2, 384, qlora("nf4-dq", methods="fsdp2", precision="bf16-mixed"), PLAIN),
    ("fsdp2-nf4-fp32-adapters", QWEN, 4, 4, 1, 512, qlora("nf4-dq", methods="fsdp2", precision="bf16-mixed", gradient_checkpointing=True,
                                                           lora={"rank": 16, "dtype": "fp32", "target_modules": "all-linear"},
                                                           fsdp={"wrap": "accelerate"}), {}),
    ("fsdp-offload", TINY, 4, 4, 1, 512, dict(methods="fsdp", precision="bf16-mixed", gradient_checkpointing=True, offload="optimizer+params"), {}),
    ("fsdp-offload-half", QWEN, 4, 2, 2, 384, dict(methods="fsdp", precision="bf16", offload="optimizer+params", fsdp={"use_orig_params": False}), PLAIN),
    ("fsdp-offload-accumulates", QWEN, 4, 2, 2, 384, dict(methods="fsdp", precision="bf16-mixed", offload="optimizer+params",
                                                          gradient_accumulation_steps=2), {}),
    ("fsdp-offload-lora", OPT, 4, 4, 2, 384, dict(methods="fsdp", tuning="lora", precision="bf16-autocast", offload="optimizer+params"), {}),
    ("fsdp-grad-op-offload", QWEN, 4, 4, 1, 512, dict(methods="fsdp_grad_op", precision="bf16-mixed", gradient_checkpointing=True,
                                                      offload="optimizer+params"), {}),
    ("hsdp-offload", TINY, 4, 8, 1, 512, dict(methods="hsdp", precision="bf16-mixed", shard_group=4, offload="optimizer+params"), PLAIN),
    ("fsdp-nf4-offload", TINY, 4, 2, 1, 512, qlora("nf4-dq", methods="fsdp", precision="bf16-autocast", gradient_checkpointing=True,
                                                    offload="optimizer+params"), {}),
    ("fsdp2-nf4-offload", QWEN, 4, 2, 1, 512, qlora("nf4-dq", methods="fsdp2", precision="bf16-mixed", gradient_checkpointing=True,
                                                     offload="optimizer+params"), PLAIN),
    ("zero2-nf4", TINY, 4, 4, 1, 512, qlora("nf4", methods="zero2", precision="bf16-mixed", gradient_checkpointing=True), {}),
    ("zero1-nf4-dq", QWEN, 4, 2, 2, 384, qlora("nf4-dq", methods="zero1", precision="bf16-mixed"), {}),
    # stage 0: the oracle's ask.py has to name it in MANY, and FP16_UnfusedOptimizer's overflow_checker to find nothing (many_gpus/parallel.py)
    ("zero0", TINY, 4, 2, 1, 512, dict(methods="zero0", precision="bf16-mixed", optimizer="adamw_torch_fused"), {}),
    ("zero0-accumulates", QWEN, 4, 4, 2, 384, dict(methods="zero0", precision="bf16-mixed", optimizer="adamw_torch_fused", gradient_checkpointing=True,
                                                   gradient_accumulation_steps=2), {}),
    ("zero0-fp16", GPT2, 4, 2, 2, 384, dict(methods="zero0", precision="fp16-mixed", optimizer="adamw_torch_fused", use_cache=False), {"framework": "deepspeed"}),
    ("zero0-fp32", OPT, 4, 2, 2, 384, dict(methods="zero0", precision="fp32", optimizer="adamw_torch_fused", use_cache=False), {"framework": "deepspeed"}),
    ("zero0-lora", QWEN, 4, 8, 2, 384, dict(methods="zero0", precision="bf16-mixed", tuning="lora", optimizer="adamw_torch_fused",
                                            lora={"rank": 16, "alpha": 16}), {}),
    ("zero0-nf4", TINY, 4, 2, 1, 512, qlora("nf4", methods="zero0", precision="bf16-mixed", gradient_checkpointing=True, optimizer="adamw_torch_fused"), {}),
    ("zero0-large", TINY, 10, 2, 1, 256, dict(methods="zero0", precision="bf16-mixed", gradient_checkpointing=True, optimizer="adamw_torch_fused"), {}),
    ("hsdp2-nf4", TINY, 4, 8, 1, 512, qlora("nf4", methods="hsdp2", precision="bf16-mixed", shard_group=4), PLAIN),
]


def figures(result):
    """As make_dist_cases.py has them; what rank 0 holds."""
    rank = result["ranks"][0] if "ranks" in result else result
    last, phases, before = rank["steps"][-1], {}, -1
    for p in last:
        name = p["phase"].split(".")[0]
        if p["peak_allocated_bytes"] > before or name != "optimizer":
            phases[name] = max(phases.get(name, 0), p["peak_allocated_bytes"])
        before = p["end_allocated_bytes"]
    out = {"peak_allocated_bytes": rank["peak_allocated_bytes"], "peak_reserved_bytes": rank["peak_reserved_bytes"],
           "static_bytes": rank["after_init_allocated_bytes"], "resting_bytes": rank["resting_allocated_bytes"]}
    if "host_bytes" in rank and rank["host_bytes"]["after_step"]:
        out["host_bytes_after_step"] = rank["host_bytes"]["after_step"]
    return out


def traced(oracle, path):
    """In the oracle's environment: one request, rank 0."""
    sys.path.insert(0, oracle)
    import environment
    environment.ensure(80, None)
    import ask
    import dist_trace
    with open(path, encoding="utf-8") as f:
        request = json.load(f)
    t = request["training"]
    kind = t.get("quantization", "none")
    wanted = dict(request, training={k: v for k, v in t.items() if k not in ("quantization", "prepare_kbit")})
    if kind != "none":
        wanted["training"]["tuning"] = "lora"
    tool, options = ask.options_of(wanted, [])
    assert tool == "dist_trace"
    options["quantization"] = kind
    if kind != "none" and "fsdp" in options["method"] or "hsdp" in options["method"]:
        options["quant_storage"] = t["precision"].split("-")[0]
    options["breakdown"] = False
    plain = dist_trace.make_model

    def make_model(cfg, o, device):
        if o["quantization"] == "none":
            return plain(cfg, o, device)
        import torch
        import transformers
        import bitsandbytes  # noqa: F401
        from many_gpus import models
        from one_gpu import step
        real = transformers.BitsAndBytesConfig
        transformers.BitsAndBytesConfig = lambda **k: real(**k, bnb_4bit_quant_storage=o["quant_storage"] and
                                                           {"bf16": torch.bfloat16, "fp16": torch.float16}.get(o["quant_storage"], torch.uint8))
        model, _ = step.load_quantised(cfg, dict(o, weights_dtype=o["base_dtype"], shard_bytes=10 ** 10))
        transformers.BitsAndBytesConfig = real
        model.train()
        models.prepare_kbit(model, o["prepare_kbit"], models.DTYPES[o["precision"].split("-")[0]])
        import peft  # noqa: F401
        with torch.device(device):
            model = models.add_lora(model, o["lora"])
        if o["gradient_checkpointing"]:
            model.gradient_checkpointing_enable({"use_reentrant": o["checkpoint_reentrant"]})
            model.enable_input_require_grads()
        return model
    dist_trace.make_model = make_model
    with open(path + ".config", "w", encoding="utf-8") as f:
        json.dump(request["config"], f)
    out = dist_trace.trace_rank(path + ".config", dist_trace.resolve(options), 0)
    sys.stdout.write("\n" + json.dumps(out) + "\n")
    sys.stdout.flush()
    os._exit(0)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("oracle")
    a.add_argument("configs")
    a.add_argument("python", nargs="?")
    a.add_argument("--only", default="")
    a = a.parse_args()
    if not a.python:
        return traced(a.oracle, a.configs)
    target = os.path.join(HERE, "many.jsonl")
    rows = {}
    if a.only and os.path.exists(target):
        rows = {json.loads(line)["id"]: line for line in open(target, encoding="utf-8")}
    for name, config, layers, gpus, batch, tokens, training, stack in CASES:
        if a.only not in name:
            continue
        with open(os.path.join(a.configs, config + ".json"), encoding="utf-8") as f:
            own = {k: v for k, v in json.load(f).items() if not k.startswith("_")}
        own[next(k for k in ("num_hidden_layers", "n_layer") if k in own)] = layers
        if "layer_types" in own:
            own["layer_types"] = own["layer_types"][:layers]
        if not (stack and training["methods"].startswith("zero")):  # the engine reduces in its own
            training = {"reduce_dtype": "fp32" if stack else "bf16", **training}  # accelerate's policy has one dtype
        request = {"cluster": {"gpu": "A100-80GB", "gpus_per_node": gpus},
                   "training": {"tuning": "full", "attention": "sdpa", "gradient_checkpointing": False, "optimizer": "adamw_torch", "micro_batch_size": batch,
                                "seq_len": tokens, "gradient_accumulation_steps": 1, **training},
                   "stack": {**STACK, **stack}, "config": own}
        path = os.path.join("/tmp", "many-%d.json" % os.getpid())
        with open(path, "w", encoding="utf-8") as f:
            json.dump(request, f)
        told = subprocess.run([a.python, os.path.abspath(__file__), a.oracle, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for p in (path, path + ".config"):
            if os.path.exists(p):
                os.unlink(p)
        if told.returncode or "{" not in told.stdout:
            print(name, told.stderr[-1500:], file=sys.stderr)
            continue
        result = json.loads(told.stdout[told.stdout.index("\n{"):])
        row = {"id": "many/" + name, "group": "several GPUs, quantised or offloaded", "body": json.dumps(request, separators=(",", ":")), **figures(result)}
        rows[row["id"]] = json.dumps(row, separators=(",", ":")) + "\n"
        print(name, row["peak_allocated_bytes"], row["peak_reserved_bytes"], row["static_bytes"], flush=True)
    with open(target, "w", encoding="utf-8") as out:
        out.writelines(rows.values())


if __name__ == "__main__":
    main()
