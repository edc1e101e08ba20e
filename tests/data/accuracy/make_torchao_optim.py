#!/usr/bin/env python3
"""Makes torchao_optim.jsonl of this folder: steps of torchao's AdamW with states of 8 and 4 bits, on one GPU and over fully_shard's DTensors. Its update is compiled by the real
Inductor, whose kernels' launches do nothing (null_triton.py).

    make_torchao_optim.py ORACLE CONFIGS PYTHON TORCHAO [--only TEXT]

ORACLE holds trace.py and dist_trace.py; PYTHON is that of its environment (torch 2.15, transformers 5.23, peft 0.21), whose nullcuda/libcuda.so.1 is a link to libnullcuda.so; TORCHAO is
a folder with an unpacked torchao 0.18.0 wheel.
"""
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import make_stages  # noqa: E402
from make_stages import GPT2, QWEN3, TINY  # noqa: E402

STACK = {"torch": "2.15", "transformers": "5.23", "peft": "0.21", "framework": "transformers"}
CKPT = dict(gradient_checkpointing=True)
EIGHT, FOUR = dict(optimizer="adamw_torch_8bit"), dict(optimizer="adamw_torch_4bit")
MIXED, HALF = dict(precision="bf16-mixed"), dict(precision="bf16")
LORA = dict(tuning="lora", lora={"rank": 16, "dropout": 0.05, "target_modules": ["q_proj", "v_proj"]})
FSDP2 = dict(fsdp={"wrap": "accelerate"}, reduce_dtype="bf16")

# name, method, ranks, config, layers (0: as they are), rows, tokens of a row, the rest of `training`
CASES = [
    ("8bit", "single", 1, QWEN3, 4, 1, 256, dict(**EIGHT, **HALF)),
    ("4bit", "single", 1, TINY, 4, 1, 256, dict(**FOUR, **HALF)),
    ("8bit-mixed", "single", 1, GPT2, 4, 2, 256, dict(**EIGHT, **MIXED)),
    ("4bit-lora", "single", 1, TINY, 4, 1, 256, dict(**FOUR, **LORA, precision="bf16-autocast", **CKPT)),
    ("8bit-fsdp2", "fsdp2", 4, TINY, 4, 1, 256, dict(**EIGHT, **MIXED, **FSDP2)),
    ("8bit-fsdp2-ckpt", "fsdp2", 2, QWEN3, 4, 1, 512, dict(**EIGHT, **MIXED, **FSDP2, **CKPT)),
    ("4bit-fsdp2", "fsdp2", 8, TINY, 4, 1, 256, dict(**FOUR, **MIXED, **FSDP2)),
    ("8bit-fsdp2-lora", "fsdp2", 4, TINY, 4, 1, 256, dict(**EIGHT, **FSDP2, **LORA, precision="bf16-autocast")),
    ("8bit-fsdp2-uneven", "fsdp2", 3, GPT2, 4, 2, 256, dict(**EIGHT, **MIXED, **FSDP2)),
    ("4bit-hsdp2", "hsdp2", 4, TINY, 4, 1, 256, dict(**FOUR, **MIXED, **FSDP2, shard_group=2)),
]


def optimizer_of(groups, name, folder):
    sys.path.append(folder)
    from torchao.optim import AdamW4bit, AdamW8bit
    return (AdamW8bit if name.endswith("8bit") else AdamW4bit)(groups, lr=5e-5, block_size=256)


def trace(oracle, folder):
    sys.path[:0] = [oracle]
    sys.argv[0] = os.path.abspath(__file__)
    request = json.loads(os.environ["TRACED_REQUEST"])
    training = dict(request["training"])
    name, training["optimizer"] = training["optimizer"], "adamw_torch"
    several = training["methods"] != "single"
    import environment
    environment.ensure(*([80, 0] if several else []))
    import null_triton
    import ask
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f, tempfile.TemporaryDirectory() as cache:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
        null_triton.without_kernels()
        json.dump(request["config"], f)
        f.flush()
        if several:
            import dist_trace
            from many_gpus import step
            step.make_optimizer = lambda groups, o: optimizer_of([{"params": g} for g in groups], name, folder)
            o = dist_trace.resolve({**ask.for_many(request, training, []), "loop": "trainer", "breakdown": False, "local_optimizer": False})
            out = dist_trace.trace_rank(f.name, o, int(os.environ.get("TORCHAO_RANK", "0")))
        else:
            from one_gpu import report, step
            step.make_optimizer = lambda model, o: optimizer_of(step.parameter_groups(model, o["param_groups"]), name, folder)
            out = report.trace(f.name, ask.for_one(request, training, []), bare=True)
    print("\n" + json.dumps(out))
    sys.stdout.flush()
    os._exit(0)


def request_of(case, configs):
    name, method, ranks, config, layers, rows, tokens, training = case
    request = make_stages.request_of((name, config, layers, rows, tokens, training), configs)
    request["cluster"].update(gpus_per_node=ranks)
    request["training"].update(methods=method)
    request["stack"] = STACK
    return request


def main():
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    oracle, configs, python, folder = sys.argv[1:5]
    import traced_rows
    traced_rows.remake("torchao_optim", "losses and optimizers", CASES, only, lambda case: request_of(case, configs), python, (oracle, folder))


if __name__ == "__main__":
    if sys.argv[1] == "--trace":
        trace(*sys.argv[2:4])
    else:
        main()
