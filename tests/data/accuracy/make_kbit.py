#!/usr/bin/env python3
"""Makes kbit.jsonl of this folder: steps over quantised base weights and with optimizers of bitsandbytes, as the oracle traces them.

    make_kbit.py ORACLE_PYTHON ORACLE CONFIGS [CASE ..]

With names: their rows alone are made, behind what the file holds. ORACLE_PYTHON runs ORACLE/ask.py; CONFIGS holds the config.json files. torch 2.15, transformers 5.23, peft 0.21, bitsandbytes 0.50.
"""
import json
import os
import subprocess
import sys
import tempfile

FIGURES = ("peak_allocated_bytes", "peak_reserved_bytes", "peak_reserved_expandable_bytes", "static_bytes", "resting_bytes", "peak_phase", "phase_peaks_bytes")
CODEGEN = "Salesforce__codegen-350M-mono"
TINY, GPT2, OPT, BLOOM = "TinyLlama__TinyLlama-1.1B-Chat-v1.0", "openai-community__gpt2", "facebook__opt-350m", "bigscience__bloom-560m"
QWEN, GEMMA = "Qwen__Qwen3-0.6B", "google__gemma-2-2b-it"


def qlora(kind, prepare, precision, **more):
    return dict(tuning="qlora", quantization=kind, prepare_kbit=prepare, precision=precision, **more)


ERNIE = ("baidu__ERNIE-4.5-21B-A3B-PT", {"num_hidden_layers": 3})  # file, what is put over it: 64 experts and their router are packed by nobody
ALL = {"rank": 16, "alpha": 16, "dropout": 0.0, "target_modules": "all-linear"}
CASES = [
    ("nf4-dq-experts", ERNIE, qlora("nf4-dq", "peft", "bf16-autocast", micro_batch_size=2, seq_len=300, lora=ALL)),
    ("nf4", TINY, qlora("nf4", "none", "bf16", micro_batch_size=2, seq_len=512)),
    ("nf4-few-rows", TINY, qlora("nf4", "none", "bf16", micro_batch_size=1, seq_len=96)),
    ("nf4-dq-peft-ckpt", TINY, qlora("nf4-dq", "peft", "bf16-autocast", micro_batch_size=4, seq_len=1024, gradient_checkpointing=True)),
    ("nf4-dq-trl-dropout", TINY, qlora("nf4-dq", "trl", "fp16-autocast", micro_batch_size=1, seq_len=128,
                                       lora={"rank": 16, "dropout": 0.05, "target_modules": "all-linear"})),
    ("nf4-dq-paged", QWEN, qlora("nf4-dq", "peft", "bf16-autocast", micro_batch_size=2, seq_len=512, gradient_checkpointing=True,
                                 optimizer="paged_adamw_8bit")),
    ("nf4-window", GEMMA, qlora("nf4", "peft", "bf16", micro_batch_size=1, seq_len=300, attention="eager")),
    ("nf4-head-bias-trl", CODEGEN, qlora("nf4", "trl", "bf16-autocast", micro_batch_size=2, seq_len=256, gradient_checkpointing=True)),
    ("nf4-conv1d-trl", GPT2, qlora("nf4", "trl", "bf16-autocast", micro_batch_size=2, seq_len=256)),
    ("nf4-dq-bloom", BLOOM, qlora("nf4-dq", "peft", "bf16-autocast", micro_batch_size=2, seq_len=512, gradient_checkpointing=True)),
    ("nf4-dq-opt", OPT, qlora("nf4-dq", "none", "bf16-autocast", micro_batch_size=2, seq_len=384)),
    ("int8-conv1d-ckpt", GPT2, qlora("int8", "peft", "fp16-autocast", micro_batch_size=2, seq_len=256, gradient_checkpointing=True)),
    ("int8-none", TINY, qlora("int8", "none", "bf16", micro_batch_size=2, seq_len=512)),
    ("int8-trl", BLOOM, qlora("int8", "trl", "bf16-autocast", micro_batch_size=1, seq_len=300, lora={"rank": 8, "dropout": 0.1})),
    ("nf4-flash-fp32-norms", QWEN, qlora("nf4", "peft", "bf16", micro_batch_size=1, seq_len=777, attention="flash_attention_2")),
    ("int8-eager-ckpt-dropout", TINY, qlora("int8", "peft", "bf16", micro_batch_size=1, seq_len=777, attention="eager", gradient_checkpointing=True,
                                            lora={"rank": 64, "dropout": 0.1, "target_modules": ["o_proj"]})),
    ("int8-fp16", TINY, qlora("int8", "none", "fp16", micro_batch_size=1, seq_len=300)),
    ("adamw-8bit", GPT2, dict(precision="bf16", micro_batch_size=2, seq_len=256, optimizer="adamw_bnb_8bit")),
    ("paged-adamw-32bit", OPT, dict(precision="bf16-mixed", micro_batch_size=2, seq_len=256, optimizer="paged_adamw_32bit")),
    ("paged-adamw-8bit", QWEN, dict(precision="bf16", micro_batch_size=1, seq_len=256, optimizer="paged_adamw_8bit")),
    ("lion-8bit", GPT2, dict(precision="fp32", micro_batch_size=1, seq_len=256, optimizer="lion_8bit")),
    ("lion-32bit", GPT2, dict(precision="fp16-mixed", micro_batch_size=1, seq_len=256, optimizer="lion_32bit")),
    ("paged-lion-8bit", BLOOM, dict(tuning="lora", precision="bf16-autocast", micro_batch_size=1, seq_len=256, optimizer="paged_lion_8bit")),
]


def main():
    python, oracle, configs = sys.argv[1:4]
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "kbit.jsonl"), "a" if sys.argv[4:] else "w", encoding="utf-8") as out:
        for name, config, training in CASES:
            if sys.argv[4:] and name not in sys.argv[4:]:
                continue
            config, over = (config, {}) if isinstance(config, str) else config
            with open(os.path.join(configs, config + ".json"), encoding="utf-8") as f:
                own = {k: v for k, v in json.load(f).items() if not k.startswith("_") and not (over and k == "auto_map")} | over
            request = {"cluster": {"gpu": "A100-80GB"},
                       "training": {"methods": "single", "tuning": "full", "attention": "sdpa", "gradient_checkpointing": False, "optimizer": "adamw_torch",
                                    **training},
                       "stack": {"torch": "2.15", "transformers": "5.23", "peft": "0.21", "bitsandbytes": "0.50"}, "config": own}
            with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
                json.dump(request, f)
                f.flush()
                told = subprocess.run([python, os.path.join(oracle, "ask.py"), f.name, "--json"], stdout=subprocess.PIPE, check=True).stdout
            result = json.loads(told[told.index(b"\n{") :])  # behind what it says of the options
            row = {"id": "kbit/" + name, "group": "one GPU, bitsandbytes", "body": json.dumps(request, separators=(",", ":"))}
            row.update((k, result[k]) for k in FIGURES if k in result)
            out.write(json.dumps(row, separators=(",", ":")) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
