#!/usr/bin/env python3
"""Runs steps, generations and single operators on the GPU that is there, and says what the memory and the seconds really were.

    make_measured.py run ORACLE CONFIGS OUT [--part NAME..] [--seconds N]      on a machine with a GPU; a line of JSON a case in OUT/measured.jsonl
    make_measured.py rows CONFIGS MEASURED.jsonl.. > measured.jsonl            the cases of this folder
    make_measured.py attention MEASURED.jsonl.. > torch-2.11-cudnn-h100.csv   births and deaths of cuDNN's attention, for tests/data/ops
    make_measured.py attention-rates MEASURED.jsonl..                         its rows of attention_rates.csv
    make_measured.py list                                                     what there is to run

The part `drawn` is measured_drawn.py's; `--packages FOLDER` is where trl 1.16.0, liger-kernel 0.8.5, axolotl 0.19.0, torchao 0.18.0, torchtitan 0.2.0 and
schedulefree 1.4.1 lie unpacked, for it.

ORACLE holds one_gpu/step.py, which calls transformers, peft and torch in the order of the Trainer; here with real values: weights drawn, ids drawn,
masks of ones. Each case has a process of its own. `steps` and `generate` are timed one after the other; `memory`, `attention` and `compiled`
run side by side, since their seconds do not count. Nothing is downloaded: a model is made of its config.json.
"""
import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback

import measured_drawn

B, S = "micro_batch_size", "seq_len"
CKPT = dict(gradient_checkpointing=True)
LORA = dict(tuning="lora", lora={"rank": 16, "dtype": "fp32"})
ALL = dict(tuning="lora", lora={"rank": 16, "dtype": "fp32", "target_modules": "all-linear"})
MIXED = dict(precision="bf16-mixed")
BF16_LORA = dict(LORA, precision="bf16-mixed", weights_dtype="bf16")
Q3, Q317, Q2, L1, L3, L8 = "Qwen__Qwen3-0.6B", "Qwen__Qwen3-1.7B", "Qwen__Qwen2-0.5B", "meta-llama__Llama-3.2-1B", "meta-llama__Llama-3.2-3B", "meta-llama__Meta-Llama-3.1-8B"
M7, T1, G2, G3 = "mistralai__Mistral-7B-v0.1", "TinyLlama__TinyLlama-1.1B-Chat-v1.0", "google__gemma-2-2b-it", "google__gemma-3-1b-it"


def opts(*parts, **more):
    out = {}
    for part in parts + (more,):
        out.update(part)
    return out


def few(n, **more):
    return dict(model_config=dict(num_hidden_layers=n, **more))


PARTS = ("steps", "rates", "attention-rates", "generate", "memory", "held-out", "drawn", "events", "attention", "convolutions", "compiled")

# name: config, options of one_gpu/step.py; `cudnn`: False switches cuDNN's attention off, `profile`: kernels by name, `torch_compile`
STEPS = {
    "qwen3-0.6b": (Q3, opts(micro_batch_size=4, seq_len=1024, profile=True)),
    "qwen3-0.6b-flash": (Q3, opts(micro_batch_size=4, seq_len=1024, cudnn=False, profile=True)),
    "qwen3-0.6b-ckpt": (Q3, opts(CKPT, micro_batch_size=8, seq_len=2048)),
    "qwen3-0.6b-short": (Q3, opts(micro_batch_size=1, seq_len=256, profile=True)),
    "qwen3-0.6b-mixed": (Q3, opts(MIXED, micro_batch_size=4, seq_len=1024)),
    "qwen3-0.6b-eager": (Q3, opts(micro_batch_size=4, seq_len=1024, attention="eager")),
    "qwen3-0.6b-fused": (Q3, opts(micro_batch_size=4, seq_len=1024, optimizer="adamw_torch_fused")),
    "qwen3-1.7b-long": (Q317, opts(CKPT, micro_batch_size=1, seq_len=16384)),
    "llama-1b": (L1, opts(micro_batch_size=4, seq_len=2048, profile=True)),
    "llama-1b-ckpt": (L1, opts(CKPT, micro_batch_size=8, seq_len=2048)),
    "llama-1b-lora": (L1, opts(BF16_LORA, micro_batch_size=4, seq_len=2048, profile=True)),
    "llama-1b-liger": (L1, opts(micro_batch_size=4, seq_len=2048, loss="liger")),
    "llama-3b": (L3, opts(CKPT, micro_batch_size=2, seq_len=2048)),
    "llama-3b-8bit": (L3, opts(CKPT, profile=True, micro_batch_size=2, seq_len=2048, optimizer="adamw_bnb_8bit")),
    "llama-8b-lora": (L8, opts(LORA, CKPT, micro_batch_size=2, seq_len=4096, profile=True)),
    "llama-8b-lora-flash": (L8, opts(LORA, CKPT, micro_batch_size=2, seq_len=4096, cudnn=False)),
    "llama-8b-lora-nockpt": (L8, opts(LORA, micro_batch_size=1, seq_len=2048)),
    "llama-8b-lora-long": (L8, opts(LORA, CKPT, micro_batch_size=1, seq_len=16384)),
    "llama-8b-qlora": (L8, opts(tuning="qlora", quantization="nf4-dq", precision="bf16-mixed", weights_dtype="bf16", lora={"rank": 16, "dtype": "fp32"}, gradient_checkpointing=True, micro_batch_size=2, seq_len=2048, profile=True)),
    "llama-8b-qlora-short": (L8, opts(tuning="qlora", quantization="nf4", precision="bf16-mixed", weights_dtype="bf16", lora={"rank": 16, "dtype": "fp32"}, gradient_checkpointing=True, profile=True, micro_batch_size=1, seq_len=512)),
    "llama-8b-full": (L8, opts(CKPT, profile=True, micro_batch_size=1, seq_len=1024, optimizer="adamw_torch_fused")),
    "mistral-7b-lora": (M7, opts(BF16_LORA, CKPT, profile=True, micro_batch_size=4, seq_len=2048)),
    "gemma-2-2b-lora": (G2, opts(LORA, CKPT, profile=True, micro_batch_size=2, seq_len=2048)),
    "gemma-3-1b": (G3, opts(CKPT, profile=True, micro_batch_size=2, seq_len=2048)),
    "olmo-1b": ("allenai__OLMo-1B-hf", opts(micro_batch_size=4, seq_len=1024)),
    "pythia-1.4b": ("EleutherAI__pythia-1.4b", opts(profile=True, micro_batch_size=4, seq_len=1024)),
    "gpt2-medium": ("openai-community__gpt2-medium", opts(MIXED, profile=True, micro_batch_size=8, seq_len=1024)),
    "opt-1.3b": ("facebook__opt-1.3b", opts(precision="fp16-mixed", micro_batch_size=4, seq_len=1024)),
    "bloomz-1b1": ("bigscience__bloomz-1b1", opts(profile=True, micro_batch_size=2, seq_len=1024)),
    "qwen3-0.6b-fp32": (Q3, opts(precision="fp32", micro_batch_size=2, seq_len=1024)),
    "qwen1.5-moe": ("Qwen__Qwen1.5-MoE-A2.7B-Chat", opts(few(8), micro_batch_size=2, seq_len=1024, profile=True)),
    "qwen3-moe-lora": ("Qwen__Qwen3-30B-A3B", opts(ALL, CKPT, **few(12), micro_batch_size=2, seq_len=2048)),
}

PLAIN = opts(micro_batch_size=2, seq_len=1024)
MEMORY = {
    "padded": (Q3, opts(PLAIN, **few(4), padded=True)),
    "no-mask": (Q3, opts(PLAIN, **few(4), attention_mask=False)),
    "odd": (Q3, opts(few(4), micro_batch_size=3, seq_len=1000)),
    "odder": (Q3, opts(few(4), micro_batch_size=3, seq_len=777)),
    "short": (Q3, opts(few(4), micro_batch_size=1, seq_len=64)),
    "many": (Q3, opts(few(4), micro_batch_size=32, seq_len=200)),
    "one": (Q3, opts(few(4), micro_batch_size=1, seq_len=4096)),
    "8k-ckpt": (Q3, opts(CKPT, **few(4), micro_batch_size=1, seq_len=8192)),
    "reentrant": (Q3, opts(PLAIN, **few(4), gradient_checkpointing=True, use_reentrant=True)),
    "accumulated": (Q3, opts(PLAIN, **few(4), gradient_accumulation_steps=3)),
    "no-clip": (Q3, opts(PLAIN, **few(4), max_grad_norm=0.0)),
    "mixed": (Q3, opts(PLAIN, MIXED, **few(4))),
    "fp16-mixed": (Q3, opts(PLAIN, **few(4), precision="fp16-mixed")),
    "fp16-lora": (Q3, opts(PLAIN, LORA, **few(4), precision="fp16-mixed", weights_dtype="fp16")),
    "tf32-off": (L1, opts(PLAIN, **few(4), precision="fp32")),
    "lora-autocast": (L1, opts(PLAIN, BF16_LORA, **few(4))),
    "lora-autocast-ckpt": (L1, opts(PLAIN, BF16_LORA, CKPT, **few(4))),
    "sgd": (L1, opts(PLAIN, **few(4), optimizer="sgd")),
    "adafactor": (L1, opts(PLAIN, **few(4), optimizer="adafactor")),
    "8bit": (L1, opts(PLAIN, **few(4), optimizer="adamw_bnb_8bit")),
    "paged-8bit": (L1, opts(PLAIN, **few(4), optimizer="paged_adamw_8bit")),
    "lion-8bit": (L1, opts(PLAIN, **few(4), optimizer="lion_8bit")),
    "nf4": (L1, opts(PLAIN, **few(4), tuning="qlora", quantization="nf4", precision="bf16-mixed", weights_dtype="bf16")),
    "nf4-bf16": (L1, opts(PLAIN, CKPT, **few(4), tuning="qlora", quantization="nf4-dq", prepare_kbit=False)),
    "int8": (L1, opts(PLAIN, **few(4), tuning="qlora", quantization="int8", precision="bf16-mixed", weights_dtype="bf16")),
    "liger": (L1, opts(PLAIN, **few(4), loss="liger")),
    "chunked": (L1, opts(PLAIN, **few(4), loss="chunked")),
    "qwen2-14-heads": (Q2, opts(PLAIN, **few(6))),
    "qwen2-14-heads-ckpt": (Q2, opts(PLAIN, CKPT, **few(6))),
    "llama-2": ("meta-llama__Llama-2-7b-hf", opts(PLAIN, LORA, **few(4))),
    "llama-8b-4": (L8, opts(PLAIN, **few(4))),
    "mistral-window": (M7, opts(LORA, CKPT, **few(4), micro_batch_size=1, seq_len=8192)),
    "gemma-2": (G2, opts(PLAIN, **few(4, layer_types=None))),
    "gemma-2-sdpa-long": (G2, opts(CKPT, **few(4, layer_types=None), micro_batch_size=1, seq_len=6000, attention="sdpa")),
    "gemma-3": (G3, opts(PLAIN, **few(6, layer_types=None))),
    "gemma-2b": ("google__gemma-2b", opts(PLAIN, LORA, **few(4))),
    "gpt2": ("openai-community__gpt2", opts(PLAIN)),
    "gpt2-eager": ("openai-community__gpt2", opts(PLAIN, attention="eager")),
    "pythia-160m": ("EleutherAI__pythia-160m", opts(PLAIN)),
    "pythia-160m-fp16": ("EleutherAI__pythia-160m", opts(PLAIN, precision="fp16-mixed")),
    "opt-350m": ("facebook__opt-350m", opts(PLAIN)),
    "opt-125m-padded": ("facebook__opt-125m", opts(PLAIN, padded=True)),
    "bloom-560m": ("bigscience__bloom-560m", opts(PLAIN, **few(6))),
    "gpt-neo-125m": ("EleutherAI__gpt-neo-125m", opts(PLAIN)),
    "codegen-350m": ("Salesforce__codegen-350M-mono", opts(PLAIN, **few(6))),
    "santacoder": ("bigcode__gpt_bigcode-santacoder", opts(PLAIN, **few(6))),
    "biogpt": ("microsoft__biogpt", opts(PLAIN, **few(6))),
    "falcon-7b": ("tiiuae__falcon-7b-native", opts(PLAIN, LORA, **few(3))),
    "phi-3.5": ("microsoft__Phi-3.5-mini-instruct", opts(PLAIN, **few(4))),
    "stablelm-3b": ("stabilityai__stablelm-3b-4e1t", opts(PLAIN, **few(4))),
    "starcoder2-7b": ("bigcode__starcoder2-7b", opts(PLAIN, ALL, **few(4))),
    "mpt-7b": ("mosaicml__mpt-7b", opts(PLAIN, LORA, **few(4))),
    "olmo-1b": ("allenai__OLMo-1B-hf", opts(PLAIN, **few(4))),
    "olmo-2-7b": ("allenai__OLMo-2-1124-7B", opts(PLAIN, ALL, **few(4))),
    "olmo-3-7b": ("allenai__Olmo-3-1025-7B", opts(PLAIN, ALL, **few(4, layer_types=None))),
    "granite-2b": ("ibm-granite__granite-3.1-2b-instruct", opts(PLAIN, **few(4))),
    "smollm3-3b": ("HuggingFaceTB__SmolLM3-3B", opts(PLAIN, **few(4, layer_types=None, no_rope_layers=None))),
    "glm-4-9b": ("THUDM__GLM-4-9B-0414", opts(PLAIN, ALL, **few(4))),
    "exaone-1.2b": ("LGAI-EXAONE__EXAONE-4.0-1.2B", opts(PLAIN, **few(4, layer_types=None))),
    "ernie-0.3b": ("baidu__ERNIE-4.5-0.3B-PT", opts(PLAIN, **few(4))),
    "helium-2b": ("kyutai__helium-1-preview-2b", opts(PLAIN, **few(4))),
    "cohere-8b": ("CohereForAI__aya-23-8B", opts(PLAIN, ALL, **few(3))),
    "mixtral": ("mistralai__Mixtral-8x7B-v0.1", opts(PLAIN, ALL, **few(2))),
    "qwen1.5-moe-4": ("Qwen__Qwen1.5-MoE-A2.7B-Chat", opts(PLAIN, **few(3))),
    "qwen3-moe-4": ("Qwen__Qwen3-30B-A3B", opts(PLAIN, ALL, **few(4))),
    "qwen3-moe-ckpt": ("Qwen__Qwen3-30B-A3B", opts(PLAIN, CKPT, **few(3))),
    "deepseek-v2": ("deepseek-ai__DeepSeek-V2", opts(ALL, **few(2, n_routed_experts=16), micro_batch_size=1, seq_len=512)),
    "ernie-moe": ("baidu__ERNIE-4.5-21B-A3B-PT", opts(PLAIN, ALL, **few(3))),
    "mamba-790m": ("state-spaces__mamba-790m-hf", opts(few(4), micro_batch_size=1, seq_len=128)),
    "falcon-h1": ("tiiuae__Falcon-H1-0.5B-Base", opts(few(4), micro_batch_size=1, seq_len=512)),
    "qwen3-next": ("Qwen__Qwen3-Next-80B-A3B-Instruct", opts(ALL, **few(4, num_experts=16, layer_types=None), micro_batch_size=1, seq_len=512)),
    "internlm-megrez": ("Infinigence__Megrez-3B-Instruct", opts(PLAIN, LORA, **few(4))),
}

# Drawn after the program that answers them stood.
HELD_OUT = {
    "qwen3-drop": (Q3, opts(PLAIN, **few(5), tuning="lora", lora={"rank": 8, "dtype": "fp32", "dropout": 0.1, "target_modules": "all-linear"}, precision="bf16-mixed", weights_dtype="bf16")),
    "qwen2-ckpt-mixed": (Q2, opts(CKPT, MIXED, **few(5), micro_batch_size=4, seq_len=640)),
    "llama-padded-ckpt": (L1, opts(PLAIN, CKPT, **few(3), padded=True)),
    "llama-2-nf4": ("meta-llama__Llama-2-7b-hf", opts(CKPT, **few(3), micro_batch_size=3, seq_len=900, tuning="qlora", quantization="nf4", precision="bf16-mixed", weights_dtype="bf16")),
    "mistral-int8": (M7, opts(PLAIN, CKPT, **few(3), tuning="qlora", quantization="int8", precision="bf16-mixed", weights_dtype="bf16")),
    "gemma-7b": ("google__gemma-7b", opts(PLAIN, LORA, CKPT, **few(3))),
    "gemma-2-9b": ("google__gemma-2-9b", opts(PLAIN, ALL, **few(4, layer_types=None))),
    "gemma-3-12b": ("google__gemma-3-12b-it__text_config", opts(ALL, CKPT, **few(6, layer_types=None), micro_batch_size=1, seq_len=2500)),
    "qwen2.5-7b": ("Qwen__Qwen2.5-7B", opts(PLAIN, **few(2), optimizer="adafactor")),
    "qwen2.5-7b-lora": ("Qwen__Qwen2.5-7B", opts(BF16_LORA, **few(4), micro_batch_size=2, seq_len=1500)),
    "qwen3-8b-3200": ("Qwen__Qwen3-8B", opts(LORA, CKPT, **few(4), micro_batch_size=1, seq_len=3200)),
    "phi-4": ("microsoft__phi-4", opts(PLAIN, ALL, **few(3))),
    "olmo-2-full": ("allenai__OLMo-2-1124-7B", opts(PLAIN, **few(2))),
    "olmo-3-window": ("allenai__Olmo-3-1025-7B", opts(ALL, CKPT, **few(4, layer_types=None), micro_batch_size=1, seq_len=6000)),
    "starcoder2-full": ("bigcode__starcoder2-7b", opts(PLAIN, **few(2))),
    "glm-4-full": ("THUDM__GLM-4-9B-0414", opts(PLAIN, CKPT, **few(2))),
    "seed-oss": ("ByteDance-Seed__Seed-OSS-36B-Base", opts(PLAIN, ALL, **few(2))),
    "internlm-20b": ("huggyllama__llama-65b", opts(PLAIN, LORA, **few(1))),
    "mixtral-full": ("mistralai__Mixtral-8x7B-v0.1", opts(CKPT, **few(1), micro_batch_size=1, seq_len=512)),
    "minimax": ("MiniMaxAI__MiniMax-M2.7", opts(ALL, **few(2, num_local_experts=16), micro_batch_size=1, seq_len=700)),
    "glm-4.5": ("zai-org__GLM-4.5", opts(ALL, CKPT, **few(3, n_routed_experts=16), micro_batch_size=1, seq_len=700)),
    "gpt-oss": ("openai__gpt-oss-120b", opts(ALL, attention="eager", **few(2, num_local_experts=8, layer_types=None), micro_batch_size=1, seq_len=700)),
    "deepseek-v3": ("deepseek-ai__DeepSeek-V3", opts(ALL, CKPT, **few(2, n_routed_experts=16, first_k_dense_replace=1), micro_batch_size=1, seq_len=700)),
    "polyglot": ("EleutherAI__polyglot-ko-12.8b", opts(PLAIN, LORA, **few(2))),
    "bloom-7b-ckpt": ("bigscience__bloomz-7b1", opts(PLAIN, CKPT, LORA, **few(2))),
    "opt-2.7b-fp16": ("facebook__opt-2.7b", opts(PLAIN, **few(3), precision="fp16-mixed")),
    "gpt-neo-1.3b": ("EleutherAI__gpt-neo-1.3B", opts(PLAIN, **few(4))),
    "cerebras": ("cerebras__Cerebras-GPT-111M", opts(MIXED, **few(4), micro_batch_size=6, seq_len=512)),
    "minicpm3": ("openbmb__MiniCPM3-4B", opts(PLAIN, CKPT, LORA, **few(3))),
    "xglm": ("facebook__xglm-564M", opts(PLAIN, **few(4))),
    "lion-ckpt": (T1, opts(PLAIN, CKPT, **few(4), optimizer="lion_8bit")),
    "sgd-accumulated": (T1, opts(PLAIN, **few(4), optimizer="sgd", gradient_accumulation_steps=2)),
    "loop": (T1, opts(PLAIN, **few(4), optimizer="adamw_torch_loop")),
    "fp16-pure": (T1, opts(PLAIN, **few(4), precision="fp16")),
}
# What was off in the first run, birth by birth, with cuDNN's attention and without.
PUZZLES = ("odd", "many", "qwen2-14-heads", "gemma-3", "gpt2", "pythia-160m", "opt-125m-padded", "gpt-neo-125m", "falcon-h1", "liger", "tf32-off", "8bit")

# Whose words or types of transformers 5.17 no request has.
UNTOLD = ("held-out/minimax", "held-out/loop", "memory/falcon-7b", "memory/deepseek-v2")

CUDNN = 3   # of SDPBackend

# model, prompts, tokens of a prompt, new tokens
GENERATE = {
    "qwen3-0.6b": (Q3, 1, 2048, 100),
    "qwen3-0.6b-b16": (Q3, 16, 512, 64),
    "llama-1b": (L1, 8, 1024, 64),
    "llama-8b": (L8, 1, 2048, 64),
    "llama-8b-b8": (L8, 8, 1000, 48),
    "gemma-2-2b": (G2, 2, 1024, 48),
}

COMPILED = {
    "qwen3": (Q3, opts(PLAIN, **few(4), torch_compile=True)),
    "llama-ckpt": (L1, opts(PLAIN, CKPT, **few(4), torch_compile=True)),
    "llama-lora-mixed": (L1, opts(PLAIN, BF16_LORA, **few(4), torch_compile=True)),
    "gpt2-mixed": ("openai-community__gpt2", opts(PLAIN, MIXED, **few(4), torch_compile=True)),
}


def attention_grid():
    """batch, heads, kv heads, tokens, width, kind (causal, full, padded, additive), dtype, dropout, layout"""
    base = dict(b=2, h=32, kv=8, s=1024, d=128, kind="causal", dtype="bf16", dropout=0.0, repeat=False)
    rows = [base]
    for key, values in dict(b=(1, 3, 8, 32), s=(64, 100, 128, 200, 256, 511, 512, 777, 1000, 2048, 3000, 4096, 6000, 8192, 16384), d=(64, 72, 80, 96, 112, 160, 192, 256),
                            kind=("full", "padded", "additive"), dtype=("fp16",), dropout=(0.1,), repeat=(True,)).items():
        rows += [dict(base, **{key: v}) for v in values]
    for h, kv in ((32, 32), (16, 8), (14, 2), (8, 4), (12, 12), (25, 25), (71, 1), (40, 8), (64, 8)):
        rows += [dict(base, h=h, kv=kv), dict(base, h=h, kv=kv, d=64), dict(base, h=h, kv=kv, s=777)]
    for d in (64, 80, 96, 256):
        for s in (128, 777, 2048, 4096):
            rows += [dict(base, d=d, s=s, h=16, kv=16, b=1), dict(base, d=d, s=s, h=16, kv=4, b=4)]
    for kind in ("full", "padded", "additive"):
        rows += [dict(base, kind=kind, s=s, d=d) for s in (200, 777, 2048) for d in (64, 128)]
    return rows


# ---------------------------------------------------------------------------------------------------------------- real values
def fill(torch, model):
    for name, p in model.named_parameters():
        if p.is_floating_point() and p.dtype.itemsize > 1:
            with torch.no_grad():
                p.normal_(0, 0.02) if p.dim() > 1 else p.fill_(0.0 if "bias" in name else 1.0)
    seen = list(model.named_buffers())
    for module in model.modules():
        seen += [(n, v) for n, v in vars(module).items() if isinstance(v, torch.Tensor)]
    for name, b in seen:
        b.fill_(0.01) if name.endswith("inv_freq") else b.zero_()


def with_values(torch, step):
    materialise = step.materialise

    def made(model, device="cuda"):
        fill(torch, materialise(model, device))
        return model

    def make_batch(config, o):
        text = config.get_text_config() if hasattr(config, "get_text_config") else config
        shape = (o[B], o[S])
        batch = {"input_ids": torch.randint(1, text.vocab_size - 1, shape, device="cuda")}
        if o["attention_mask"]:
            batch["attention_mask"] = torch.ones(shape, dtype=torch.int64, device="cuda")
            if o["padded"]:
                batch["attention_mask"][:, o[S] - o["pad_per_row"]:] = 0
        batch["labels"] = torch.randint(1, text.vocab_size - 1, shape, device="cuda")
        return batch

    step.materialise, step.make_batch = made, make_batch


class Peaks:
    """The highest of each phase; reading and starting anew moves nothing."""

    def __init__(self, torch):
        self.torch, self.at, self.of, self.reserved, self.active = torch, None, {}, 0, 0

    def take(self):
        stats = self.torch.cuda.memory_stats()
        self.reserved = max(self.reserved, stats.get("reserved_bytes.all.peak", 0))
        if self.at:
            self.of[self.at] = max(self.of.get(self.at, 0), stats.get("allocated_bytes.all.peak", 0))
            self.active = max(self.active, stats.get("active_bytes.all.peak", 0))
        self.torch.cuda.reset_peak_memory_stats()

    def phase(self, name):
        self.take()
        self.at = None if name in ("init", "optimizer_init") else name


def kernels(torch, run):
    from torch.profiler import ProfilerActivity, profile
    run.step()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as p:
        run.step()
        torch.cuda.synchronize()
    rows = {}
    for e in p.events():
        if e.device_type == torch.autograd.DeviceType.CUDA:
            n, us = rows.get(e.name, (0, 0.0))
            rows[e.name] = (n + 1, us + e.device_time)
    rows = sorted(((name[:150], n, round(us, 1)) for name, (n, us) in rows.items()), key=lambda r: -r[2])
    return {"launches": sum(r[1] for r in rows), "us": round(sum(r[2] for r in rows), 1), "top": rows[:70]}


def chosen(torch, run):
    """Which kernel torch takes for attention, of one further step: number of SDPBackend, shapes, mask."""
    import torch.nn.functional as F
    real, seen = F.scaled_dot_product_attention, {}

    def wrapped(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        which = torch._fused_sdp_choice(q, k, v, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
        key = json.dumps([which, list(q.shape), list(k.shape), str(q.dtype), None if attn_mask is None else [str(attn_mask.dtype), list(attn_mask.shape)], is_causal, enable_gqa])
        seen[key] = seen.get(key, 0) + 1
        return real(q, k, v, attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa)
    F.scaled_dot_product_attention = wrapped
    try:
        run.step()
    finally:
        F.scaled_dot_product_attention = real
    return [json.loads(k) + [n] for k, n in seen.items()][:6]


def outside(torch):
    """What the device has given away beside the allocator's segments."""
    free, total = torch.cuda.mem_get_info()
    return total - free - torch.cuda.memory_reserved()


def tape(torch, run, out):
    """Births and deaths of two steps, each with the frame that asked; where phases begin, in births so far."""
    memory, marks = torch.cuda.memory, []
    first = torch.cuda.memory_stats()["allocation.all.allocated"]
    run.phase = lambda name: marks.append((name, torch.cuda.memory_stats()["allocation.all.allocated"] - first))
    memory._record_memory_history(enabled="all", context="alloc", stacks="python", max_entries=1000000)
    run.step()
    run.step()
    torch.cuda.synchronize()
    trace = memory._snapshot()["device_traces"][0]
    memory._record_memory_history(enabled=None)
    events, ids = [], {}
    for e in trace:
        if e["action"] == "alloc":
            ids[e["addr"]] = len(events)
            events.append(["+", e["size"], " < ".join("%s:%d" % (os.path.basename(f["filename"]), f["line"]) for f in e.get("frames", [])[:3])])
        elif e["action"] == "free_completed":
            events.append(["-", e["size"], ids.get(e["addr"], -1)])
        elif e["action"].startswith("segment"):
            events.append([e["action"], e["size"], 0])
    out["marks"], out["events"] = marks, events
    return out


def one_step(torch, config, options, timed, events=False, packages=None):
    from one_gpu import step
    with_values(torch, step)
    o = dict(options)
    if packages:
        o = measured_drawn.switch(step, o, os.path.dirname(os.path.dirname(os.path.abspath(step.__file__))), packages, True)
    cudnn, profiled, compiled = o.pop("cudnn", True), o.pop("profile", False), o.pop("torch_compile", False)
    torch.backends.cuda.enable_cudnn_sdp(cudnn)
    if o.get("loss") == "liger":
        def liger(model, batch, fp32):
            from liger_kernel.transformers.model.loss_utils import LigerForCausalLMLoss
            inner = model.get_base_model() if hasattr(model, "get_base_model") else model
            labels = batch.pop("labels")
            hidden = inner.model(**batch)[0]
            return LigerForCausalLMLoss(hidden_states=hidden, lm_head_weight=inner.lm_head.weight, labels=labels, hidden_size=inner.config.hidden_size)
        from one_gpu import emulate
        emulate.liger_loss = liger
    torch.cuda.init()
    began = outside(torch)
    peaks = Peaks(torch)
    full = step.options_of(o)
    run = step.Run(config, full, peaks.phase)
    if compiled:
        run.model = torch.compile(run.model)
    peaks.phase("start")
    out = {"static_bytes": torch.cuda.memory_allocated(), "resting_bytes": [], "total_bytes": torch.cuda.mem_get_info()[1]}
    if events:
        return tape(torch, run, out)
    steps = 4 if full["precision"] == "fp16-mixed" or compiled else 2
    t = time.time()
    for i in range(steps):
        if compiled and i == 2:     # the steps before compiled
            peaks.take()
            out["first_steps"] = {"peak_allocated_bytes": max(peaks.of.values()), "phases": dict(peaks.of), "peak_reserved_bytes": peaks.reserved}
            peaks.of, peaks.reserved = {}, 0
        run.step()
        out["resting_bytes"].append(torch.cuda.memory_allocated())
    peaks.take()
    out["first_s"] = round(time.time() - t, 2)
    out["phase_peaks_bytes"] = peaks.of
    out["peak_allocated_bytes"] = max(peaks.of.values())
    out["peak_active_bytes"] = peaks.active
    out["peak_reserved_bytes"] = peaks.reserved
    out["retries"] = torch.cuda.memory_stats()["num_alloc_retries"]
    out["outside_bytes"] = [began, outside(torch)]
    run.phase = lambda name: None
    if timed or compiled:
        run.step()
        torch.cuda.synchronize()
        t = time.time()
        run.step()
        torch.cuda.synchronize()
        n = max(3, min(20, int(1.5 / (time.time() - t))))
        t = time.time()
        for _ in range(n):
            run.step()
        torch.cuda.synchronize()
        out["step_s"], out["timed_steps"] = (time.time() - t) / n, n
        t = time.time()
        for _ in range(n):      # with a look at the loss each step, as a progress bar has
            run.step()
            run.total.item()
        out["read_step_s"] = (time.time() - t) / n
    if full["attention"] == "sdpa" and not compiled:
        out["sdpa"] = chosen(torch, run)
    out["loss"] = float(run.loss_step)
    if profiled:
        out["kernels"] = kernels(torch, run)
    return out


def one_generation(torch, config, rows, prompt, new):
    import transformers
    from one_gpu import step
    c = step.load_config(config, {})
    model, attention = step.model_on_meta(c, torch.bfloat16, "sdpa")
    fill(torch, step.materialise(model))
    model.eval()
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    out = {"static_bytes": torch.cuda.memory_allocated(), "attention": attention}
    ids = torch.randint(1, c.vocab_size - 1, (rows, prompt), device="cuda")
    mask = torch.ones_like(ids)
    how = dict(input_ids=ids, attention_mask=mask, do_sample=False)

    def go(n):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        t = time.time()
        with torch.no_grad():
            model.generate(max_new_tokens=n, min_new_tokens=n, **how)
        torch.cuda.synchronize()
        return time.time() - t, torch.cuda.max_memory_allocated()
    out["first_peak_bytes"] = go(new)[1]
    out["peak_reserved_bytes"] = torch.cuda.memory_reserved()
    runs = [(go(1), go(new)) for _ in range(3)]
    out["one_token_s"] = sorted(r[0][0] for r in runs)[1]
    out["all_tokens_s"] = sorted(r[1][0] for r in runs)[1]
    out["prompt_peak_bytes"], out["peak_allocated_bytes"] = runs[0][0][1], runs[0][1][1]
    out["outside_bytes"] = outside(torch)
    out["cache"] = str(transformers.__version__)
    return out


def recorded(torch, call):
    """What call() returns, and the births and deaths of the allocator meanwhile."""
    memory = torch.cuda.memory
    memory._record_memory_history(enabled="all", context=None, stacks="python", max_entries=10000)
    value = call()
    torch.cuda.synchronize()
    trace = memory._snapshot()["device_traces"][0]
    memory._record_memory_history(enabled=None)
    return value, [("+" if e["action"] == "alloc" else "-") + str(e["size"]) for e in trace if e["action"] in ("alloc", "free_completed")]


def timed(torch, call, n, warm=0, digits=1):
    """Microseconds of a call, of n one after the other."""
    for _ in range(warm):
        call()
    torch.cuda.synchronize()
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    a.record()
    for _ in range(n):
        call()
    b.record()
    torch.cuda.synchronize()
    return round(a.elapsed_time(b) * 1000 / n, digits)


def one_attention(torch, rows):
    """What forward and backward of scaled_dot_product_attention take of the allocator, one by one, with cuDNN's kernel and without it; and how long."""
    import torch.nn.functional as F
    out = []
    for row in rows:
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[row["dtype"]]
        b, h, kv, s, d = (row[k] for k in "b h kv s d".split())
        if row["repeat"]:
            kv = h
        q, k, v = (torch.randn(b, s, n, d, dtype=dtype, device="cuda").transpose(1, 2).requires_grad_() for n in (h, kv, kv))
        mask = None
        if row["kind"] == "padded":
            mask = torch.ones(b, 1, s, s, dtype=torch.bool, device="cuda").tril()
            mask[..., -1] = False
            mask[..., 0] = True
        elif row["kind"] == "additive":
            mask = torch.zeros(b, 1, s, s, dtype=dtype, device="cuda")
        how = dict(attn_mask=mask, dropout_p=row["dropout"], is_causal=row["kind"] == "causal", enable_gqa=kv != h)
        g = torch.randn(b, s, h, d, dtype=dtype, device="cuda").transpose(1, 2)
        result = dict(row)
        for name, cudnn in (("cudnn", True), ("other", False)):
            torch.backends.cuda.enable_cudnn_sdp(cudnn)
            try:
                which = torch._fused_sdp_choice(q, k, v, mask, row["dropout"], how["is_causal"], enable_gqa=how["enable_gqa"])
                F.scaled_dot_product_attention(q, k, v, **how).backward(g)
                q.grad = k.grad = v.grad = None
                o, forward = recorded(torch, lambda: F.scaled_dot_product_attention(q, k, v, **how))
                grads, backward = recorded(torch, lambda: torch.autograd.grad(o, (q, k, v), g))
                layout = [list(o.stride())] + [list(x.stride()) for x in grads]
                del o, grads
                f = timed(torch, lambda: F.scaled_dot_product_attention(q, k, v, **how), 5)
                both = timed(torch, lambda: torch.autograd.grad(F.scaled_dot_product_attention(q, k, v, **how), (q, k, v), g), 5)
                result[name] = {"which": which, "forward": forward, "backward": backward, "strides": layout, "forward_us": f, "both_us": both}
            except Exception as error:
                result[name] = {"error": str(error)[:200]}
        out.append(result)
        del q, k, v, g, mask
    return out


def one_attention_rate(torch):
    """Microseconds of attention alone, forward and both, by kernel; the GPU is otherwise idle."""
    import torch.nn.functional as F
    out = []
    for d in (64, 128, 96, 256):
        for s in (512, 1024, 2048, 4096, 8192, 16384, 32768):
            if d in (96, 256) and s not in (1024, 4096, 16384):
                continue
            b, h, kv = max(1, 8192 // s), 32, 8
            q, k, v = (torch.randn(b, s, n, d, dtype=torch.bfloat16, device="cuda").transpose(1, 2).requires_grad_() for n in (h, kv, kv))
            g = torch.randn(b, s, h, d, dtype=torch.bfloat16, device="cuda").transpose(1, 2)
            row = {"b": b, "h": h, "kv": kv, "s": s, "d": d}
            for name, cudnn in (("cudnn", True), ("flash", False)):
                torch.backends.cuda.enable_cudnn_sdp(cudnn)
                call = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
                n = 3 if s >= 16384 else 10
                with torch.no_grad():
                    f = timed(torch, call, n, warm=1)
                row[name] = [f, timed(torch, lambda: torch.autograd.grad(call(), (q, k, v), g), n, warm=1)]
            out.append(row)
    torch.backends.cuda.enable_cudnn_sdp(True)
    looked, held = [], {}
    for b, h, kv, s, sk, d, dv, causal in ((2, 32, 8, 1024, 1024, 128, 128, True), (2, 32, 8, 1, 777, 128, 128, False), (2, 32, 8, 1, 2048, 64, 64, False), (1, 16, 16, 1, 300, 256, 256, False),
                                           (2, 16, 16, 512, 512, 192, 128, True), (2, 16, 4, 512, 512, 192, 128, True), (2, 8, 8, 300, 700, 128, 128, False), (2, 8, 2, 300, 700, 64, 64, True),
                                           (2, 8, 8, 700, 300, 128, 64, False), (16, 32, 8, 1, 513, 128, 128, False)):
        for grad in (False, True):
            q, k, v = (torch.randn(b, m, n, w, dtype=torch.bfloat16, device="cuda").transpose(1, 2).requires_grad_(grad) for m, n, w in ((s, h, d), (sk, kv, d), (sk, kv, dv)))
            row = {"b": b, "h": h, "kv": kv, "s": s, "sk": sk, "d": d, "dv": dv, "causal": causal, "grad": grad}
            try:
                row["which"] = torch._fused_sdp_choice(q, k, v, None, 0.0, causal, enable_gqa=kv != h)

                def once():     # the results of before die as the new ones are bound
                    held["o"] = F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=kv != h)
                    if grad:
                        held["grads"] = torch.autograd.grad(held["o"], (q, k, v), torch.ones_like(held["o"]))
                for _ in range(2):
                    row["events"] = recorded(torch, once)[1]
                row["strides"] = list(held["o"].stride())
            except Exception as error:
                row["error"] = str(error)[:200]
            looked.append(row)
            held.clear()
    return {"rates": out, "looked": looked}


def one_convolutions(torch):
    """What convolutions and Fourier transforms take of the allocator, the second time: mixers' over tokens, a spectrogram's, patches'."""
    import torch.nn.functional as F
    out = []
    shapes = [("mixer", (2, 3072, 1024), (3072, 1, 4), dict(padding=3, groups=3072)), ("mixer", (1, 1792, 777), (1792, 1, 4), dict(padding=3, groups=1792)),
              ("mixer", (4, 2048, 300), (2048, 1, 3), dict(padding=2, groups=2048)), ("mel", (2, 80, 3000), (768, 80, 3), dict(padding=1)),
              ("mel", (2, 768, 3000), (768, 768, 3), dict(padding=1, stride=2)), ("patch", (2, 3, 448, 448), (1152, 3, 14, 14), dict(stride=14)),
              ("patch", (8, 3, 224, 224), (768, 3, 16, 16), dict(stride=16)), ("frames", (512, 3, 2, 14, 14), (1280, 3, 2, 14, 14), dict(stride=(2, 14, 14)))]
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        for what, size, filters, how in shapes:
            x, w = (torch.randn(s, dtype=dtype, device="cuda", requires_grad=True) for s in (size, filters))
            call = getattr(F, "conv%dd" % (len(size) - 2))
            row = {"what": what, "dtype": str(dtype), "x": size, "w": filters, "how": {k: v for k, v in how.items()}}
            try:
                g = torch.ones_like(call(x, w, **how))
                call(x, w, **how).backward(g)
                o, row["forward"] = recorded(torch, lambda: call(x, w, **how))
                _, row["backward"] = recorded(torch, lambda: torch.autograd.grad(o, (x, w), g))
            except Exception as error:
                row["error"] = str(error)[:200]
            out.append(row)
    for n in (1024, 1000, 4096):
        x = torch.randn(8, 64, n, device="cuda")
        torch.fft.irfft(torch.fft.rfft(x))
        out.append({"what": "rfft", "x": (8, 64, n), "forward": recorded(torch, lambda: torch.fft.irfft(torch.fft.rfft(x)))[1]})
    return out


def one_rates(torch):
    """Products, and what is as fast as memory, by shape."""
    out = {"products": [], "memory": []}
    us = lambda call: timed(torch, call, 10, warm=3, digits=2)
    shapes = [(1024, 1024), (1024, 3072), (2048, 2048), (2048, 8192), (4096, 4096), (4096, 1024), (4096, 14336), (14336, 4096), (4096, 16), (16, 4096), (1024, 151936), (2048, 128256)]
    for m in (256, 1024, 2048, 4096, 8192, 16384):
        for k, n in shapes:
            if m * n > 1 << 31:
                continue
            x = torch.randn(m, k, dtype=torch.bfloat16, device="cuda")
            w = torch.randn(n, k, dtype=torch.bfloat16, device="cuda")
            g = torch.randn(m, n, dtype=torch.bfloat16, device="cuda")
            out["products"].append([m, k, n, us(lambda: torch.mm(x, w.t())), us(lambda: torch.mm(g, w)), us(lambda: torch.mm(g.t(), x))])
            del x, w, g
    for n in (1 << 16, 1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28):
        x = torch.randn(n, dtype=torch.bfloat16, device="cuda")
        y = torch.randn(n, dtype=torch.bfloat16, device="cuda")
        rows = x.view(-1, min(n, 2048))
        out["memory"].append([n, us(lambda: x + y), us(lambda: x.float()), us(lambda: torch.nn.functional.silu(x)), us(lambda: rows.float().pow(2).mean(-1)),
                              us(lambda: torch.softmax(rows, -1)), us(lambda: x.clone())])
    return out


def work(line):
    """One case, in this process."""
    job = json.loads(line)
    out = {"id": job["part"] + "/" + job["name"], "config": job["config"], "options": job["options"]}
    import torch
    try:
        config = os.path.join(job["configs"], job["config"] + ".json") if isinstance(job["config"], str) else None
        if job["part"] == "drawn":
            if not isinstance(job["config"], str):
                config = os.path.join(tempfile.mkdtemp(), "config.json")
                with open(config, "w", encoding="utf-8") as f:
                    json.dump(job["config"], f)
            out["result"] = one_step(torch, config, job["options"], False, packages=job["packages"])
        elif job["part"] == "convolutions":
            out["result"] = one_convolutions(torch)
        elif job["part"] in ("steps", "memory", "compiled", "held-out", "events"):
            out["result"] = one_step(torch, config, job["options"], job["part"] == "steps", job["part"] == "events")
        elif job["part"] == "generate":
            out["result"] = one_generation(torch, config, *job["options"])
        elif job["part"] == "attention":
            out["result"] = one_attention(torch, job["options"])
        elif job["part"] == "attention-rates":
            out["result"] = one_attention_rate(torch)
        else:
            out["result"] = one_rates(torch)
    except BaseException as error:
        out["error"] = "%s: %s" % (type(error).__name__, str(error)[:400])
        out["traceback"] = traceback.format_exc()[-1200:]
    print(json.dumps(out), flush=True)
    os._exit(0)


def worker(oracle):
    """Imports, then waits for its one case."""
    sys.path.insert(0, oracle)
    out, sys.stdout = sys.stdout, sys.stderr
    import torch  # noqa: F401
    import transformers.modeling_utils  # noqa: F401
    from transformers import AutoModelForCausalLM, Trainer  # noqa: F401
    from transformers.optimization import Adafactor  # noqa: F401
    import accelerate  # noqa: F401
    import peft  # noqa: F401
    from one_gpu import step  # noqa: F401
    sys.stdout = out
    line = sys.stdin.readline()
    if line:
        work(line)


def stack():
    import importlib.metadata as md
    import torch
    out = {n: md.version(n) for n in ("torch", "transformers", "peft", "accelerate", "bitsandbytes", "liger_kernel", "triton")
           if any(True for _ in [n]) and n in {d.metadata["Name"].replace("-", "_").lower() for d in md.distributions()} | {"torch"}}
    out.update(cudnn=torch.backends.cudnn.version(), cuda=torch.version.cuda, gpu=torch.cuda.get_device_name(), capability=torch.cuda.get_device_capability(), total_bytes=torch.cuda.mem_get_info()[1],
               cpu=[x.split(":")[1].strip() for x in open("/proc/cpuinfo") if x.startswith("model name")][:1], cores=os.cpu_count(), python=sys.version.split()[0])
    try:
        out["driver"] = subprocess.run(["nvidia-smi", "--query-gpu=driver_version,clocks.sm,clocks.mem,power.limit,memory.used", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
    except OSError:
        pass
    return out


def plain_config(config, configs):
    """A model's config, or its name in a folder; of a composite one the text's."""
    if isinstance(config, str):
        with open(os.path.join(configs, config + ".json"), encoding="utf-8") as f:
            config = json.load(f)
    return config.get("text_config", config) if "num_hidden_layers" not in config else config


def jobs(parts, configs, packages=""):
    table = dict(steps=STEPS, generate=GENERATE, memory=MEMORY, compiled=COMPILED)
    table["held-out"] = HELD_OUT
    table["events"] = dict([(n, MEMORY[n]) for n in PUZZLES] + [(n + "-flash", (MEMORY[n][0], opts(MEMORY[n][1], cudnn=False))) for n in PUZZLES[:8]])
    for part in parts:
        if part == "attention":
            grid = attention_grid()
            for i in range(4):
                yield dict(part=part, name=str(i), config="", options=grid[i::4], configs=configs)
        elif part == "drawn":
            for name, (config, options) in measured_drawn.draw().items():
                yield dict(part=part, name=name, config=plain_config(config, configs) if configs else config, options=options, configs=configs, packages=packages)
        elif part in ("rates", "attention-rates", "convolutions"):
            yield dict(part=part, name="all", config="", options={}, configs=configs)
        else:
            for name, case in table[part].items():
                options = list(case[1:]) if part == "generate" else case[1]
                yield dict(part=part, name=name, config=case[0], options=options, configs=configs)


def run(a):
    began = time.time()
    os.makedirs(a.out, exist_ok=True)
    sink = open(os.path.join(a.out, "measured.jsonl"), "a")
    log = open(os.path.join(a.out, "workers.log"), "a")
    tapes = gzip.open(os.path.join(a.out, "tapes.jsonl.gz"), "ab")
    idle = []

    def fresh():
        said = tempfile.TemporaryFile("w+")  # more than a pipe holds
        p = subprocess.Popen([sys.executable, os.path.abspath(__file__), "worker", os.path.abspath(a.oracle)], stdin=subprocess.PIPE, stdout=said, stderr=log, text=True)
        p.said = said
        idle.append(p)
    subprocess.run([sys.executable, "-c", "import sys, json; sys.path.insert(0, %r); import make_measured; print(json.dumps({'stack': make_measured.stack()}))" % os.path.dirname(os.path.abspath(__file__))], stdout=sink)
    running, todo = [], list(jobs(a.part, os.path.abspath(a.configs), a.packages))
    todo = [j for j in todo if not a.only or any(x in j["part"] + "/" + j["name"] for x in a.only)]
    for _ in range(3):
        fresh()
    serial = ("steps", "generate", "rates", "attention-rates")
    while todo or running:
        while todo and time.time() - began < a.seconds:
            wide = todo[0]["part"] not in serial
            if running and (not wide or any(j["part"] in serial for _, j, _ in running) or len(running) >= a.jobs):
                break
            job, p = todo.pop(0), idle.pop(0)
            p.stdin.write(json.dumps(job) + "\n")
            p.stdin.flush()
            running.append((p, job, time.time()))
            if len(idle) < len(todo):
                fresh()
            while todo and todo[0]["part"] not in serial and len(idle) < min(a.jobs, len(todo)):
                fresh()
        if time.time() - began >= a.seconds:
            todo = []
        for entry in list(running):
            p, job, since = entry
            limit = 150 if job["part"] in ("compiled", "attention") else 60
            late = time.time() - since > limit or time.time() - began > a.seconds + 20
            if late:
                p.kill()
            if late or p.poll() is not None:
                p.said.seek(0)
                text = p.said.read()
                running.remove(entry)
                lines = [x for x in text.splitlines() if x.startswith("{")]
                row = json.loads(lines[-1]) if lines else {"id": job["part"] + "/" + job["name"], "error": "late" if late else "died"}
                row["wall_s"] = round(time.time() - since, 2)
                if job["part"] == "events":
                    tapes.write((json.dumps(row) + "\n").encode())
                    tapes.flush()
                    row = {"id": row["id"], "wall_s": row["wall_s"], "error": row.get("error")}
                sink.write(json.dumps(row) + "\n")
                sink.flush()
                r = row.get("result")
                print("%6.1f %-32s %5.1f s  %s" % (time.time() - began, row["id"], row["wall_s"], row.get("error") or
                      " ".join("%s %s" % (k, r[k]) for k in ("peak_allocated_bytes", "peak_reserved_bytes", "step_s", "all_tokens_s") if isinstance(r, dict) and k in r)), flush=True)
        time.sleep(0.02)
    for p in idle:
        p.kill()
    tapes.close()


def request_of(config, o, stack):
    """The same in the words of a request."""
    precision = o.get("precision", "bf16")
    names = {"use_reentrant": "checkpoint_reentrant"}
    training = {"methods": "single", "tuning": o.get("tuning", "full"), "precision": precision.replace("mixed", "autocast") if o.get("weights_dtype") else precision,
                "gradient_checkpointing": False, "optimizer": "adamw_torch", "attention": "sdpa"}
    training.update((names.get(k, k), o[k]) for k in ("seq_len", "micro_batch_size", "optimizer", "attention", "gradient_checkpointing", "gradient_accumulation_steps", "padded",
                                                      "attention_mask", "use_reentrant", "max_grad_norm", "quantization") if k in o)
    if training["tuning"] != "full":
        training["lora"] = {"rank": 16, "alpha": 16, "dropout": 0.0, **o.get("lora", {"dtype": "fp32"})}
    if o.get("cudnn") is False:
        training["cudnn_attention"] = False
    training.update((to, o[k]) for k, to in (("liger", "liger_kernels"), ("word", "gradient_checkpointing"), ("offload", "offload"), ("head", "stage"), ("stage", "stage"),
                                             ("reference", "reference"), ("in_backward", "optimizer_in_backward")) if k in o)
    for k in ("peft", "kernels"):
        if k in o:
            training["lora"].update(o[k] if k == "peft" else {k: o[k]})
    if "sequences" in o:
        training.update(packing=True, lengths=[-(-o["micro_batch_size"] * o["seq_len"] // o["sequences"])])
    stack = dict(stack, **({"trl": "1.16"} if "stage" in o else {}), **({"liger": "0.8"} if "liger" in o else {}))
    if o.get("loss"):
        training["loss"] = o["loss"]
    if o.get("quantization", "none") != "none":
        training["tuning"] = "qlora"
    if training["tuning"] == "qlora":
        training["prepare_kbit"] = "none" if o.get("prepare_kbit") is False else "peft"
    own = {k: v for k, v in config.items() if not k.startswith("_") and k not in ("auto_map", "quantization_config")}
    return {"cluster": {"gpu": "H100 SXM"}, "training": training, "stack": stack, "config": {**own, **o.get("model_config", {})}}


def rows(a):
    """What one or more runs measured, as cases: the first of each name."""
    seen, stack = set(), {}
    for path in a.measured:
        for line in open(path, encoding="utf-8"):
            r = json.loads(line)
            if "stack" in r:
                stack = {k: ".".join(r["stack"][k].split(".")[:2]) for k in ("torch", "transformers", "peft")}
            m = r.get("result")
            part = r.get("id", "").split("/")[0]
            if a.speed and (part != "steps" or r["id"] == "steps/qwen3-moe-lora" or r["options"].get("quantization") or r["options"].get("loss") or "bnb" in r["options"].get("optimizer", "")):
                continue
            if part not in (("compiled",) if a.compiled else ("steps", "memory", "held-out", "drawn")) or not m or r["id"] in seen or r["id"] in UNTOLD:
                continue
            seen.add(r["id"])
            config = r["config"]
            if isinstance(config, str):
                with open(os.path.join(a.configs, config + ".json"), encoding="utf-8") as f:
                    config = json.load(f)
            body = request_of(config, r["options"], stack)
            if a.compiled:
                body["training"]["compile"] = True
                print(json.dumps({"id": "compiled/h100-" + r["id"].split("/")[1], "kind": "compiled", "body": json.dumps(body, separators=(",", ":")),
                                  "bytes": m["peak_allocated_bytes"]}, separators=(",", ":")))
                continue
            if a.speed:
                t = body["training"]
                print(json.dumps({"id": "h100-" + r["id"].split("/")[1], "use": "answer", "source": "measured-h100", "source_ref": "make_measured.py steps: one H100, a virtual machine's host",
                                  "series": "h100-" + r["config"], "grade": "A", "tolerance": 0.1, "n_gpus": 1, "tokens_per_s": round(t["micro_batch_size"] * t["seq_len"] / m["step_s"], 1),
                                  "cluster": {"gpu": "H100 SXM", "gpus_per_node": 1, "nodes": 1}, "training": t, "stack": body["stack"], "config": body["config"]}))
                continue
            p = m["phase_peaks_bytes"]
            row = {"id": "h100/" + r["id"], "group": "measured on an H100", "body": json.dumps(body, separators=(",", ":")), "peak_allocated_bytes": m["peak_allocated_bytes"],
                   "peak_reserved_bytes": m["peak_reserved_bytes"], "static_bytes": m["static_bytes"], "resting_bytes": m["resting_bytes"][-1],
                   "phase_peaks_bytes": {k: p[k] for k in ("batch", "forward", "backward", "clip", "optimizer") if k in p and not (k == "clip" and p[k] == 0)}}
            if part == "steps":     # others shared the GPU
                row.update(outside_bytes=m["outside_bytes"][1], step_s=round(m["step_s"], 6))
            print(json.dumps(row, separators=(",", ":")))


def results(paths, part):
    """The results of a part, each with the stack that it ran on."""
    stack = {}
    for path in paths:
        for line in open(path, encoding="utf-8"):
            r = json.loads(line)
            stack = r.get("stack", stack)
            if r.get("id", "").split("/")[0] == part and r.get("result"):
                yield stack, r["result"]


def attention(a):
    """cuDNN's births and deaths in the words of tests/data/ops: a death names its birth in the pass, told by size, of equal ones the first; deaths of
    what forward made are not said in backward."""
    kinds = {"causal": "causal", "full": "full", "padded": "bool mask", "additive": "mask"}
    seen = set()
    print("operator,what,dtype,shape,pass,events")
    for _, rows in results(a.measured, "attention"):
        for row in rows:
            run, kv = row["cudnn"], row["h" if row["repeat"] else "kv"]
            what = kinds[row["kind"]] + (" dropout" if row["dropout"] else "")
            key = "attention,%s,%s,%dx%dx%dx%dx%d" % (what, row["dtype"], row["b"], row["s"], row["h"], kv, row["d"])
            if run.get("which") != CUDNN or key in seen:
                continue
            seen.add(key)
            live = []
            for name in ("forward", "backward"):
                born, said, before = 0, [], ()
                if row["kind"] == "padded" and name == "forward":
                    before = ("scalar_tensor", "scalar_tensor", "where")    # convert_boolean_attn_mask() of attention.cpp
                live = [(size, None) for size, _ in live]
                for event in run[name]:
                    size = event[1:]
                    if event[0] == "+":
                        live.append((size, born))
                        said.append(event + ":" + (before[born] if born < len(before) else "_cudnn_attention_" + name))
                        born += 1
                    else:
                        block = next(x for x in live if x[0] == size)
                        live.remove(block)
                        if block[1] is not None:
                            said.append("-%d" % block[1])
                print(key + "," + name + "," + " ".join(said))


def attention_rates(a):
    """The heads and lengths of FlashAttention's figures; 2 products forward and 5 backward, the masked half left out."""
    for stack, result in results(a.measured, "attention-rates"):
        gpu = {"NVIDIA H100 80GB HBM3": "H100-80GB SXM"}.get(stack["gpu"], stack["gpu"])
        for r in result["rates"]:
            if r["d"] in (64, 128) and r["s"] <= 16384:
                tflops = 7 * r["b"] * r["h"] * r["d"] * r["s"] ** 2 / r["cudnn"][1] / 1e6
                torch, cudnn = ".".join(stack["torch"].split(".")[:2]), "%d.%d" % (stack["cudnn"] // 10000, stack["cudnn"] // 100 % 100)
                print('kernel,cudnn,%s,%d,,,,,%d,,,%.0f,"make_measured.py attention-rates, torch %s, cuDNN %s, %d heads of %d, causal, forward and backward"' %
                      (gpu, r["d"], r["s"], tflops, torch, cudnn, r["h"], r["kv"]))


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "worker":
        return worker(sys.argv[2])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    sub = parser.add_subparsers(dest="verb", required=True)
    r = sub.add_parser("run")
    r.add_argument("oracle")
    r.add_argument("configs")
    r.add_argument("out")
    r.add_argument("--part", nargs="+", default=list(PARTS))
    r.add_argument("--seconds", type=float, default=480)
    r.add_argument("--jobs", type=int, default=6)
    r.add_argument("--only", nargs="+")
    r.add_argument("--packages", default="")
    sub.add_parser("list")
    w = sub.add_parser("rows")
    w.add_argument("configs")
    w.add_argument("measured", nargs="+")
    w.add_argument("--compiled", action="store_true", help="those of compiled.jsonl instead")
    w.add_argument("--speed", action="store_true", help="those of speed.jsonl instead")
    for verb in ("attention", "attention-rates"):
        sub.add_parser(verb).add_argument("measured", nargs="+")
    a = parser.parse_args()
    verbs = {"run": run, "rows": rows, "attention": attention, "attention-rates": attention_rates}
    if a.verb in verbs:
        return verbs[a.verb](a)
    for j in jobs(PARTS, ""):
        print(j["part"] + "/" + j["name"], j["config"] if isinstance(j["config"], str) else j["config"]["model_type"])


if __name__ == "__main__":
    main()
