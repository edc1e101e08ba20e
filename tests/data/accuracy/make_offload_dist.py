#!/usr/bin/env python3
"""Makes offload.jsonl of this folder: steps of one rank of several within TRL's OffloadActivations, whose own text runs (make_offload.py).

    make_offload_dist.py ORACLE CONFIGS PYTHON TRL [--only TEXT]

ORACLE holds dist_trace.py; PYTHON is that of its environment (torch 2.15, transformers 5.23, peft 0.21, deepspeed 0.19.8); TRL is the folder with the wheel of 1.16.0 unpacked.
SFTTrainer makes the context when Trainer.__init__ has run: under DDP the model stands on the device then, under DeepSpeed and FSDP on the host, where what it knows parameters by
is not where they lie later.
"""
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import make_stages  # noqa: E402
from make_stages import GPT2, QWEN2, QWEN3, TINY  # noqa: E402

STACK = {"torch": "2.15", "transformers": "5.23", "peft": "0.21", "deepspeed": "0.19.8", "framework": "transformers"}
CKPT, ACCUM = dict(gradient_checkpointing=True), dict(gradient_accumulation_steps=2)
MIXED, HALF, CAST = dict(precision="bf16-mixed"), dict(precision="bf16"), dict(precision="bf16-autocast")
LORA = dict(tuning="lora", lora={"rank": 16, "dropout": 0.05, "target_modules": ["q_proj", "v_proj"]})
FSDP = dict(fsdp={"backward_prefetch": "pre"}, reduce_dtype="bf16")
FSDP2 = dict(fsdp={"wrap": "accelerate"}, reduce_dtype="bf16")

# name, method, ranks, config, layers, rows, tokens of a row, the rest of `training`
CASES = [
    ("ddp-ckpt", "ddp", 4, TINY, 4, 1, 512, dict(**CAST, **CKPT)),
    ("zero1", "zero1", 4, TINY, 4, 1, 512, dict(**HALF)),
    ("zero2", "zero2", 4, QWEN3, 4, 1, 512, dict(**HALF)),
    ("zero2-ckpt", "zero2", 4, TINY, 6, 2, 512, dict(**HALF, **CKPT)),
    ("zero2-gpt2", "zero2", 2, GPT2, 4, 2, 512, dict(**HALF)),
    ("zero2-lora", "zero2", 4, TINY, 4, 1, 512, dict(**HALF, **LORA)),
    ("zero2-lora-ckpt", "zero2", 4, TINY, 4, 1, 512, dict(**HALF, **LORA, **CKPT)),
    ("zero2-accum", "zero2", 2, QWEN2, 4, 1, 512, dict(**HALF, **CKPT, **ACCUM)),
    ("zero3", "zero3", 4, TINY, 4, 1, 512, dict(**HALF)),
    ("zero3-ckpt", "zero3", 8, QWEN3, 6, 2, 512, dict(**HALF, **CKPT)),
    ("zero3-lora-ckpt", "zero3", 4, TINY, 4, 1, 512, dict(**HALF, **LORA, **CKPT)),
    ("zero3-reentrant", "zero3", 4, TINY, 4, 1, 512, dict(**HALF, **CKPT, checkpoint_reentrant=True)),
    ("fsdp", "fsdp", 4, TINY, 4, 1, 512, dict(**MIXED, **FSDP)),
    ("fsdp-ckpt", "fsdp", 4, QWEN3, 6, 2, 512, dict(**MIXED, **FSDP, **CKPT)),
    ("fsdp-lora-ckpt", "fsdp", 4, TINY, 4, 1, 512, dict(**CAST, **FSDP, **LORA, **CKPT)),
    ("fsdp2", "fsdp2", 4, TINY, 4, 1, 512, dict(**MIXED, **FSDP2)),
    ("fsdp2-ckpt", "fsdp2", 8, QWEN3, 6, 2, 512, dict(**MIXED, **FSDP2, **CKPT)),
    ("fsdp2-gpt2", "fsdp2", 2, GPT2, 4, 2, 512, dict(**MIXED, **FSDP2)),
    ("fsdp2-lora", "fsdp2", 4, TINY, 4, 1, 512, dict(**CAST, **FSDP2, **LORA)),
    ("fsdp2-lora-ckpt", "fsdp2", 4, TINY, 4, 1, 512, dict(**CAST, **FSDP2, **LORA, **CKPT)),
    ("fsdp2-accum", "fsdp2", 4, QWEN2, 4, 1, 512, dict(**MIXED, **FSDP2, **CKPT, **ACCUM)),
    ("hsdp2-ckpt", "hsdp2", 4, TINY, 4, 1, 512, dict(**MIXED, **FSDP2, **CKPT, shard_group=2)),
]


def within(dist_trace, step, make, method):
    """The context around forward and backward, made where the model is."""
    made = []
    if method == "ddp":
        from many_gpus import parallel
        apply = parallel.apply_ddp

        def applied(model, o):
            made.append(make(model=model))
            return apply(model, o)
        parallel.apply_ddp = applied
    else:
        inner = dist_trace.tie

        def tied(model, facts):
            inner(model, facts)
            if not made:
                made.append(make(model=model))
        dist_trace.tie = tied
    count, keep = step.Kept.count, step.Kept.loss

    def counted(self):
        made[0].__enter__()
        return count(self)

    def kept(self, loss):
        keep(self, loss)
        made[0].__exit__(None, None, None)
    step.Kept.count, step.Kept.loss = counted, kept


def trace(oracle, trl):
    sys.path[:0] = [oracle]
    sys.argv[0] = os.path.abspath(__file__)
    request = json.loads(os.environ["TRACED_REQUEST"])
    training = dict(request["training"], offload="none")
    import environment
    environment.ensure(*([80, 0]))
    import ask
    import bitsandbytes  # noqa: F401  trl imports peft, which does
    import dist_trace
    import make_offload
    from many_gpus import step
    rank = request["cluster"]["gpus_per_node"] - 1 if training.get("gradient_accumulation_steps", 1) > 1 else 0  # which is the highest, as ask.py --compare has it
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(request["config"], f)
        f.flush()
        o = dist_trace.resolve({**ask.for_many(request, training, []), "loop": "trainer", "breakdown": False})
        within(dist_trace, step, make_offload.contexts(trl), training["methods"])
        out = dist_trace.trace_rank(f.name, o, rank)
    print("\n" + json.dumps(out))
    sys.stdout.flush()
    os._exit(0)


def request_of(case, configs):
    name, method, ranks, config, layers, rows, tokens, training = case
    request = make_stages.request_of((name, config, layers, rows, tokens, training), configs)
    request["cluster"].update(gpus_per_node=ranks)
    request["training"].update(methods=method, offload="activations")
    request["stack"] = STACK
    return request


def main():
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    oracle, configs, python, trl = sys.argv[1:5]
    import traced_rows
    traced_rows.remake("offload", "offload of activations", CASES, only, lambda case: request_of(case, configs), python, (oracle, trl))


if __name__ == "__main__":
    if sys.argv[1] == "--trace":
        trace(*sys.argv[2:4])
    else:
        main()
