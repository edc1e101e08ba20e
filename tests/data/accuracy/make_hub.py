#!/usr/bin/env python3
"""Makes hub.jsonl of this folder: steps of models whose files stand on the hub beside their weights, as the oracle traces those files.

    make_hub.py ORACLE FOLDER 4.40=PYTHON 4.53=PYTHON

ORACLE holds trace.py; FOLDER modeling_qwen.py, configuration_qwen.py, qwen_generation_utils.py of Qwen-72B's repository (December 2023) and its config.json, where
the two tensors cache_qmax and cache_qmin are numbers: they never leave the host, the oracle would move them. flash_attn.layers.rotary has apply_rotary_emb_func,
an autograd function that allocates what ApplyRotaryEmb of flash-attn 2.8 does. einops is installed.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
STACKS = {"4.40": {"torch": "2.2", "transformers": "4.40", "peft": "0.10"}, "4.53": {"torch": "2.7", "transformers": "4.53", "peft": "0.16"}}
SHAPE = {"hidden_size": 256, "intermediate_size": 1376, "num_hidden_layers": 3, "num_attention_heads": 4, "kv_channels": 64, "max_position_embeddings": 512,
         "seq_length": 512, "vocab_size": 1003, "use_dynamic_ntk": False, "use_logn_attn": False, "bf16": True}
AUTOCAST = {"precision": "bf16-autocast", "gradient_checkpointing": True}
ADAPTERS = {"tuning": "lora", "lora": {"rank": 16, "target_modules": ["c_attn", "c_proj", "w1", "w2"], "dtype": "fp32"}}
FLASH, SDPA = {"attention": "flash_attention_2"}, {"attention": "sdpa"}
ROWS = [("4.40", "sdpa-pad", {**SDPA, "precision": "bf16", "padded": True}), ("4.40", "flash-pad", {**FLASH, "precision": "bf16", "padded": True}),
        ("4.40", "flash-lora-ckpt-1", {**FLASH, **AUTOCAST, **ADAPTERS, "padded": True, "micro_batch_size": 1}),
        ("4.53", "sdpa-autocast-ckpt", {**SDPA, **AUTOCAST}), ("4.53", "flash-autocast-ckpt", {**FLASH, **AUTOCAST})]


def main():
    oracle, folder = sys.argv[1:3]
    pythons, rows = dict(p.split("=", 1) for p in sys.argv[3:]), []
    for release, name, training in ROWS:
        training = {"methods": "single", "tuning": "full", "gradient_checkpointing": False, "optimizer": "adamw_torch", "micro_batch_size": 2, "seq_len": 200,
                    "use_cache": False, **training}
        options = {k: v for k, v in training.items() if k not in ("methods", "attention")}
        if training["precision"] == "bf16-autocast":
            options.update(precision="bf16-mixed", weights_dtype="bf16")
        with tempfile.TemporaryDirectory() as at:
            shutil.copytree(folder, at, dirs_exist_ok=True)
            with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
                config = {**json.load(f), **SHAPE, "use_flash_attn": training["attention"] != "sdpa"}
            with open(os.path.join(at, "config.json"), "w", encoding="utf-8") as f:
                json.dump(config, f)
            told = json.loads(subprocess.check_output([pythons[release], "trace.py", "--modeling", at, "--options", json.dumps(options)], cwd=oracle))
        asked = {k: v for k, v in config.items() if k not in ("auto_map", "use_flash_attn", "architectures")}
        request = {"cluster": {"gpu": "A100-80GB"}, "training": training, "stack": STACKS[release], "config": asked}
        rows.append({"id": "hub/qwen-%s-%s" % (release, name), "group": "one GPU, files of the hub", "body": json.dumps(request, separators=(",", ":")),
                     **{k: told[k] for k in ("peak_allocated_bytes", "peak_reserved_bytes", "static_bytes", "resting_bytes", "peak_phase", "phase_peaks_bytes")}})
    with open(os.path.join(HERE, "hub.jsonl"), "w", encoding="utf-8") as out:
        out.writelines(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)


if __name__ == "__main__":
    main()
