#!/usr/bin/env python3
"""Makes scaled.jsonl of this folder: steps of one rank of several in fp16, whose loop has the gradient scaler that accelerate makes.

    make_scaled.py ORACLE CONFIGS PYTHON [--only TEXT]

ORACLE holds dist_trace.py; PYTHON is that of its environment (torch 2.15, transformers 5.23, peft 0.21). accelerate 1.15 accelerator.py: ShardedGradScaler under
FullyShardedDataParallel, torch's own under fully_shard and DDP; backward(), clip_grad_norm_() and AcceleratedOptimizer.step() go through it. The oracle's loop has none:
its text runs with these lines put in.
"""
import inspect
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import make_stages  # noqa: E402
from make_stages import GPT2, QWEN2, QWEN3, TINY  # noqa: E402

STACK = {"torch": "2.15", "transformers": "5.23", "peft": "0.21", "framework": "transformers"}
CKPT, ACCUM = dict(gradient_checkpointing=True), dict(gradient_accumulation_steps=2)
LORA = dict(tuning="lora", lora={"rank": 16, "dropout": 0.05, "target_modules": ["q_proj", "v_proj"]})
FOREACH, FUSED, SGD = dict(optimizer="adamw_torch"), dict(optimizer="adamw_torch_fused"), dict(optimizer="sgd")
FSDP = dict(fsdp={"backward_prefetch": "pre"})
FSDP2 = dict(fsdp={"wrap": "accelerate"})

# name, method, ranks, config, layers, rows, tokens of a row, the rest of `training`
CASES = [
    ("ddp", "ddp", 4, TINY, 4, 1, 512, dict(**FOREACH)),
    ("ddp-fused-accum", "ddp", 4, QWEN2, 4, 1, 512, dict(**FUSED, **ACCUM)),
    ("fsdp", "fsdp", 4, TINY, 4, 1, 512, dict(**FOREACH, **FSDP)),
    ("fsdp-ckpt-accum", "fsdp", 8, QWEN3, 6, 2, 512, dict(**FOREACH, **FSDP, **CKPT, **ACCUM)),
    ("fsdp-sgd", "fsdp", 2, GPT2, 4, 2, 512, dict(**SGD, **FSDP)),
    ("fsdp2", "fsdp2", 4, TINY, 4, 1, 512, dict(**FUSED, **FSDP2)),
    ("fsdp2-ckpt", "fsdp2", 8, QWEN3, 6, 2, 512, dict(**FUSED, **FSDP2, **CKPT)),
    ("fsdp2-foreach-accum", "fsdp2", 4, QWEN2, 4, 1, 512, dict(**FOREACH, **FSDP2, **ACCUM)),
    ("fsdp2-lora-ckpt", "fsdp2", 4, TINY, 4, 1, 512, dict(**FUSED, **FSDP2, **LORA, **CKPT)),
    ("hsdp2-ckpt", "hsdp2", 4, TINY, 4, 1, 512, dict(**FUSED, **FSDP2, **CKPT, shard_group=2)),
]

SCALED = (
    ("    kept = Kept(o)\n", "    kept = Kept(o)\n    scaler = new_scaler()\n"),
    ("kept.divided(loss).backward()\n", "divided = kept.divided(loss)\n                scaler.scale(divided).backward()\n                del divided\n"),
    ("                optimizer.attach()\n", "                optimizer.attach()\n                scaler.unscale_(optimizer.inner)\n"),
    ("            else:\n                norm = clip(", "            else:\n                scaler.unscale_(optimizer)\n                norm = clip("),
    ("            optimizer.step()\n        phases.end(\"optimizer\")", "            step_under(scaler, optimizer)\n        phases.end(\"optimizer\")"),
)


def put_in(step, method):
    """step.run() with a scaler."""
    import torch
    from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

    def step_under(scaler, optimizer):
        if isinstance(optimizer, step.LocalOptimizer):
            optimizer.attach()
            optimizer = optimizer.inner
        scaler.step(optimizer)
        scaler.update()
    text = inspect.getsource(step.run)
    for old, new in SCALED:
        if text.count(old) != 1:
            raise SystemExit("the oracle's step.run() has %d of %r" % (text.count(old), old))
        text = text.replace(old, new)
    step.new_scaler = ShardedGradScaler if method == "fsdp" else lambda: torch.amp.GradScaler("cuda")
    step.step_under = step_under
    exec(compile(text, "step_with_scaler.py", "exec"), vars(step))


def trace(oracle):
    sys.path[:0] = [oracle]
    request = json.loads(os.environ["TRACED_REQUEST"])
    training = request["training"]
    import environment
    environment.ensure(*([80, 0]))
    import ask
    import dist_trace
    from many_gpus import step
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(request["config"], f)
        f.flush()
        o = dist_trace.resolve({**ask.for_many(request, training, []), "loop": "trainer", "breakdown": False, "reduce_dtype": "fp16"})
        put_in(step, training["methods"])
        out = dist_trace.trace_rank(f.name, o, 0)
    print("\n" + json.dumps(out))
    sys.stdout.flush()
    os._exit(0)


def request_of(case, configs):
    name, method, ranks, config, layers, rows, tokens, training = case
    request = make_stages.request_of((name, config, layers, rows, tokens, training), configs)
    request["cluster"].update(gpus_per_node=ranks)
    request["training"].update(methods=method, precision="fp16-mixed")
    request["stack"] = STACK
    return request


def main():
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    oracle, configs, python = sys.argv[1:4]
    import traced_rows
    traced_rows.remake("scaled", "a gradient scaler", CASES, only, lambda case: request_of(case, configs), python, (oracle,))


if __name__ == "__main__":
    if sys.argv[1] == "--trace":
        trace(sys.argv[2])
    else:
        main()
