#!/usr/bin/env python3
"""Makes freeze.jsonl of this folder: steps of models of which a part is not trained, requires_grad_(False) before anything wraps them, or of which some layers alone are adapted.

    make_freeze.py ORACLE CONFIGS PYTHON [--only TEXT]

ORACLE holds trace.py and dist_trace.py; PYTHON is that of its environment (torch 2.15, transformers 5.23, deepspeed 0.19.8).
"""
import json
import os
import re
import subprocess
import sys

import make_stages
from make_stages import FIGURES, GPT2, HERE, QWEN3, TINY

STACK = {"torch": "2.15", "transformers": "5.23", "peft": "0.21", "deepspeed": "0.19.8"}
CKPT = dict(gradient_checkpointing=True)
EMBED, HALF = ["embed_tokens"], ["model.embed_tokens", "layers.0-3"]
SOME = dict(tuning="lora", lora={"rank": 16, "dropout": 0.05, "target_modules": "model\\.layers\\.[2-4]\\.self_attn\\.(q|v)_proj"})
SAVED = dict(tuning="lora", lora={"rank": 16, "dropout": 0.05, "target_modules": ["q_proj", "v_proj"], "modules_to_save": ["embed_tokens", "lm_head"]})
FSDP = dict(fsdp={"backward_prefetch": "pre"}, reduce_dtype="bf16")
FSDP2 = dict(fsdp={"wrap": "accelerate"}, reduce_dtype="bf16")

# name, method, ranks, config, layers, rows, tokens of a row, the rest of `training`
CASES = [
    ("embeddings", "single", 1, TINY, 6, 2, 512, dict(freeze=EMBED, precision="bf16")),
    ("embeddings-ckpt", "single", 1, TINY, 6, 2, 512, dict(freeze=EMBED, precision="bf16-mixed", **CKPT)),
    ("layers", "single", 1, TINY, 6, 2, 512, dict(freeze=HALF, precision="bf16")),
    ("layers-mixed", "single", 1, QWEN3, 6, 2, 512, dict(freeze=HALF, precision="bf16-mixed", **CKPT)),
    ("tied", "single", 1, QWEN3, 6, 2, 512, dict(freeze=EMBED, precision="bf16")),
    ("norms", "single", 1, GPT2, 6, 2, 512, dict(freeze=["ln_f", "wpe"], precision="bf16-mixed")),
    ("head-alone", "single", 1, TINY, 6, 2, 512, dict(freeze=["model"], precision="bf16")),
    ("lora-layers", "single", 1, TINY, 6, 2, 512, dict(precision="bf16-autocast", **SOME)),
    ("lora-layers-ckpt", "single", 1, QWEN3, 6, 2, 512, dict(precision="bf16-autocast", **CKPT, **SOME)),
    ("saved", "single", 1, TINY, 6, 2, 512, dict(precision="bf16-autocast", **SAVED)),
    ("saved-ckpt", "single", 1, TINY, 6, 2, 512, dict(precision="bf16-mixed", **CKPT, **SAVED)),
    ("saved-head", "single", 1, TINY, 6, 2, 512, dict(precision="bf16", tuning="lora", lora={"rank": 8, "target_modules": "all-linear", "modules_to_save": ["lm_head"]})),
    ("saved-ddp", "ddp", 4, TINY, 4, 1, 512, dict(precision="bf16-autocast", **SAVED)),
    ("saved-zero0", "zero0", 2, TINY, 4, 1, 512, dict(precision="bf16", optimizer="adamw_torch_fused", **SAVED)),
    ("saved-zero1", "zero1", 4, TINY, 6, 1, 512, dict(precision="bf16", **SAVED)),
    ("saved-zero2", "zero2", 4, TINY, 6, 1, 512, dict(precision="bf16", **CKPT, **SAVED)),
    ("saved-zero3", "zero3", 4, TINY, 6, 1, 512, dict(precision="bf16", **SAVED)),
    ("saved-zero3-head", "zero3", 2, TINY, 4, 1, 512, dict(precision="bf16", **CKPT, tuning="lora", lora={"rank": 8, "target_modules": "all-linear", "modules_to_save": ["lm_head"]})),
    ("saved-fsdp2", "fsdp2", 4, TINY, 6, 1, 512, dict(precision="bf16-mixed", **FSDP2, **SAVED)),
    ("saved-fsdp2-head", "fsdp2", 4, TINY, 6, 1, 512, dict(precision="bf16-autocast", **FSDP2, **CKPT, tuning="lora",
                                                           lora={"rank": 8, "target_modules": "all-linear", "modules_to_save": ["lm_head"]})),
    ("saved-fsdp", "fsdp", 4, TINY, 6, 1, 512, dict(precision="bf16-mixed", **FSDP, **SAVED)),
    ("saved-fsdp-half", "fsdp", 4, TINY, 6, 1, 512, dict(precision="bf16", **CKPT, **FSDP, tuning="lora",
                                                         lora={"rank": 8, "dtype": "bf16", "target_modules": "all-linear", "modules_to_save": ["lm_head"]})),
    ("saved-fsdp-grad-op", "fsdp_grad_op", 2, TINY, 4, 1, 512, dict(precision="bf16-autocast", **FSDP, **SAVED)),
    ("saved-hsdp2", "hsdp2", 4, TINY, 4, 1, 512, dict(precision="bf16-mixed", shard_group=2, **FSDP2, **SAVED)),
    ("zero2", "zero2", 4, TINY, 6, 1, 512, dict(freeze=EMBED, precision="bf16", **CKPT)),
    ("zero3", "zero3", 4, TINY, 6, 1, 512, dict(freeze=HALF, precision="bf16")),
    ("zero3-offload", "zero3", 4, TINY, 6, 1, 512, dict(freeze=EMBED, precision="bf16", offload="optimizer", **CKPT)),
    ("fsdp", "fsdp", 4, TINY, 6, 1, 512, dict(freeze=EMBED, precision="bf16-mixed", **FSDP)),
    ("fsdp-layers", "fsdp", 4, TINY, 6, 1, 512, dict(freeze=HALF, precision="bf16-mixed", **CKPT, **FSDP)),
    ("fsdp2", "fsdp2", 4, TINY, 6, 1, 512, dict(freeze=EMBED, precision="bf16-mixed", **FSDP2)),
    ("fsdp2-layers", "fsdp2", 4, QWEN3, 6, 1, 512, dict(freeze=HALF, precision="bf16-mixed", **CKPT, **FSDP2)),
    ("ddp", "ddp", 4, TINY, 4, 1, 512, dict(freeze=EMBED, precision="bf16-autocast")),
]


def freeze(model, names):
    """As tuning/freeze.h says what a name means."""
    def part(p, n):
        r = re.fullmatch(r"(\d+)-(\d+)", n)
        return p == n or bool(r and p.isdigit() and int(r[1]) <= int(p) <= int(r[2]))

    for path, p in model.named_parameters(remove_duplicate=False):
        parts = path.split(".")
        for name in names:
            n = name.split(".")
            if any(all(part(a, b) for a, b in zip(parts[i:i + len(n)], n)) and i + len(n) <= len(parts) for i in range(len(parts))):
                p.requires_grad_(False)
    assert any(p.requires_grad for p in model.parameters())


def trace(oracle):
    sys.path[:0] = [oracle]
    sys.argv[0] = os.path.abspath(__file__)
    request = json.loads(os.environ["FREEZE_REQUEST"])
    training = dict(request["training"])
    if training.get("lora", {}).get("modules_to_save"):  # what the tracers know of no option
        import peft
        training["lora"], saved, real = dict(training["lora"]), training["lora"]["modules_to_save"], peft.LoraConfig
        del training["lora"]["modules_to_save"]
        peft.LoraConfig = lambda **k: real(**dict(k, modules_to_save=saved))
    names, several = training.pop("freeze", []), training["methods"] != "single"
    import environment
    environment.ensure(*([80, 0] if several else []))
    import tempfile
    import ask
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(request["config"], f)
        f.flush()
        if several:
            import dist_trace
            make = dist_trace.make_model

            def make_model(cfg, o, device):
                model = make(cfg, o, device)
                freeze(model, names)
                return model
            dist_trace.make_model = make_model
            if training["methods"].startswith("zero"):
                import deepspeed  # noqa: F401
            o = dist_trace.resolve({**ask.for_many(request, training, []), "loop": "trainer", "breakdown": False})
            out = dist_trace.trace_rank(f.name, o, int(os.environ.get("FREEZE_RANK", "0")))
        else:
            from one_gpu import report, step
            build = step.wrap_precision

            def before(model, precision):
                freeze(model, names)
                build(model, precision)
            step.wrap_precision = before
            out = report.trace(f.name, ask.for_one(request, training, []), events=os.environ.get("FREEZE_EVENTS"))
    print("\n" + json.dumps(out))
    sys.stdout.flush()
    os._exit(0)


def request_of(case, configs):
    name, method, ranks, config, layers, rows, tokens, training = case
    one = make_stages.request_of((name, config, layers, rows, tokens, training), configs)
    one["cluster"].update(gpus_per_node=ranks)
    one["training"].update(methods=method)
    one["stack"] = dict(STACK, framework="transformers")
    return one


def main():
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    oracle, configs, python = sys.argv[1:4]
    path = os.path.join(HERE, "freeze.jsonl")
    rows = {}
    if only and os.path.exists(path):
        rows = {row["id"]: row for row in map(json.loads, open(path, encoding="utf-8"))}
    for case in CASES:
        if only not in case[0]:
            continue
        request, worst = request_of(case, configs), None
        for rank in range(case[2]) if case[1] in ("zero1", "zero2") else [0]:
            env = dict(os.environ, FREEZE_REQUEST=json.dumps(request), FREEZE_RANK=str(rank))
            told = subprocess.run([python, os.path.abspath(__file__), "--trace", oracle], env=env, stdout=subprocess.PIPE).stdout
            if b"\n{" not in told:
                print("no figures: " + case[0], file=sys.stderr)
                break
            result = json.loads(told[told.rindex(b"\n{"):])
            worst = result if not worst or result["peak_allocated_bytes"] > worst["peak_allocated_bytes"] else worst
        else:
            # of copied modules the tracer's order of loading leaves other blocks that are not split off: no range holds them
            from make_stages_dist import figures
            made = {k: worst[k] for k in FIGURES if k in worst} if case[1] == "single" else figures(worst, case[1] == "zero3" and "saved" not in case[0])
            group = "one GPU, a part trained" if case[1] == "single" else "several GPUs, a part trained"
            row = {"id": "freeze/" + case[0], "group": group, "body": json.dumps(request, separators=(",", ":")), **made}
            rows[row["id"]] = row
            with open(path, "w", encoding="utf-8") as out:
                out.writelines(json.dumps(rows[k], separators=(",", ":")) + "\n" for k in ["freeze/" + c[0] for c in CASES] if k in rows)


if __name__ == "__main__":
    if sys.argv[1] == "--trace":
        trace(sys.argv[2])
    else:
        main()
