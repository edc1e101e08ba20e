#!/usr/bin/env python3
"""Makes kernels.jsonl of this folder: steps with Liger's kernels, whose own host code runs in the oracle while a launch of Triton does nothing.

    make_kernels.py ORACLE CONFIGS LIGER GROUP >> kernels.jsonl

run with the oracle's Python of one of GROUPS' stacks; LIGER is a folder with that release's wheel unpacked, CONFIGS holds the config.json files.
"""
import json
import os
import sys
import tempfile

sys.path.insert(0, sys.argv[1])
sys.path.insert(0, sys.argv[3])
import environment  # noqa: E402

T, Q3, Q2 = "TinyLlama__TinyLlama-1.1B-Chat-v1.0", "Qwen__Qwen3-0.6B", "Qwen__Qwen2-0.5B"
G2, M = "google__gemma-2-2b-it", "mistralai__Mistral-7B-v0.1"
ALL = ["rope", "rms_norm", "swiglu", "fused_linear_cross_entropy"]
GATED = ["rope", "rms_norm", "geglu", "fused_linear_cross_entropy"]
ADAPTERS = dict(tuning="lora", lora={"rank": 8, "dtype": "fp32"})
CASES = {
    "flce": (T, dict(liger=ALL[3:])),
    "ce": (T, dict(liger=["cross_entropy"])),
    "rope": (T, dict(liger=["rope"])),
    "rms": (T, dict(liger=["rms_norm"])),
    "swiglu": (T, dict(liger=["swiglu"])),
    "all": (T, dict(liger=ALL)),
    "all-ckpt": (T, dict(liger=ALL, gradient_checkpointing=True)),
    "all-mixed": (T, dict(liger=ALL, precision="bf16-mixed")),
    "all-fp16-lora": (T, dict(liger=ALL, precision="fp16-mixed", weights_dtype="fp16", **ADAPTERS)),
    "all-autocast-lora-ckpt": (Q3, dict(liger=ALL, precision="bf16-mixed", weights_dtype="bf16", gradient_checkpointing=True, **ADAPTERS)),
    "ce-mixed": (Q3, dict(liger=["rope", "rms_norm", "cross_entropy"], precision="bf16-mixed")),
    "tied": (Q2, dict(liger=ALL, gradient_checkpointing=True, micro_batch_size=4, seq_len=1024)),
    "tied-fp32": (Q2, dict(liger=ALL, precision="fp32")),
    "gemma2": (G2, dict(liger=["rope", "rms_norm", "geglu", "fused_linear_cross_entropy"], attention="eager", gradient_checkpointing=True)),
    "gemma2-ce": (G2, dict(liger=["rms_norm", "geglu", "cross_entropy"], attention="eager", seq_len=256)),
    "acc": (T, dict(liger=ALL, gradient_accumulation_steps=2, precision="bf16-mixed")),
    "gemma": ("google__gemma-2b", dict(liger=GATED)),
    "gemma3": ("google__gemma-3-1b-it", dict(liger=GATED)),
    "phi3": ("microsoft__Phi-3.5-mini-instruct", dict(liger=ALL, model_config={"num_hidden_layers": 4})),
    "smollm3": ("HuggingFaceTB__SmolLM3-3B", dict(liger=ALL, model_config={"num_hidden_layers": 4, "layer_types": None, "no_rope_layers": None})),
    "granite": ("ibm-granite__granite-3.1-2b-instruct", dict(liger=ALL[:3] + ["cross_entropy"], model_config={"num_hidden_layers": 6})),
    "ministral": ("@ministral", dict(liger=ALL)),
    "ministral-ckpt": ("@ministral", dict(liger=ALL[:3] + ["cross_entropy"], gradient_checkpointing=True, precision="bf16-mixed")),
    "exaone4": ("LGAI-EXAONE__EXAONE-4.0-1.2B", dict(liger=ALL)),
    "olmo2": ("allenai__OLMo-2-1124-7B", dict(liger=ALL, model_config={"num_hidden_layers": 4})),
    "mistral-lora": (M, dict(liger=ALL, gradient_checkpointing=True, micro_batch_size=1, **ADAPTERS)),
}
SMALL = {"num_hidden_layers": 4, "vocab_size": 32000}
EXPERTS = dict(SMALL, hidden_size=1024, num_attention_heads=16, num_key_value_heads=4)
MIXTURES = {
    "mixtral": ("mistralai__Mixtral-8x7B-v0.1", dict(liger=ALL, model_config=dict(EXPERTS, intermediate_size=1792))),
    "mixtral-lora-ckpt": ("mistralai__Mixtral-8x7B-v0.1", dict(liger=ALL, gradient_checkpointing=True, precision="bf16-mixed", weights_dtype="bf16",
                                                               model_config=dict(EXPERTS, intermediate_size=1792), tuning="lora",
                                                               lora={"rank": 8, "dtype": "fp32", "target_modules": ["q_proj", "v_proj"]})),
    "mixtral-mixed": ("mistralai__Mixtral-8x7B-v0.1", dict(liger=["swiglu"], precision="bf16-mixed", model_config=dict(EXPERTS, intermediate_size=1792))),
    "qwen3_moe": ("Qwen__Qwen3-30B-A3B", dict(liger=ALL, model_config=dict(EXPERTS, num_experts=16, moe_intermediate_size=384))),
    "qwen3_moe-router": ("Qwen__Qwen3-30B-A3B", dict(liger=["swiglu", "cross_entropy"], seq_len=300, model_config=dict(
        EXPERTS, num_experts=16, moe_intermediate_size=384, output_router_logits=True))),
    "gpt_oss": ("openai__gpt-oss-120b", dict(liger=ALL, attention="eager", model_config=dict(
        SMALL, hidden_size=512, intermediate_size=512, num_local_experts=8, num_attention_heads=16, layer_types=None, pad_token_id=0, quantization_config=None))),
    "qwen3_next": ("Qwen__Qwen3-Next-80B-A3B-Instruct", dict(liger=ALL, model_config=dict(SMALL, hidden_size=1024, num_experts=16, layer_types=None))),
    "qwen3_5_text": ("@qwen3_5_text", dict(liger=ALL[1:])),
    "deepseek_v3": ("deepseek-ai__DeepSeek-V3", dict(liger=ALL, model_config=dict(
        SMALL, hidden_size=1024, intermediate_size=2048, num_attention_heads=16, num_key_value_heads=16, n_routed_experts=16, first_k_dense_replace=1,
        moe_intermediate_size=384, n_group=4, topk_group=2, quantization_config=None))),
    "falcon_h1": ("tiiuae__Falcon-H1-0.5B-Base", dict(liger=ALL, model_config=dict(SMALL))),
    "nemotron": ("@nemotron", dict(liger=ALL[3:])),
    "nemotron-mixed-ckpt": ("@nemotron", dict(liger=["cross_entropy"], precision="bf16-mixed", gradient_checkpointing=True)),
}
CASES.update(MIXTURES)
GROUPS = {
    "0.8": ({"torch": "2.15", "transformers": "5.23", "peft": "0.21", "liger": "0.8"}, [name for name in CASES if name not in MIXTURES]),
    "0.8-mixtures": ({"torch": "2.15", "transformers": "5.23", "peft": "0.21", "liger": "0.8"}, list(MIXTURES)),
    "0.6": ({"torch": "2.7", "transformers": "4.53", "peft": "0.16", "liger": "0.6"},
            ["flce", "ce", "rms", "swiglu", "all-ckpt", "all-mixed", "tied", "gemma2", "mixtral", "qwen3_moe"]),
    "0.5": ({"torch": "2.4", "transformers": "4.48", "peft": "0.13", "liger": "0.5"}, ["flce", "rms", "all-ckpt", "tied"]),
    "0.3": ({"torch": "2.4", "transformers": "4.48", "peft": "0.13", "liger": "0.3"}, ["flce", "rms", "all-ckpt", "tied"]),
}
FIGURES = ("peak_allocated_bytes", "peak_reserved_bytes", "peak_reserved_expandable_bytes", "static_bytes", "resting_bytes", "peak_phase", "phase_peaks_bytes")


class Launch:
    def __init__(self, function):
        self.__name__ = getattr(function, "__name__", "kernel")

    def __getitem__(self, grid):
        return lambda *args, **kwargs: None


def without_kernels():
    import triton
    triton.jit = lambda function=None, **how: Launch(function) if function else Launch
    triton.autotune = triton.heuristics = lambda *args, **kwargs: lambda function: function


def with_even_experts():
    """How many tiles the experts fill stands on the device: each gets as many tokens as any other."""
    import inspect
    try:
        from liger_kernel.ops import fused_moe
    except ImportError:
        return
    source = inspect.getsource(fused_moe.compute_routing_metadata)
    read = "int(expert_tile_offset[-1].item())"
    assert read in source
    exec(source.replace(read, "sum(triton.cdiv(TK // E + (e < TK % E), block_m_token) for e in range(E))"), vars(fused_moe))


def with_liger(steps):
    """The kernels go onto the model when it stands, adapters included: the Trainer's __init__."""
    build = steps.build
    steps.DEFAULTS["liger"] = None

    def patched(config, o):
        model, attention = build(config, o)
        if o["liger"]:
            from liger_kernel.transformers.monkey_patch import _apply_liger_kernel_to_instance
            names = ("rope", "rms_norm", "swiglu", "geglu", "layer_norm", "cross_entropy", "fused_linear_cross_entropy")
            _apply_liger_kernel_to_instance(model=model.get_base_model() if hasattr(model, "get_base_model") else model,
                                            **{name: name in o["liger"] for name in names})
        return model, attention

    steps.build = patched


def config_file(name):
    """@type: its small config of families.jsonl"""
    if not name.startswith("@"):
        return os.path.join(sys.argv[2], name + ".json")
    with open(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "families.jsonl"), encoding="utf-8") as f:
        config = next(c for c in (json.loads(line).get("config", {}) for line in f) if c.get("model_type") == name[1:])
    with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as f:
        json.dump(config, f)
    return f.name


def request_of(own, o, stack):
    precision = o["precision"].replace("mixed", "autocast") if o.get("weights_dtype") else o["precision"]
    training = {"methods": "single", "tuning": o.get("tuning", "full"), "precision": precision, "liger_kernels": o["liger"], "gradient_checkpointing": False}
    training.update((k, o[k]) for k in ("seq_len", "micro_batch_size", "optimizer", "attention", "gradient_checkpointing", "gradient_accumulation_steps", "lora")
                    if k in o)
    return {"cluster": {"gpu": "A100-80GB"}, "training": training, "stack": stack, "config": {**own, **o.get("model_config", {})}}


def main():
    environment.ensure()
    without_kernels()
    from one_gpu import emulate
    emulate.install_flash_attn()
    from one_gpu import report, step
    with_liger(step)
    stack, cases = GROUPS[sys.argv[4]]
    cases = sys.argv[5:] or cases
    for name in cases:
        config, options = CASES[name]
        path = config_file(config)
        o = {"seq_len": 512, "micro_batch_size": 2, "precision": "bf16", "optimizer": "adamw_torch_fused", "attention": "sdpa", **options}
        pid = os.fork()  # a process a case
        if pid:
            os.waitpid(pid, 0)
            continue
        import torch
        torch.cuda._is_in_bad_fork = lambda: False
        with_even_experts()
        result = report.trace(path, o)
        with open(path, encoding="utf-8") as f:
            own = {k: v for k, v in json.load(f).items() if not k.startswith("_")}
        row = {"id": "liger-%s/%s" % (sys.argv[4], name), "group": "one GPU, Liger",
               "body": json.dumps(request_of(own, o, stack), separators=(",", ":"))}
        row.update((k, result[k]) for k in FIGURES if k in result)
        print(json.dumps(row, separators=(",", ":")), flush=True)
        os._exit(0)


if __name__ == "__main__":
    main()
