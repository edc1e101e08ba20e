#!/usr/bin/env python3
"""Makes freeze.jsonl of this folder: steps of models of which a part is not trained, requires_grad_(False) before anything wraps them, or of which some layers alone are adapted.

    make_freeze.py ORACLE CONFIGS PYTHON [--only TEXT]

ORACLE holds trace.py and dist_trace.py; PYTHON is that of its environment (torch 2.15, transformers 5.23, deepspeed 0.19.8). Rows of LLaMA-Factory are made on
transformers 5.6 and peft 0.18 (FREEZE_OLDER, a folder of PYTHONPATH), since its checkpoint function does not run on 5.23; those of axolotl want AXOLOTL, the src folder of 0.19.0,
whose own functions cast what they cast (make_casts.py).
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
    ("trainable", "single", 1, TINY, 6, 2, 512, dict(trainable=["layers.4-5", "norm"], precision="bf16")),
    ("trainable-pattern", "single", 1, QWEN3, 6, 2, 512, dict(trainable=".*\\.layers\\.[1-3]\\.mlp\\..*|model\\.embed_tokens.*", precision="bf16-mixed", **CKPT)),
    ("trainable-but", "single", 1, TINY, 6, 2, 512, dict(freeze=["model"], trainable=["layers.5.self_attn"], precision="bf16-mixed")),
    ("share", "single", 1, TINY, 6, 2, 512, dict(freeze_ratio=0.5, precision="bf16-autocast", **CKPT)),
    ("share-tied", "single", 1, QWEN3, 6, 2, 512, dict(freeze_ratio=0.99, trainable="model\\.layers\\.2\\..*", precision="bf16-autocast")),
    ("share-ddp", "ddp", 4, TINY, 4, 1, 512, dict(freeze_ratio=0.7, precision="bf16-mixed")),
    ("llama-factory", "single", 1, TINY, 6, 2, 512, dict(trainable=["4-5"], precision="bf16-autocast", trainer="llama-factory")),
    ("llama-factory-ckpt", "single", 1, QWEN3, 6, 2, 512, dict(trainable=["4-5"], precision="bf16-autocast", trainer="llama-factory", checkpoint_reentrant=True, **CKPT)),
    ("llama-factory-kept", "single", 1, TINY, 6, 2, 512, dict(trainable=["4-5.mlp", "lm_head"], precision="bf16-autocast", trainer="llama-factory", checkpoint_reentrant=False, **CKPT)),
    ("llama-factory-first", "single", 1, TINY, 6, 2, 512, dict(trainable=["0-1"], precision="bf16-autocast", trainer="llama-factory", checkpoint_reentrant=True, **CKPT)),
    ("llama-factory-pure", "single", 1, GPT2, 6, 2, 512, dict(trainable=["4-5"], precision="bf16", trainer="llama-factory", checkpoint_reentrant=True, **CKPT)),
    ("llama-factory-ddp", "ddp", 4, TINY, 4, 1, 512, dict(trainable=["2-3"], precision="bf16-autocast", trainer="llama-factory", checkpoint_reentrant=True, **CKPT)),
    ("llama-factory-zero2", "zero2", 4, TINY, 4, 1, 512, dict(trainable=["2-3"], precision="bf16-mixed", trainer="llama-factory", checkpoint_reentrant=True, **CKPT)),
    ("axolotl-head", "single", 1, TINY, 6, 2, 512, dict(unfrozen=["^lm_head.*", "^model.layers.5.*"], precision="bf16-autocast", optimizer="adamw_torch_fused")),
    ("axolotl-head-ckpt", "single", 1, TINY, 6, 2, 512, dict(unfrozen=["^lm_head.*", "^model.layers.5.*"], precision="bf16-autocast", optimizer="adamw_torch_fused", **CKPT)),
    ("llama-factory-zero3", "zero3", 4, TINY, 4, 1, 512, dict(trainable=["2-3"], precision="bf16-mixed", trainer="llama-factory", checkpoint_reentrant=True, **CKPT)),
]


def checkpoint_trained(model):
    """LLaMA-Factory 0.9.5 model/model_utils/checkpointing.py get_custom_gradient_checkpointing_func(), over what the model has."""
    import functools
    import torch

    def only(inner):
        def run(func, *args, **kw):
            module = func.func.__self__ if isinstance(func, functools.partial) else func.__self__
            if not any(p.requires_grad for p in module.parameters()):
                return func(*args, **kw)
            for arg in args:
                if torch.is_tensor(arg) and torch.is_floating_point(arg):
                    arg.requires_grad_(True)
                    break
            return inner(func, *args, **kw)
        return run

    for m in model.modules():
        if hasattr(m, "_gradient_checkpointing_func"):
            m._gradient_checkpointing_func = only(m._gradient_checkpointing_func)


def by_llama_factory(model, training):
    """model/adapter.py _setup_freeze_tuning(): what is trained in fp32, the rest as loaded."""
    import torch
    if training["methods"] in ("single", "ddp") and training["precision"].endswith("autocast"):
        for p in model.parameters():
            if p.requires_grad:
                p.data = p.data.to(torch.float32)
    if getattr(model, "_require_grads_hooks", None) or hasattr(model, "_require_grads_hook"):
        model.disable_input_require_grads()
    model.enable_input_require_grads = lambda: None
    enable = model.gradient_checkpointing_enable

    def enabled(*a, **k):
        enable(*a, **k)
        checkpoint_trained(model)
    model.gradient_checkpointing_enable = enabled
    checkpoint_trained(model)


def freeze(model, training):
    """As tuning/freeze.h says what is trained."""
    from bisect import bisect_right
    names, trained, share = (training.get(k) for k in ("freeze", "trainable", "freeze_ratio"))
    if training.get("unfrozen"):  # axolotl 0.19.0 utils/freeze.py freeze_layers_except(), train.py
        trained = "(?:%s).*" % "|".join(re.sub(r"\.(?!\+)", r"\\.", n) for n in training["unfrozen"])
        model.enable_input_require_grads()
    if trained and not names and not share:
        model.requires_grad_(False)
    if share:  # ms-swift 4.6.0 utils/transformers_utils.py freeze_parameters()
        sizes = [p.numel() for p in model.parameters()]
        sums = [sum(sizes[:i + 1]) for i in range(len(sizes))]
        for _, p in zip(range(bisect_right(sums, int(sum(sizes) * share))), model.parameters()):
            p.requires_grad_(False)
    if names:
        freeze_named(model, names, False)
    if isinstance(trained, str):
        for path, p in model.named_parameters():
            if re.fullmatch(trained, path):
                p.requires_grad_(True)
    elif trained:
        freeze_named(model, trained, True)
    assert any(p.requires_grad for p in model.parameters())
    if training.get("trainer"):
        by_llama_factory(model, training)


def freeze_named(model, names, on):
    def part(p, n):
        r = re.fullmatch(r"(\d+)-(\d+)", n)
        return p == n or bool(r and p.isdigit() and int(r[1]) <= int(p) <= int(r[2]))

    for path, p in model.named_parameters(remove_duplicate=on):
        parts = path.split(".")
        for name in names:
            n = name.split(".")
            if any(all(part(a, b) for a, b in zip(parts[i:i + len(n)], n)) and i + len(n) <= len(parts) for i in range(len(parts))):
                p.requires_grad_(on)


def settings(buckets):
    """What of DeepSpeed's file the tracer has no word for."""
    import deepspeed
    initialize = deepspeed.initialize

    def with_more(*a, config=None, **k):
        zero = config["zero_optimization"]
        if "reuse_elems" in buckets:
            zero["stage3_max_reuse_distance"] = buckets["reuse_elems"]
        if "round_robin" in buckets:
            zero["round_robin_gradients"] = buckets["round_robin"]
        return initialize(*a, config=config, **k)
    deepspeed.initialize = with_more


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
    several = training["methods"] != "single"
    asked = dict(training)
    for name in ("freeze", "trainable", "freeze_ratio", "trainer", "unfrozen"):
        training.pop(name, None)
    if "buckets" in training:
        training["buckets"] = {k: v for k, v in training["buckets"].items() if k not in ("reuse_elems", "round_robin")}
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
                freeze(model, asked)
                return model
            dist_trace.make_model = make_model
            if training["methods"].startswith("zero"):
                settings(asked.get("buckets", {}))
            o = dist_trace.resolve({**ask.for_many(request, training, []), "loop": "trainer", "breakdown": False})
            out = dist_trace.trace_rank(f.name, o, int(os.environ.get("FREEZE_RANK", "0")))
        else:
            from one_gpu import report, step
            build, meta = step.build, step.model_on_meta
            if asked.get("unfrozen"):
                import make_casts
                step.model_on_meta = lambda *a: (make_casts.cast(os.environ["AXOLOTL"], meta(*a)[0], asked), a[2])

            def built(*a):  # before train() empties the cache
                model = build(*a)
                freeze(model[0], asked)
                return model
            step.build = built
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
    if training.get("trainer"):
        one["stack"].update(transformers="5.6", peft="0.18")
    return one


def as_axolotl(request):
    """The same step as axolotl's file says it."""
    t = request["training"]
    text = "sequence_len: %d\nmicro_batch_size: %d\nbf16: true\ngradient_checkpointing: %s\noptimizer: %s\nattn_implementation: sdpa\nunfrozen_parameters:\n" % (
        t["seq_len"], t["micro_batch_size"], str(t["gradient_checkpointing"]).lower(), t["optimizer"])
    text += "".join("- %s\n" % n for n in t["unfrozen"])
    stack = dict(request["stack"], peft="0.21", accelerate="1.15", bitsandbytes="0.50")
    stack.pop("framework")
    return {"config": request["config"], "cluster": request["cluster"], "stack": stack, "framework_config": {"framework": "axolotl", "text": text}}


def main(CASES=CASES, file="freeze", group="a part trained"):
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    oracle, configs, python = sys.argv[1:4]
    path = os.path.join(HERE, file + ".jsonl")
    rows = {}
    if only and os.path.exists(path):
        rows = {row["id"]: row for row in map(json.loads, open(path, encoding="utf-8"))}
    for case in CASES:
        if only not in case[0]:
            continue
        request, worst = request_of(case, configs), None
        for rank in range(case[2]) if case[1] in ("zero1", "zero2") else [0]:
            env = dict(os.environ, FREEZE_REQUEST=json.dumps(request), FREEZE_RANK=str(rank))
            if request["training"].get("trainer"):
                env["PYTHONPATH"] = os.environ["FREEZE_OLDER"]
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
            request = as_axolotl(request) if "unfrozen" in request["training"] else request
            row = {"id": file + "/" + case[0], "group": ("one GPU, " if case[1] == "single" else "several GPUs, ") + group, "body": json.dumps(request, separators=(",", ":")), **made}
            rows[row["id"]] = row
            with open(path, "w", encoding="utf-8") as out:
                out.writelines(json.dumps(rows[k], separators=(",", ":")) + "\n" for k in [file + "/" + c[0] for c in CASES] if k in rows)


if __name__ == "__main__":
    if sys.argv[1] == "--trace":
        trace(sys.argv[2])
    else:
        main()
