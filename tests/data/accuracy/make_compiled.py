#!/usr/bin/env python3
"""Makes compiled.jsonl of this folder: whole steps under torch.compile (model.compile()), by the real Inductor for the oracle's GPU, whose kernels' launches do nothing.

    make_compiled.py ORACLE CONFIGS STACK [NAME..] >> compiled.jsonl

run with the oracle's Python of one of STACKS; CONFIGS holds the config.json files. Peaks are the allocator's own: a tape's hooks would break the graph. They are the truth for the
range that `compile` answers: what a driver of kernels would add (autotuned tiles, a library's workspace in max-autotune) is not in the default mode.
"""
import json
import os
import sys
import tempfile

sys.path.insert(0, sys.argv[1])
import environment  # noqa: E402
import make_flex  # noqa: E402
import null_triton  # noqa: E402

T, Q3, Q2 = make_flex.T, make_flex.Q3, make_flex.Q2
L, M, G2 = make_flex.L, make_flex.M, make_flex.G2
FEW = {"num_hidden_layers": 3}
DEEP = {"num_hidden_layers": 10}
ADAPTERS = make_flex.ADAPTERS
MIXED = dict(precision="bf16-mixed")
CASES = {
    "tiny": (T, dict(model_config=FEW)),
    "tiny-long": (T, dict(model_config=FEW, seq_len=4096)),
    "tiny-ckpt": (T, dict(model_config=FEW, gradient_checkpointing=True)),
    "tiny-mixed": (T, dict(model_config=FEW, **MIXED)),
    "tiny-fp32": (T, dict(model_config=FEW, precision="fp32")),
    "tiny-lora": (T, dict(model_config=FEW, **ADAPTERS)),
    "tiny-eager": (T, dict(model_config=FEW, attention="eager")),
    "tiny-accumulated": (T, dict(model_config=FEW, gradient_accumulation_steps=2)),
    "tiny-many": (T, dict(model_config=FEW, micro_batch_size=32)),
    "tiny-deep": (T, dict(model_config=DEEP, seq_len=1024, micro_batch_size=4)),
    "qwen3": (Q3, dict(model_config=FEW)),
    "qwen3-ckpt": (Q3, dict(model_config=FEW, gradient_checkpointing=True)),
    "qwen3-mixed-ckpt": (Q3, dict(model_config=FEW, gradient_checkpointing=True, micro_batch_size=8, **MIXED)),
    "qwen3-deep": (Q3, dict(model_config=DEEP, micro_batch_size=8)),
    "qwen3-deep-mixed": (Q3, dict(model_config=DEEP, micro_batch_size=8, **MIXED)),
    "qwen2": (Q2, dict(model_config=FEW, micro_batch_size=8)),
    "llama-3.2": (L, dict(model_config=FEW, micro_batch_size=8)),
    "mistral": (M, dict(model_config=FEW)),
    "gemma2": (G2, dict(model_config=dict(FEW, layer_types=None), attention="eager")),
    "gpt2": ("openai-community__gpt2", dict(model_config={"n_layer": 3}, micro_batch_size=8)),
    "gpt2-mixed": ("openai-community__gpt2", dict(model_config={"n_layer": 12}, micro_batch_size=8, **MIXED)),
    "olmo2": ("allenai__OLMo-2-1124-7B", dict(model_config=dict(FEW, hidden_size=1024, intermediate_size=4096, num_attention_heads=8, num_key_value_heads=8))),
    "phi3": (make_flex.P3, dict(model_config=FEW)),
    "gemma3": (make_flex.G3, dict(model_config=dict(num_hidden_layers=6, layer_types=None), seq_len=1024)),
    "qwen3-padded": (Q3, dict(model_config=FEW, micro_batch_size=8, padded=True)),
    "qwen3-sgd": (Q3, dict(model_config=DEEP, micro_batch_size=4, optimizer="sgd")),
    "qwen3-eager-ckpt": (Q3, dict(model_config=DEEP, micro_batch_size=4, seq_len=1024, attention="eager", gradient_checkpointing=True)),
    "qwen3-lora-ckpt": (Q3, dict(model_config=DEEP, micro_batch_size=16, gradient_checkpointing=True, precision="bf16-mixed", weights_dtype="bf16", **ADAPTERS)),
    "qwen3-lora": (Q3, dict(model_config=FEW, micro_batch_size=16, **ADAPTERS)),
    "qwen3-lora-mixed": (Q3, dict(model_config=FEW, micro_batch_size=16, precision="bf16-mixed", weights_dtype="bf16", **ADAPTERS)),
    "qwen3-lora-half-ckpt": (Q3, dict(model_config=FEW, micro_batch_size=16, gradient_checkpointing=True, **ADAPTERS)),
    "qwen3-lora-reentrant": (Q3, dict(model_config=FEW, micro_batch_size=16, gradient_checkpointing=True, use_reentrant=True, **ADAPTERS)),
    "qwen3-reentrant": (Q3, dict(model_config=FEW, micro_batch_size=16, gradient_checkpointing=True, use_reentrant=True, **MIXED)),
    "llama-lora-mixed-ckpt": (L, dict(model_config=FEW, micro_batch_size=16, gradient_checkpointing=True, precision="bf16-mixed", weights_dtype="bf16", **ADAPTERS)),
    "qwen3-many-accumulated": (Q3, dict(model_config=FEW, micro_batch_size=16, gradient_accumulation_steps=2, **MIXED)),
    "small-vocabulary": (Q3, dict(model_config=dict(DEEP, vocab_size=1024), micro_batch_size=16)),
    "small-vocabulary-ckpt": (Q3, dict(model_config=dict(DEEP, vocab_size=1024), micro_batch_size=16, gradient_checkpointing=True)),
    "opt": ("facebook__opt-125m", dict(micro_batch_size=4)),
}


def compiled(run):
    """model.compile(), as accelerate's prepare does it; the loop stays eager"""
    run.model.compile()
    return run


def trace(name, stack):
    import torch._dynamo as dynamo
    from one_gpu import report, step as steps
    dynamo.config.cache_size_limit = 64
    config, options = CASES[name]
    path = os.path.join(sys.argv[2], config + ".json")
    o = {"seq_len": 512, "micro_batch_size": 2, "precision": "bf16", "optimizer": "adamw_torch_fused", "attention": "sdpa", "sequences": 0, **options}
    if True:
        made = steps.Run
        steps.Run = lambda *args: compiled(made(*args))
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
        null_triton.without_kernels()
        result = report.trace(path, {k: v for k, v in o.items() if k != "sequences"}, bare=True)
    with open(path, encoding="utf-8") as f:
        own = {k: v for k, v in json.load(f).items() if not k.startswith("_")}
    request = make_flex.request_of(own, o, stack)
    request["training"]["compile"] = True
    row = {"id": "compiled/" + ("" if sys.argv[3] == "current" else sys.argv[3] + "/") + name, "kind": "compiled", "body": json.dumps(request, separators=(",", ":")),
           "bytes": result["peak_allocated_bytes"]}
    print(json.dumps(row, separators=(",", ":")), flush=True)


def main():
    environment.ensure()
    for name in sys.argv[4:] or CASES:
        pid = os.fork()  # a process a case
        if pid:
            if os.waitpid(pid, 0)[1]:
                print(name, "failed", file=sys.stderr, flush=True)
            continue
        try:
            trace(name, make_flex.STACKS[sys.argv[3]])
        except BaseException as error:
            print(name, type(error).__name__, str(error)[:600], file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)


if __name__ == "__main__":
    main()
