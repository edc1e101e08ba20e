#!/usr/bin/env python3
"""Makes quantised_experts.jsonl of this folder: QLoRA over experts' tensors in 4 or 8 bits, as axolotl's quantize_moe_experts packs them.

    make_quantised_experts.py ORACLE CONFIGS PYTHON AXOLOTL [--only TEXT]

ORACLE holds trace.py and one_gpu; PYTHON is that of its environment (torch 2.15, transformers 5.23, peft 0.21, bitsandbytes 0.50.2); AXOLOTL is the src folder of axolotl 0.19.0,
of which monkeypatch/moe_quant.py is imported, its logger replaced; where `prepare_kbit` is axolotl, what loaders/model.py does to a loaded model runs too.
"""
import ast
import json
import os
import subprocess
import sys
import tempfile
import types

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import make_moe  # noqa: E402

FIGURES = ("peak_allocated_bytes", "peak_reserved_bytes", "peak_reserved_expandable_bytes", "static_bytes", "resting_bytes", "peak_phase", "phase_peaks_bytes")
STACK = {"torch": "2.15", "transformers": "5.23", "peft": "0.21", "bitsandbytes": "0.50"}
CKPT, AMP, KBIT = dict(gradient_checkpointing=True), dict(precision="bf16-autocast"), dict(prepare_kbit="peft")
LORA = dict(lora={"rank": 16, "dropout": 0.0, "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj"]})
AXOLOTL = dict(prepare_kbit="axolotl")

# name, type of make_moe.SMALL, rows, tokens of a row, the rest of `training`
CASES = [
    ("glm4-ckpt", "glm4_moe", 2, 512, dict(quantization="nf4-dq", **CKPT, **AMP, **KBIT, **LORA)),
    ("glm4", "glm4_moe", 1, 512, dict(quantization="nf4", precision="bf16", **LORA)),
    ("qwen3-ckpt", "qwen3_moe", 2, 512, dict(quantization="nf4-dq", **CKPT, **AMP, **KBIT, **LORA)),
    ("qwen3-reentrant", "qwen3_moe", 1, 640, dict(quantization="nf4", checkpoint_reentrant=True, **CKPT, **AMP, **LORA)),
    ("gpt-oss", "gpt_oss", 1, 512, dict(quantization="nf4-dq", **AMP, **KBIT, **LORA)),
    ("mixtral-eager", "mixtral", 1, 384, dict(quantization="nf4-dq", attention="eager", **CKPT, **AMP, **KBIT, **LORA)),
    ("int8", "glm4_moe", 1, 512, dict(quantization="int8", **AMP, **LORA)),
    ("int8-reentrant", "glm4_moe", 2, 384, dict(quantization="int8", checkpoint_reentrant=True, **CKPT, **AMP, **KBIT, **LORA)),
    ("int8-qwen3", "qwen3_moe", 1, 640, dict(quantization="int8", checkpoint_reentrant=True, **CKPT, **AMP, **KBIT, **LORA)),
    ("int8-mixtral-eager", "mixtral", 1, 384, dict(quantization="int8", attention="eager", checkpoint_reentrant=True, **CKPT, **AMP, **LORA)),
    ("int8-gpt-oss", "gpt_oss", 1, 512, dict(quantization="int8", **AMP, **LORA)),
    ("gates", "glm4_moe", 1, 512, dict(quantization="nf4-dq", **AMP, **LORA, **AXOLOTL)),
    ("gates-int8", "qwen3_moe", 2, 384, dict(quantization="int8", checkpoint_reentrant=True, **CKPT, **AMP, **LORA, **AXOLOTL)),
    ("whole-experts", "qwen2_moe", 1, 512, dict(quantization="nf4-dq", quantize_experts=False, checkpoint_reentrant=True, **CKPT, **AMP, **LORA, **AXOLOTL)),
    ("whole-experts-int8", "mixtral", 1, 384, dict(quantization="int8", quantize_experts=False, **AMP, **LORA, **AXOLOTL)),
    ("deepseek-v3", "deepseek_v3", 1, 512, dict(quantization="nf4-dq", **CKPT, **AMP, **KBIT, lora={"rank": 16, "dropout": 0.0, "target_modules": ["o_proj"]})),
]


def request_of(case, configs):
    name, kind, rows, tokens, training = case
    file, over = make_moe.SMALL[kind]
    own = {}
    if file:
        with open(os.path.join(configs, file + ".json"), encoding="utf-8") as f:
            own = {k: v for k, v in json.load(f).items() if not k.startswith("_")}
    own.update(over)
    own.pop("quantization_config", None)
    return {"cluster": {"gpu": "A100-80GB"},
            "training": {"methods": "single", "tuning": "qlora", "attention": "sdpa", "gradient_checkpointing": False, "optimizer": "adamw_torch", "micro_batch_size": rows,
                         "seq_len": tokens, "prepare_kbit": "none", "quantize_experts": True, **training},
            "stack": STACK, "config": own}


def configure(axolotl, model, packs, in_8bit, **said):
    """ModelLoader._configure_embedding_dtypes where nothing is sharded; in_8bit: None of what nothing packs"""
    import torch
    from peft import prepare_model_for_kbit_training
    scope = {"torch": torch, "os": os, "LOG": types.SimpleNamespace(info=print), "is_deepspeed_zero3_enabled": lambda: False, "get_fp32_norm_patterns": lambda cfg: [],
             "prepare_model_for_kbit_training": prepare_model_for_kbit_training}
    for name, wanted in (("utils.py", ("get_linear_embedding_layers",)),
                         ("model.py", ("_configure_embedding_dtypes", "_prepare_model_for_quantization", "_convert_embedding_modules_dtype"))):
        with open(os.path.join(axolotl, "axolotl", "loaders", name), encoding="utf-8") as f:
            found = [n for n in ast.walk(ast.parse(f.read())) if getattr(n, "name", "") in wanted]
        for n in found:
            n.decorator_list = []
        exec(compile(ast.fix_missing_locations(ast.Module([ast.parse("from __future__ import annotations").body[0]] + found, [])), name, "exec"), scope)
    cfg = types.SimpleNamespace(**{**dict(model_config_type=model.config.model_type, load_in_8bit=in_8bit, load_in_4bit=in_8bit is False, embeddings_skip_upcast=False, adapter="qlora",
                                          gradient_checkpointing=False, cut_cross_entropy=False, torch_dtype=torch.bfloat16, attn_needs_dtype_cast=False, peft=None,
                                          lora_on_cpu=False), **said})
    if packs:
        model._moe_experts_quantized = True
    loader = types.SimpleNamespace(cfg=cfg, model=model, model_config=model.config, is_fsdp_enabled=False, is_qlora_and_fsdp_enabled=False)
    for name in ("_prepare_model_for_quantization", "_convert_embedding_modules_dtype"):
        setattr(loader, name, types.MethodType(scope[name], loader))
    scope["_configure_embedding_dtypes"](loader)
    return loader.model


def trace(oracle, axolotl):
    """Within the oracle's environment: a request by EXPERTS_REQUEST, its figures on standard output."""
    sys.path.insert(0, oracle)
    sys.argv[0] = os.path.abspath(__file__)
    import environment
    environment.ensure()
    import importlib.util
    import logging
    os.environ["HF_DEACTIVATE_ASYNC_LOAD"] = "1"  # loaders/patch_manager.py
    log = types.ModuleType("axolotl.utils.logging")
    log.get_logger = logging.getLogger
    sys.modules.update({"axolotl": types.ModuleType("axolotl"), "axolotl.utils": types.ModuleType("axolotl.utils"), "axolotl.utils.logging": log})
    spec = importlib.util.spec_from_file_location("moe_quant", os.path.join(axolotl, "axolotl", "monkeypatch", "moe_quant.py"))
    moe_quant = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(moe_quant)
    import ask
    from one_gpu import report, step
    request = json.loads(os.environ["EXPERTS_REQUEST"])
    training = dict(request["training"])
    packs, prepares = training.pop("quantize_experts"), training["prepare_kbit"] == "axolotl"
    if prepares:
        training["prepare_kbit"] = "none"
    options = ask.for_one(request, training, [])
    load = step.load_quantised

    def quantised(config, o):
        if packs:
            moe_quant.patch_moe_quantization_on_load(types.SimpleNamespace(load_in_8bit=o["quantization"] == "int8", bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=o["quantization"] == "nf4-dq"))
        model, *rest = load(config, o)
        return (configure(axolotl, model, packs, o["quantization"] == "int8") if prepares else model, *rest)

    step.load_quantised = quantised
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(request["config"], f)
        f.flush()
        result = report.trace(f.name, options)
    result["packed"] = moe_quant.get_moe_quantized_count() or not packs
    print("\n" + json.dumps(result))


def main():
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    oracle, configs, python, axolotl = sys.argv[1:5]
    with open(os.path.join(HERE, "quantised_experts.jsonl"), "w" if not only else "a", encoding="utf-8") as out:
        for case in CASES:
            if only not in case[0]:
                continue
            request = request_of(case, configs)
            env = dict(os.environ, EXPERTS_REQUEST=json.dumps(request))
            told = subprocess.run([python, os.path.abspath(__file__), "--trace", oracle, axolotl], env=env, stdout=subprocess.PIPE).stdout
            result = json.loads(told[told.rindex(b"\n{"):]) if b"\n{" in told else {}
            if not result.get("packed"):
                print("no figures: " + case[0], file=sys.stderr)
                continue
            row = {"id": "quantised_experts/" + case[0], "group": "one GPU, bitsandbytes", "body": json.dumps(request, separators=(",", ":"))}
            row.update((k, result[k]) for k in FIGURES if k in result)
            out.write(json.dumps(row, separators=(",", ":")) + "\n")
            out.flush()


if __name__ == "__main__":
    if sys.argv[1] == "--trace":
        trace(*sys.argv[2:4])
    else:
        main()
