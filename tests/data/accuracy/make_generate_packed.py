#!/usr/bin/env python3
"""Makes generate_packed.jsonl of this folder: generate() over checkpoints that are packed already, as the oracle's runtime counts it.

    PYTHONPATH=KERNELS make_generate_packed.py ORACLE [NAME..] [--beside PROGRAM]      with the oracle's own python; torch 2.15, transformers 5.23

KERNELS: a folder with the packages of kernels-community (gpt_oss_triton_kernels, finegrained_fp8) that transformers would get from the hub. Their host code allocates; of what it
launches nothing runs. A checkpoint has all names and shapes and no content; it goes through from_pretrained(), one tensor after the other: threads that read
ahead (HF_DEACTIVATE_ASYNC_LOAD) bring as much early as chance has it.
"""
import argparse
import importlib
import json
import os
import sys
import tempfile
from types import ModuleType

import make_generate_types as types

HERE = os.path.dirname(os.path.abspath(__file__))
GPUS = {"A100-80GB": ("80", "108", "2048", "32"), "H100": ("90", "132", "2048", "32"), "RTX 4090": ("89", "128", "1536", "24"), "T4": ("75", "40", "1024", "16"),
        "B200": ("100", "148", "2048", "32")}
OSS = {"model_type": "gpt_oss", "vocab_size": 1000, "hidden_size": 256, "intermediate_size": 384, "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 2,
       "head_dim": 64, "bos_token_id": 1, "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": 16, "max_position_embeddings": 4096,
       "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}}
WIDE = {"hidden_size": 1024, "intermediate_size": 1440, "num_local_experts": 32, "num_experts_per_tok": 4, "num_attention_heads": 16}

FP8 = {"quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}}
QWEN = {"model_type": "qwen3_moe", "vocab_size": 3000, "hidden_size": 768, "intermediate_size": 1536, "moe_intermediate_size": 384, "num_hidden_layers": 3, "num_attention_heads": 8,
        "num_key_value_heads": 2, "head_dim": 128, "num_experts": 32, "num_experts_per_tok": 4, "norm_topk_prob": True, "max_position_embeddings": 4096, **FP8}
DEEPSEEK = {"model_type": "deepseek_v3", "vocab_size": 3000, "hidden_size": 1024, "intermediate_size": 2304, "moe_intermediate_size": 256, "num_hidden_layers": 3, "num_attention_heads": 8,
            "num_key_value_heads": 8, "kv_lora_rank": 256, "q_lora_rank": 384, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "first_k_dense_replace": 1, "n_routed_experts": 16,
            "n_shared_experts": 1, "num_experts_per_tok": 4, "n_group": 4, "topk_group": 2, "norm_topk_prob": True, "max_position_embeddings": 4096, **FP8}
DENSE = {"model_type": "qwen2", "vocab_size": 3000, "hidden_size": 896, "intermediate_size": 2432, "num_hidden_layers": 3, "num_attention_heads": 14, "num_key_value_heads": 2,
         "max_position_embeddings": 4096, **FP8}
NARROW = {"hidden_size": 640, "moe_intermediate_size": 128, "num_experts": 20}

CASES = [  # name, config, over it, GPU, what is asked
    ("mxfp4-a100", OSS, {}, "A100-80GB", {"weights": "mxfp4", "attention": "eager"}),
    ("mxfp4-a100-wide", OSS, WIDE, "A100-80GB", {"weights": "mxfp4", "attention": "eager", "prompt": 700, "batch": 1}),
    ("mxfp4-a100-decode", OSS, WIDE, "A100-80GB", {"weights": "mxfp4", "attention": "eager", "prompt": 3, "batch": 1, "new": 40}),
    ("mxfp4-a100-batch", OSS, WIDE, "A100-80GB", {"weights": "mxfp4", "attention": "eager", "prompt": 37, "batch": 16}),
    ("mxfp4-h100", OSS, {}, "H100", {"weights": "mxfp4", "attention": "eager"}),
    ("mxfp4-h100-wide", OSS, WIDE, "H100", {"weights": "mxfp4", "attention": "eager", "prompt": 700, "batch": 1}),
    ("mxfp4-4090", OSS, WIDE, "RTX 4090", {"weights": "mxfp4", "attention": "eager", "prompt": 300}),
    ("mxfp4-t4", OSS, {**WIDE, "torch_dtype": "float16"}, "T4", {"weights": "mxfp4", "attention": "eager", "prompt": 300}),
    ("mxfp4-b200", OSS, {**WIDE, "hidden_size": 1056}, "B200", {"weights": "mxfp4", "attention": "eager", "prompt": 300}),
    ("fp8-h100-qwen2", DENSE, {}, "H100", {"weights": "fp8"}),
    ("fp8-h100-qwen2-long", DENSE, {}, "H100", {"weights": "fp8", "batch": 1, "prompt": 1500, "new": 3}),
    ("fp8-h100-qwen3_moe", QWEN, {}, "H100", {"weights": "fp8"}),
    ("fp8-h100-qwen3_moe-long", QWEN, {}, "H100", {"weights": "fp8", "batch": 1, "prompt": 1500, "new": 3}),
    ("fp8-h100-qwen3_moe-batch", QWEN, {}, "H100", {"weights": "fp8", "batch": 16, "prompt": 3, "new": 40, "attention": "eager"}),
    ("fp8-h100-qwen3_moe-narrow", QWEN, NARROW, "H100", {"weights": "fp8"}),
    ("fp8-h100-deepseek_v3", DEEPSEEK, {}, "H100", {"weights": "fp8"}),
    ("fp8-h100-deepseek_v3-decode", DEEPSEEK, {}, "H100", {"weights": "fp8", "batch": 4, "prompt": 5, "new": 40}),
    ("mxfp4-bf16-a100", OSS, WIDE, "A100-80GB", {"weights": "bf16", "attention": "eager", "prompt": 300}),
]


def stand_for_triton(capability):
    from triton.runtime import driver
    from triton.runtime.jit import JITFunction

    class Target:
        backend, arch, warp_size = "cuda", int(capability), 32

    class Active:
        def get_current_target(self):
            return Target

        def get_active_torch_device(self):
            import torch
            return torch.device("cuda", 0)

        def get_current_device(self):
            return 0

        def get_current_stream(self, device=0):
            return 0

    from triton.runtime.autotuner import Autotuner

    driver.set_active(Active())
    Autotuner.run = lambda self, *args, **kwargs: None
    JITFunction.run = lambda self, *args, **kwargs: None


def stand_for_hub(installed):
    import transformers.integrations.hub_kernels as hub
    import transformers.quantizers.quantizer_mxfp4 as quantizer
    hub.get_kernel = lambda name, **of: importlib.import_module(name.split("/")[-1].replace("-", "_"))
    quantizer.is_kernels_available = lambda *of: installed
    import transformers.integrations.mxfp4 as mxfp4
    if hasattr(mxfp4, "get_kernel"):
        mxfp4.get_kernel = hub.get_kernel


def packed(model):
    """As the checkpoint has them: names, shapes and dtypes of a model on the meta device."""
    import torch
    tensors = {}
    for name, t in model.state_dict().items():
        if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            n, along, across = t.shape
            tensors[name + "_blocks"] = torch.empty((n, across, along // 32, 16), dtype=torch.uint8, device="meta")
            tensors[name + "_scales"] = torch.empty((n, across, along // 32), dtype=torch.uint8, device="meta")
        else:
            tensors[name] = t
    return tensors


class Holes:
    def __init__(self, tensors):
        self.tensors = tensors

    def state_dict(self):
        return self.tensors

    def named_parameters(self, remove_duplicate=True):
        return []


def stand_for_fp8():
    """As on a GPU without a build of DeepGEMM, or a machine without nvcc."""
    import torch
    import transformers.integrations.finegrained_fp8 as fp8
    written = ModuleType("finegrained_fp8._ops")  # by the packages' build
    written.ops, written.add_op_namespace_prefix = torch.ops.finegrained_fp8, "finegrained_fp8::{}".format
    sys.modules[written.__name__] = written
    fp8.is_kernels_available = lambda *of: True
    fp8.lazy_load_kernel = lambda name: importlib.import_module(name.replace("-", "_"))


def load_fp8(asked, path):
    """Experts as the model itself has them: a checkpoint has one tensor each, which are put together while they load."""
    import torch
    from one_gpu import step
    from transformers import AutoModelForCausalLM, FineGrainedFP8Config
    from transformers.integrations.finegrained_fp8 import replace_with_fp8_linear
    stand_for_triton(os.environ["NULLCUDA_CC"])
    stand_for_fp8()
    config, dtype = step.load_config(path, {}), getattr(torch, asked["config"]["torch_dtype"])
    model, used = step.model_on_meta(config, dtype, asked["attention"])
    with tempfile.TemporaryDirectory() as folder:
        step.checkpoint_of_holes(replace_with_fp8_linear(model, ["lm_head"], FineGrainedFP8Config(weight_block_size=(128, 128))), folder, 10 << 30)
        config.quantization_config = asked["config"]["quantization_config"]
        config.save_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(folder, device_map={"": 0}, attn_implementation=used, dtype=dtype)
    load.peak = 0
    return model, used


def load(asked, path):
    """In the place of make_generate_types' own."""
    if asked["weights"] == "fp8":
        return load_fp8(asked, path)
    import torch
    from one_gpu import step
    from transformers import AutoModelForCausalLM
    os.environ["HF_DEACTIVATE_ASYNC_LOAD"] = "1"
    stand_for_triton(os.environ["NULLCUDA_CC"])
    stand_for_hub(asked["weights"] == "mxfp4")
    config = step.load_config(path, {})  # without its quantization_config
    dtype = getattr(torch, asked["config"]["torch_dtype"])
    model, used = step.model_on_meta(config, dtype, asked["attention"])
    with tempfile.TemporaryDirectory() as folder:
        step.checkpoint_of_holes(Holes(packed(model)), folder, 10 << 30)
        config.quantization_config = asked["config"]["quantization_config"]
        config.save_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(folder, device_map={"": 0}, attn_implementation=used, dtype=dtype)
    load.peak = torch.cuda.max_memory_allocated()
    return model, used


def one(name):
    _, config, over, gpu, asked = next(c for c in CASES if c[0] == name)
    asked = {**types.BASE, **asked}
    types.load = load
    figures, used = types.trace({**config, **over}, asked)
    if load.peak:
        figures["loading_bytes"] = load.peak
    figures["peak_allocated_bytes"] = max(figures["peak_allocated_bytes"], load.peak)
    return figures, used


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("oracle"), a.add_argument("names", nargs="*"), a.add_argument("--beside"), a.add_argument("--one")
    a = a.parse_args()
    sys.path.insert(0, a.oracle)
    if a.one:
        gpu = GPUS[next(c for c in CASES if c[0] == a.one)[3]]
        os.environ.update(zip(("NULLCUDA_CC", "NULLCUDA_SMS", "NULLCUDA_TPM", "NULLCUDA_BPM"), gpu), PYTHONHASHSEED="0")
        import environment
        environment.ensure(int(gpu[0]))
        from one_gpu import emulate
        emulate.install_flash_attn()
        import torch
        torch.cuda.init()
        environment.without_cudnn_attention()
        print(json.dumps(one(a.one)))
        return
    import subprocess
    from importlib import metadata
    stack = {n: ".".join(metadata.version(n).split("+")[0].split(".")[:2]) for n in ("torch", "transformers")}
    target, rows = os.path.join(HERE, "generate_packed.jsonl"), {}
    with open(target, encoding="utf-8") as f:
        rows = {json.loads(line)["id"]: line for line in f}
    for name, config, over, gpu, asked in CASES:
        if a.names and name not in a.names:
            continue
        done = subprocess.run([sys.executable, os.path.abspath(sys.argv[0]), a.oracle, "--one", name], stdout=subprocess.PIPE, check=False)
        if done.returncode:
            print(name, "failed", file=sys.stderr)
            continue
        figures, used = json.loads(done.stdout.splitlines()[-1])
        request = types.request_of({**config, **over}, {**types.BASE, **asked}, stack, used)
        request["cluster"]["gpu"] = gpu
        if a.beside:
            types.beside(a.beside, name, "", request, {"figures": figures})
            continue
        row = {"id": "generate-packed/" + name, "group": "generation", "body": json.dumps(request, separators=(",", ":")), **figures}
        rows[row["id"]] = json.dumps(row, separators=(",", ":")) + "\n"
        print(name, figures, flush=True)
    if not a.beside:
        with open(target, "w", encoding="utf-8") as out:
            out.writelines(rows[k] for k in rows)


if __name__ == "__main__":
    main()
