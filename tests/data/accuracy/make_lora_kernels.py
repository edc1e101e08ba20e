#!/usr/bin/env python3
"""Makes lora_kernels.jsonl of this folder: axolotl's own kernels of adapters. Its Python runs in the oracle while a launch of Triton does nothing.

    make_lora_kernels.py ORACLE CONFIGS AXOLOTL [NAME ..] >> lora_kernels.jsonl
    make_lora_kernels.py ORACLE CONFIGS AXOLOTL --several [NAME ..] >> lora_kernels.jsonl

run with the oracle's Python (torch 2.15, transformers 5.23, peft 0.21, bitsandbytes 0.50.2); AXOLOTL is the src folder of axolotl 0.19.0, of which kernels/ and
monkeypatch/lora_kernels.py are imported, what they log with and their dictionary replaced.
"""
import json
import os
import sys
import types

sys.path.insert(0, sys.argv[1])
import environment  # noqa: E402
import make_kernels  # noqa: E402

T, Q2, Q3 = make_kernels.T, make_kernels.Q2, make_kernels.Q3
ALL = ["qkv", "o", "mlp"]
CKPT = dict(gradient_checkpointing=True)
AUTO = dict(precision="bf16-mixed", weights_dtype="bf16")
STACK = {"torch": "2.15", "transformers": "5.23", "peft": "0.21", "bitsandbytes": "0.50"}


def lora(targets="all-linear", **more):
    return dict(tuning="lora", lora={"rank": 16, "dtype": "fp32", "target_modules": targets, **more})


QKVO = ["q_proj", "k_proj", "v_proj", "o_proj"]
CASES = {
    "all": (T, dict(kernels=ALL, **AUTO, **lora())),
    "all-ckpt": (T, dict(kernels=ALL, **AUTO, **CKPT, **lora())),
    "all-reentrant": (T, dict(kernels=ALL, **AUTO, **CKPT, use_reentrant=True, **lora())),
    "dropout": (T, dict(kernels=ALL, **AUTO, **lora(dropout=0.1))),
    "dropout-ckpt": (Q2, dict(kernels=ALL, **AUTO, **CKPT, **lora(dropout=0.05))),
    "bias": (Q2, dict(kernels=ALL, **AUTO, **lora())),
    "normed": (Q3, dict(kernels=ALL, **AUTO, **lora())),
    "normed-ckpt": (Q3, dict(kernels=ALL, **AUTO, **CKPT, **lora(rank=64))),
    "half": (Q3, dict(kernels=ALL, precision="bf16", **lora(dtype="bf16"))),
    "fp32": (Q2, dict(kernels=ALL, precision="fp32", **lora())),
    "fp16": (T, dict(kernels=ALL, precision="fp16-mixed", weights_dtype="fp16", **CKPT, **lora())),
    "qkv": (T, dict(kernels=["qkv"], **AUTO, **lora(QKVO))),
    "o": (T, dict(kernels=["o"], **AUTO, **lora(QKVO))),
    "mlp": (T, dict(kernels=["mlp"], **AUTO, **lora(["gate_proj", "up_proj", "down_proj"]))),
    "not-all-adapted": (Q3, dict(kernels=ALL, **AUTO, **lora(["q_proj", "v_proj", "down_proj"]))),
    "nf4": (T, dict(kernels=ALL, **AUTO, quantization="nf4", prepare_kbit=False, **lora())),
    "nf4-ckpt": (Q3, dict(kernels=ALL, **AUTO, **CKPT, quantization="nf4", prepare_kbit=False, **lora())),
    "nf4-dq": (T, dict(kernels=ALL, **AUTO, quantization="nf4-dq", prepare_kbit=False, **lora(dropout=0.05))),
    "nf4-dq-ckpt": (Q2, dict(kernels=ALL, **AUTO, **CKPT, quantization="nf4-dq", prepare_kbit=False, **lora())),
    "flash": (Q3, dict(kernels=ALL, **AUTO, **CKPT, attention="flash_attention_2", **lora())),
    "gemma": ("google__gemma-2b", dict(kernels=ALL, **AUTO, **lora())),
    "gemma2": ("google__gemma-2-2b-it", dict(kernels=ALL, **AUTO, **CKPT, attention="eager", model_config={"num_hidden_layers": 4}, **lora())),
    "gemma3": ("google__gemma-3-1b-it", dict(kernels=ALL, **AUTO, **lora())),
    "accumulated": (T, dict(kernels=ALL, **AUTO, **CKPT, gradient_accumulation_steps=2, **lora())),
}
# Types that axolotl can patch, by their small configs of ../families.jsonl; of mixtures the projections of attention.
DENSE = ("apertus", "arcee", "cohere2", "cwm", "ernie4_5", "exaone4", "glm", "glm4", "granite", "helium", "hunyuan_v1_dense", "ministral", "ministral3", "mistral",
         "nanochat", "nemotron", "seed_oss", "smollm3", "vaultgemma")
MIXTURES = ("bamba", "dots1", "ernie4_5_moe", "exaone_moe", "gpt_oss", "granitemoe", "granitemoehybrid", "granitemoeshared", "hunyuan_v1_moe", "hy_v3", "jamba", "mixtral",
            "qwen2_moe", "qwen3_moe", "qwen3_next", "solar_open")
for kind in DENSE + MIXTURES:
    CASES[kind] = ("@" + kind, dict(kernels=ALL, seq_len=256, **AUTO, **lora("all-linear" if kind in DENSE else QKVO), **({"attention": "eager"} if kind == "gpt_oss" else {})))

# name, method, ranks, config, layers, rows, tokens of a row, the rest of `training`
SEVERAL = [
    ("ddp", "ddp", 4, T, 4, 2, 256, dict(precision="bf16-autocast", **lora())),
    ("ddp-ckpt-dropout", "ddp", 4, Q3, 4, 2, 256, dict(precision="bf16-autocast", **CKPT, **lora(dropout=0.1))),
    ("zero2", "zero2", 4, T, 4, 2, 256, dict(precision="bf16-mixed", **lora())),
    ("zero1-ckpt", "zero1", 2, Q3, 4, 2, 256, dict(precision="bf16-mixed", **CKPT, **lora())),
]


def stub(name, **members):
    module = types.ModuleType(name)
    module.__dict__.update(members)
    module.__path__ = []
    sys.modules[name] = module
    return module


class Quiet:
    def __getattr__(self, name):
        return lambda *args, **how: 0


def import_axolotl(source):
    stub("axolotl").__path__ = [os.path.join(source, "axolotl")]
    stub("axolotl.utils"), stub("axolotl.utils.callbacks"), stub("axolotl.monkeypatch").__path__.append(os.path.join(source, "axolotl", "monkeypatch"))
    stub("axolotl.utils.logging", get_logger=lambda name: Quiet())
    stub("axolotl.utils.dict", DictDefault=dict)
    stub("axolotl.utils.callbacks.models", get_causal_lm_model_cls_prefix=lambda kind: ("".join(part.capitalize() for part in kind.split("_")), ""))
    stub("axolotl.monkeypatch.utils", detab_code=detab)
    import triton
    triton.language.static_range = range
    from axolotl.monkeypatch import lora_kernels
    return lora_kernels


def detab(code):
    """axolotl/monkeypatch/utils.py: without the indentation of its first line"""
    import re
    spaces = re.match(r"([\s\t]{1,})", code).group(0)
    return re.sub("^" + spaces, "", code, flags=re.MULTILINE), spaces


def with_kernels(steps, source):
    """patch_manager.py: the attention class before the model is made, its parts once adapters stand"""
    build = steps.build
    steps.DEFAULTS["kernels"] = None

    def patched(config, o):
        import transformers
        patches = import_axolotl(source)
        cfg = types.SimpleNamespace(use_scattermoe=False, use_sonicmoe=False, lora_embedding_kernel=False, **{"lora_%s_kernel" % k: k in o["kernels"] for k in ALL})
        if cfg.lora_qkv_kernel or cfg.lora_o_kernel:
            name = {"gemma3_text": "gemma3"}.get(config.model_type, config.model_type)
            module = __import__("transformers.models.%s.modeling_%s" % (name, name), fromlist=["x"])
            prefix = transformers.models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[config.model_type].replace("ForCausalLM", "")
            patches.get_attention_cls_from_config = lambda cfg: getattr(module, prefix + "Attention")
            patches.patch_self_attn_lora(cfg)
        model, attention = build(config, o)
        patches.apply_lora_kernel_patches(model, cfg)
        return model, attention

    steps.build = patched


def request_of(own, o):
    precision = o["precision"].replace("mixed", "autocast") if o.get("weights_dtype") else o["precision"]
    training = {"methods": "single", "tuning": "lora", "precision": precision, "gradient_checkpointing": False, "lora": dict(o["lora"], kernels=o["kernels"])}
    if "use_reentrant" in o:
        training["checkpoint_reentrant"] = o["use_reentrant"]
    if "quantization" in o:
        training.update(tuning="qlora", quantization=o["quantization"], prepare_kbit="none")
    training.update((k, o[k]) for k in ("seq_len", "micro_batch_size", "optimizer", "attention", "gradient_checkpointing", "gradient_accumulation_steps") if k in o)
    return {"cluster": {"gpu": "A100-80GB"}, "training": training, "stack": STACK, "config": {**own, **o.get("model_config", {})}}


def trace_several(case):
    """One rank of a method; the highest of ZeRO's."""
    import make_adapters
    import tempfile
    request = make_adapters.request_of(case, sys.argv[2])
    worst = None
    for rank in range(case[2]) if case[1].startswith("zero") else [0]:
        read, write = os.pipe()
        pid = os.fork()
        if pid:
            os.close(write)
            with os.fdopen(read, "rb") as told:
                result = json.loads(told.read())
            os.waitpid(pid, 0)
            worst = result if not worst or result["peak_allocated_bytes"] > worst["peak_allocated_bytes"] else worst
            continue
        import ask
        import dist_trace
        import torch
        import transformers
        from many_gpus import models
        torch.cuda._is_in_bad_fork = lambda: False
        patches, add = import_axolotl(sys.argv[3]), models.add_lora
        cfg = types.SimpleNamespace(use_scattermoe=False, use_sonicmoe=False, lora_embedding_kernel=False, **{"lora_%s_kernel" % k: True for k in ALL})
        kind = request["config"]["model_type"]
        module = __import__("transformers.models.%s.modeling_%s" % (kind, kind), fromlist=["x"])
        prefix = transformers.models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[kind].replace("ForCausalLM", "")
        patches.get_attention_cls_from_config = lambda cfg: getattr(module, prefix + "Attention")
        patches.patch_self_attn_lora(cfg)
        models.add_lora = lambda model, lora: patches.apply_lora_kernel_patches(add(model, lora), cfg)
        training = dict(request["training"])
        if case[1].startswith("zero"):
            import deepspeed  # noqa: F401
        with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
            json.dump(request["config"], f)
            f.flush()
            o = dist_trace.resolve({**ask.for_many(request, training, []), "loop": "trainer", "breakdown": False})
            out = dist_trace.trace_rank(f.name, o, rank)
        os.write(write, json.dumps(out).encode())
        os._exit(0)
    from make_stages_dist import figures
    request["training"]["lora"]["kernels"] = ALL
    row = {"id": "lora-kernels/" + case[0], "group": "several GPUs, LoRA kernels", "body": json.dumps(request, separators=(",", ":")), **figures(worst, False)}
    print(json.dumps(row, separators=(",", ":")), flush=True)


def several():
    environment.ensure(80, 0)
    make_kernels.without_kernels()
    for case in SEVERAL:
        if not sys.argv[5:] or case[0] in sys.argv[5:]:
            trace_several(case)


def main():
    if sys.argv[4:5] == ["--several"]:
        several()
        return
    environment.ensure()
    make_kernels.without_kernels()
    from one_gpu import emulate
    emulate.install_flash_attn()
    from one_gpu import report, step
    with_kernels(step, sys.argv[3])
    for name in sys.argv[4:] or CASES:
        config, options = CASES[name]
        path = make_kernels.config_file(config)
        o = {"seq_len": 512, "micro_batch_size": 2, "optimizer": "adamw_torch_fused", "attention": "sdpa", **options}
        pid = os.fork()  # a process a case
        if pid:
            os.waitpid(pid, 0)
            continue
        import torch
        torch.cuda._is_in_bad_fork = lambda: False
        result = report.trace(path, o)
        with open(path, encoding="utf-8") as f:
            own = {k: v for k, v in json.load(f).items() if not k.startswith("_")}
        row = {"id": "lora-kernels/" + name, "group": "one GPU, LoRA kernels", "body": json.dumps(request_of(own, o), separators=(",", ":"))}
        row.update((k, result[k]) for k in make_kernels.FIGURES if k in result)
        print(json.dumps(row, separators=(",", ":")), flush=True)
        os._exit(0)


if __name__ == "__main__":
    main()
