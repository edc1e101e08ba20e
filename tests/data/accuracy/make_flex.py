#!/usr/bin/env python3
"""Makes flex.jsonl of this folder: steps with torch's flex_attention, compiled by the real Inductor for the oracle's GPU, whose kernels' launches do nothing.

    make_flex.py ORACLE CONFIGS STACK [NAME..] >> flex.jsonl

run with the oracle's Python of one of STACKS; CONFIGS holds the config.json files. EVENTS=DIR writes births and deaths too. What Inductor writes around its kernels (what it
allocates, reuses and deletes) is run as it is: TORCH_LOGS=output_code prints it.
"""
import json
import os
import sys
import tempfile

sys.path.insert(0, sys.argv[1])
import environment  # noqa: E402
import make_packing  # noqa: E402
import null_triton  # noqa: E402

T, Q3, Q2 = "TinyLlama__TinyLlama-1.1B-Chat-v1.0", "Qwen__Qwen3-0.6B", "Qwen__Qwen2-0.5B"
L, M, G2, G3, P3 = "meta-llama__Llama-3.2-1B", "mistralai__Mistral-7B-v0.1", "google__gemma-2-2b-it", "google__gemma-3-1b-it", "microsoft__Phi-3.5-mini-instruct"
FEW = {"num_hidden_layers": 3}
ADAPTERS = dict(tuning="lora", lora={"rank": 8, "dtype": "fp32"})
SMALL = dict(FEW, hidden_size=512, intermediate_size=1024, num_attention_heads=8, num_key_value_heads=4, head_dim=64, vocab_size=32000)
CASES = {
    "plain": (Q3, dict(model_config=FEW)),
    "one": (Q3, dict(model_config=FEW, micro_batch_size=1, seq_len=2048)),
    "ckpt": (Q3, dict(model_config=FEW, gradient_checkpointing=True)),
    "ckpt-reentrant": (Q3, dict(model_config=FEW, gradient_checkpointing=True, use_reentrant=True)),
    "odd": (Q3, dict(model_config=FEW, seq_len=1000, micro_batch_size=3)),
    "long": (Q3, dict(model_config=FEW, seq_len=8192, micro_batch_size=1, gradient_checkpointing=True)),
    "longer": (Q3, dict(model_config=SMALL, seq_len=20000, micro_batch_size=1, gradient_checkpointing=True)),
    "many": (Q3, dict(model_config=SMALL, seq_len=256, micro_batch_size=32)),
    "padded": (Q3, dict(model_config=FEW, padded=True)),
    "no-mask": (Q3, dict(model_config=FEW, attention_mask=False)),
    "accumulated": (Q3, dict(model_config=FEW, gradient_accumulation_steps=2)),
    "fp32": (Q3, dict(model_config=FEW, precision="fp32")),
    "mixed": (Q3, dict(model_config=FEW, precision="bf16-mixed")),
    "fp16-lora": (Q3, dict(model_config=FEW, precision="fp16-mixed", weights_dtype="fp16", **ADAPTERS)),
    "lora": (Q3, dict(model_config=FEW, **ADAPTERS)),
    "lora-autocast-ckpt": (Q3, dict(model_config=FEW, gradient_checkpointing=True, precision="bf16-mixed", weights_dtype="bf16", **ADAPTERS)),
    "lora-value": (Q3, dict(model_config=FEW, tuning="lora", lora={"rank": 8, "dtype": "fp32", "target_modules": ["v_proj"]})),
    "mha": (T, dict(model_config=dict(FEW, num_key_value_heads=32))),
    "tiny": (T, dict(model_config=FEW)),
    "14-heads": (Q2, dict(model_config=FEW)),
    "14-heads-ckpt": (Q2, dict(model_config=FEW, gradient_checkpointing=True)),
    "head-96": (P3, dict(model_config=FEW)),
    "head-80": (Q3, dict(model_config=dict(SMALL, head_dim=80))),
    "head-256": (Q3, dict(model_config=dict(SMALL, head_dim=256))),
    "packed": (Q3, dict(model_config=FEW, micro_batch_size=2, seq_len=512, sequences=4)),
    "packed-ckpt": (Q3, dict(model_config=FEW, micro_batch_size=4, seq_len=512, sequences=16, gradient_checkpointing=True)),
    "packed-window": (M, dict(model_config=dict(SMALL, sliding_window=256), micro_batch_size=1, seq_len=2048, sequences=3)),
    "window": (M, dict(model_config=dict(SMALL, sliding_window=256))),
    "window-padded": (M, dict(model_config=dict(SMALL, sliding_window=256), padded=True, gradient_checkpointing=True)),
    "gemma2": (G2, dict(model_config=dict(FEW, layer_types=None, num_attention_heads=8, vocab_size=32000), gradient_checkpointing=True)),
    "gemma3": (G3, dict(model_config=dict(num_hidden_layers=6, layer_types=None, vocab_size=32000), seq_len=1024)),
    "gpt_oss": ("openai__gpt-oss-120b", dict(model_config=dict(
        FEW, hidden_size=512, intermediate_size=512, num_local_experts=8, num_attention_heads=16, layer_types=None, pad_token_id=0, vocab_size=32000, quantization_config=None))),
}
TYPES = ("cwm", "dots1", "exaone_moe", "flex_olmo", "gemma4", "gemma4_text", "glm4_moe_lite", "gpt_oss", "granitemoeshared", "hunyuan_v1_dense", "hunyuan_v1_moe", "hy_v3",
         "llama4_text", "minicpm3", "ministral", "phimoe", "solar_open", "vaultgemma", "youtu")
CASES.update(("type-" + name, ("@" + name, {})) for name in TYPES)
STACKS = {"current": {"torch": "2.15", "transformers": "5.23", "peft": "0.21"}, "2025": {"torch": "2.7", "transformers": "4.53", "peft": "0.16"}}
FIGURES = ("peak_allocated_bytes", "peak_reserved_bytes", "peak_reserved_expandable_bytes", "static_bytes", "resting_bytes", "peak_phase", "phase_peaks_bytes")


def request_of(own, o, stack):
    precision = o["precision"].replace("mixed", "autocast") if o.get("weights_dtype") else o["precision"]
    names = {"use_reentrant": "checkpoint_reentrant"}
    training = {"methods": "single", "tuning": o.get("tuning", "full"), "precision": precision, "gradient_checkpointing": False}
    training.update((names.get(k, k), o[k]) for k in ("seq_len", "micro_batch_size", "optimizer", "attention", "gradient_checkpointing", "gradient_accumulation_steps", "lora",
                                                      "padded", "attention_mask", "use_reentrant") if k in o)
    if o["sequences"]:
        training.update(packing=True, lengths=[-(-o["micro_batch_size"] * o["seq_len"] // o["sequences"])])
    return {"cluster": {"gpu": "A100-80GB"}, "training": training, "stack": stack, "config": {**own, **o.get("model_config", {})}}


def config_file(name):
    """@type: its small config of families.jsonl"""
    if not name.startswith("@"):
        return os.path.join(sys.argv[2], name + ".json")
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "families.jsonl"), encoding="utf-8") as f:
        config = next(c for c in (json.loads(json.loads(line)["body"])["config"] for line in f) if c["model_type"] == name[1:])
    with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as f:
        json.dump(config, f)
    return f.name


def trace(name, stack):
    from one_gpu import report
    config, options = CASES[name] if name in CASES else (name, {})
    path = config_file(config)
    o = {"seq_len": 512, "micro_batch_size": 2, "precision": "bf16", "optimizer": "adamw_torch_fused", "attention": "flex_attention", "sequences": 0, **options}
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
        null_triton.without_kernels()
        if o["sequences"]:
            make_packing.patch(o["sequences"])
        result = report.trace(path, {k: v for k, v in o.items() if k != "sequences"}, events=os.path.join(os.environ["EVENTS"], name + ".csv") if "EVENTS" in os.environ else None)
    with open(path, encoding="utf-8") as f:
        own = {k: v for k, v in json.load(f).items() if not k.startswith("_")}
    row = {"id": "flex/" + name, "group": "one GPU, flex attention", "body": json.dumps(request_of(own, o, stack), separators=(",", ":"))}
    row.update((k, result[k]) for k in FIGURES if k in result)
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
            trace(name, STACKS[sys.argv[3]])
        except BaseException as error:
            print(name, type(error).__name__, str(error)[:600], file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)


if __name__ == "__main__":
    main()
