#!/usr/bin/env python3
"""Makes optim_dist.jsonl of this folder: steps of several GPUs under optimizers other than AdamW: over DeepSpeed's and FSDP's flat shards, over fully_shard's DTensors, and over the
stages of a pipeline.

    make_optimizers_dist.py ORACLE CONFIGS PYTHON SCHEDULEFREE [--only TEXT]

ORACLE holds dist_trace.py; PYTHON is that of its environment (torch 2.15, transformers 5.23, deepspeed 0.19.8); SCHEDULEFREE is the folder with the wheel of 1.4.1 unpacked.
"""
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "..", "tools")]
import make_freeze  # noqa: E402
from make_freeze import CKPT, FSDP2, GPT2, QWEN3, TINY  # noqa: E402

FACTOR, RMS, FREE, FREE_SGD = (dict(optimizer=n) for n in ("adafactor", "rmsprop", "schedule_free_adamw", "schedule_free_sgd"))
MIXED, HALF = dict(precision="bf16-mixed"), dict(precision="bf16")
FSDP = dict(fsdp={"backward_prefetch": "pre"}, reduce_dtype="bf16")
FLAT = dict(fsdp={"backward_prefetch": "pre", "use_orig_params": False}, reduce_dtype="bf16")
MUON, ADA = dict(optimizer="muon"), dict(optimizer="adagrad")
STAGES = dict(gradient_accumulation_steps=4)
LORA = dict(tuning="lora", lora={"rank": 16, "dropout": 0.05, "target_modules": ["q_proj", "v_proj"]})

# name, method, ranks, config, layers, rows, tokens of a row, the rest of `training`
CASES = [
    ("adafactor-zero0", "zero0", 2, TINY, 4, 1, 256, dict(**FACTOR, **HALF)),
    ("adafactor-zero1", "zero1", 2, TINY, 4, 1, 256, dict(**FACTOR, **HALF)),
    ("adafactor-zero2", "zero2", 4, QWEN3, 4, 1, 256, dict(**FACTOR, **HALF, **CKPT)),
    ("adafactor-zero2-lora", "zero2", 2, TINY, 4, 1, 256, dict(**FACTOR, **HALF, **LORA)),
    ("adafactor-zero3", "zero3", 4, TINY, 4, 1, 256, dict(**FACTOR, **HALF)),
    ("adafactor-zero3-small", "zero3", 2, GPT2, 4, 2, 256, dict(**FACTOR, **HALF, buckets={"sub_group_elems": 2000000})),
    ("adafactor-fsdp", "fsdp", 4, TINY, 4, 1, 256, dict(**FACTOR, **MIXED, **FSDP)),
    ("adafactor-fsdp-flat", "fsdp", 4, QWEN3, 4, 1, 256, dict(**FACTOR, **MIXED, **CKPT, **FLAT)),
    ("adafactor-fsdp-half", "fsdp_grad_op", 2, TINY, 4, 1, 256, dict(**FACTOR, **HALF, **FLAT)),
    ("adafactor-fsdp-lora", "fsdp", 4, TINY, 4, 1, 256, dict(**FACTOR, precision="bf16-autocast", **FSDP, **LORA)),
    ("adafactor-hsdp", "hsdp", 4, GPT2, 4, 1, 256, dict(**FACTOR, **MIXED, shard_group=2, **FSDP)),
    ("rmsprop-zero1", "zero1", 2, QWEN3, 4, 1, 256, dict(**RMS, **HALF)),
    ("rmsprop-zero3", "zero3", 4, TINY, 4, 1, 256, dict(**RMS, **HALF, **CKPT)),
    ("rmsprop-fsdp", "fsdp", 4, TINY, 4, 1, 256, dict(**RMS, **MIXED, **FSDP)),
    ("rmsprop-fsdp2", "fsdp2", 4, GPT2, 4, 1, 256, dict(**RMS, **MIXED, **FSDP2)),
    ("schedule-free-zero2", "zero2", 2, TINY, 4, 1, 256, dict(**FREE, **HALF)),
    ("schedule-free-fsdp", "fsdp", 4, QWEN3, 4, 1, 256, dict(**FREE, **MIXED, **FSDP)),
    ("schedule-free-fsdp2", "fsdp2", 4, TINY, 4, 1, 256, dict(**FREE, **MIXED, **FSDP2)),
    ("schedule-free-fsdp2-lora", "fsdp2", 4, TINY, 4, 1, 256, dict(**FREE, precision="bf16-autocast", **FSDP2, **LORA)),
    ("schedule-free-hsdp2", "hsdp2", 4, QWEN3, 4, 1, 256, dict(**FREE_SGD, **MIXED, shard_group=2, **FSDP2)),
    ("schedule-free-sgd-zero3", "zero3", 4, TINY, 4, 1, 256, dict(**FREE_SGD, **HALF)),
    ("schedule-free-sgd-fsdp-half", "fsdp", 4, TINY, 4, 1, 256, dict(**FREE_SGD, **HALF, **FSDP)),
    ("adamw-8bit-pp", "pp", 2, TINY, 4, 1, 256, dict(optimizer="adamw_8bit", **HALF, **STAGES)),
    ("adamw-8bit-pp-mixed", "pp", 4, QWEN3, 4, 1, 256, dict(optimizer="adamw_8bit", **MIXED, **STAGES)),
    ("lion-pp", "pp", 2, TINY, 4, 1, 256, dict(optimizer="lion_32bit", **HALF, **STAGES)),
    ("ademamix-pp", "pp", 2, TINY, 5, 1, 256, dict(optimizer="ademamix", **HALF, **STAGES)),
    ("rmsprop-bnb-pp", "pp", 2, QWEN3, 4, 1, 256, dict(optimizer="rmsprop_bnb", **MIXED, **STAGES)),
    ("adafactor-pp", "pp", 2, TINY, 4, 1, 256, dict(**FACTOR, **HALF, **STAGES)),
    ("adafactor-pp-mixed", "pp", 2, QWEN3, 4, 2, 256, dict(**FACTOR, **MIXED, **STAGES)),
    ("rmsprop-pp", "pp", 4, TINY, 4, 1, 256, dict(**RMS, **HALF, **STAGES)),
    ("adagrad-pp", "pp", 2, TINY, 4, 1, 256, dict(optimizer="adagrad", **HALF, **STAGES)),
    ("schedule-free-pp", "pp", 2, QWEN3, 4, 1, 256, dict(**FREE, **HALF, **STAGES)),
    ("adagrad-zero0", "zero0", 2, TINY, 4, 1, 256, dict(**ADA, **HALF)),
    ("adagrad-fsdp", "fsdp", 4, TINY, 4, 1, 256, dict(**ADA, **MIXED, **FSDP)),
    ("adagrad-fsdp-half", "fsdp_grad_op", 2, QWEN3, 4, 1, 256, dict(**ADA, **HALF, **FLAT)),
    ("adagrad-fsdp-lora", "fsdp", 4, TINY, 4, 1, 256, dict(**ADA, precision="bf16-autocast", **FSDP, **LORA)),
    ("adagrad-hsdp", "hsdp", 4, GPT2, 4, 1, 256, dict(**ADA, **MIXED, shard_group=2, **FSDP)),
    ("muon-ddp", "ddp", 4, TINY, 4, 1, 256, dict(optimizer="muon", **MIXED)),
    ("muon-pp", "pp", 2, TINY, 4, 1, 256, dict(**MUON, **HALF, **STAGES)),
    ("muon-pp-mixed", "pp", 2, QWEN3, 4, 1, 256, dict(**MUON, **MIXED, **STAGES)),
    ("muon-fsdp2", "fsdp2", 4, TINY, 4, 1, 256, dict(**MUON, **MIXED, **FSDP2)),
    ("muon-fsdp2-wide", "fsdp2", 2, QWEN3, 2, 1, 32, dict(**MUON, **HALF, **CKPT, **FSDP2)),
    ("muon-fsdp2-columns", "fsdp2", 8, GPT2, 4, 1, 64, dict(**MUON, **MIXED, **CKPT, **FSDP2)),
    ("muon-fsdp2-hosts", "fsdp2", 16, TINY, 2, 1, 32, dict(**MUON, **MIXED, **CKPT, **FSDP2)),
    ("muon-fsdp2-lora", "fsdp2", 4, TINY, 4, 1, 64, dict(**MUON, precision="bf16-autocast", **FSDP2, **LORA)),
]


def trace(oracle, folder):
    sys.path[:0] = [oracle]
    sys.argv[0] = os.path.abspath(__file__)
    request = json.loads(os.environ["TRACED_REQUEST"])
    training = dict(request["training"])
    name, training["optimizer"] = training["optimizer"], "adamw_torch"
    import environment
    environment.ensure(80, None)
    import ask
    ask.MANY = ask.MANY + ("zero0",)
    import dist_trace
    if training["methods"].startswith("zero"):
        import deepspeed  # noqa: F401
    import drawn_options
    import make_optimizers
    from many_gpus import parallel
    from one_gpu import step
    loop = {"loop": "trainer", "local_optimizer": False} if training["methods"] != "pp" else {}
    o = dist_trace.resolve({**ask.for_many(request, training, []), **loop, "breakdown": False})
    o["optimizer"] = name
    make_optimizers.make(step, folder)
    if name == "muon":
        of_model = make_optimizers.muon
        make_optimizers.muon = lambda model, adam: of_model(getattr(model, "module", model), adam)
        from torch.distributed.device_mesh import _MeshEnv
        _MeshEnv.num_devices_per_host = staticmethod(lambda device: request["cluster"]["gpus_per_node"])  # the runtime has one, a node's process sees all
    rank_of = dist_trace.trace_rank

    def of_rank(config, o, rank):
        drawn_options.other_optimizer(o)
        if name == "muon":
            from many_gpus import step as many
            make, groups = many.make_optimizer, many.groups_of
            held = []

            def groups_of(model, o):
                held[:] = [model]
                return groups(model, o)
            if o["method"] == "pp":
                from many_gpus import pipeline
                pipeline.Stage = held_stage(pipeline.Stage, held)
            many.groups_of, many.make_optimizer = groups_of, lambda groups, o: step.make_optimizer(held[0], dict(o, param_groups=True)) if held else make(groups, o)
        return rank_of(config, o, rank)
    dist_trace.trace_rank = of_rank
    parallel.never_overflow = without_overflow(parallel.never_overflow)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(request["config"], f)
        f.flush()
        out = dist_trace.trace(f.name, o, fork=True)
    if out["status"] == "failed":
        sys.stderr.write(out.get("stderr", "")[-2000:] + "\n")
        os._exit(1)
    worst = next(k for k in out["ranks"] if k["rank"] == out["worst_rank"])
    highest = {k: max(rank[k] for rank in out["ranks"]) for k in ("peak_reserved_bytes", "after_init_allocated_bytes", "resting_allocated_bytes")}
    print("\n" + json.dumps(dict(worst, **highest, of_ranks=len(out["ranks"]))))
    sys.stdout.flush()
    os._exit(0)


def held_stage(of, held):
    """The stage that was made last, whose head is by name."""
    class Stage(of):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            held[:] = [self]

        def get_output_embeddings(self):
            return self.lm_head or self.layers[0].input_layernorm
    return Stage


def without_overflow(plain):
    """Stage 0 asks an object of its own, with all that it allocates."""
    def never(z):
        plain(z)
        if hasattr(z, "overflow_checker"):
            asks = z.overflow_checker.has_overflow
            z.overflow_checker.has_overflow = lambda *a, **k: bool(asks(*a, **k)) and False
    return never


def main():
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    oracle, configs, python, folder = sys.argv[1:5]
    import traced_rows

    def request_of(case):
        request = make_freeze.request_of(case, configs)
        if case[0].endswith("-hosts"):
            request["cluster"].update(gpus_per_node=case[2] // 2, nodes=2)
        if case[1] == "pp":
            request["stack"].update(framework="torch", bitsandbytes="0.50")
            request["training"].update(pipeline_parallel=case[2])
        return request

    traced_rows.remake("optim_dist", "losses and optimizers", CASES, only, request_of, python, (oracle, folder))


if __name__ == "__main__":
    if sys.argv[1] == "--trace":
        trace(*sys.argv[2:4])
    else:
        main()
