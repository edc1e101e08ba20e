#!/usr/bin/env python3
"""Makes recommended.jsonl of this folder: whole models as people ask about them, each traced as the answer recommends to train it.

    make_recommended.py ORACLE CONFIGS PYTHON PROGRAM [--n 24] [--seed 1]

ORACLE holds ask.py; CONFIGS has a config.json of a model a file; PYTHON is that of the oracle's environment (torch 2.15, transformers 5.23); PROGRAM is llmemd.
A question leaves out what people leave out: method, micro-batch, checkpointing, often tuning and precision. The row is the first candidate, stated in full; what
the oracle has no step of is passed over. A100 alone: where an H100's driver puts what is asked of it is another than where the oracle's runtime does (torch/alloc.h).
"""
import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = ("Qwen__Qwen3-8B", "meta-llama__Llama-3.2-3B", "EleutherAI__pythia-12b", "google__gemma-2-9b", "google__gemma-3-1b-it", "facebook__opt-2.7b",
          "bigscience__bloom-3b", "Qwen__Qwen2.5-7B", "mistralai__Mistral-7B-v0.3", "allenai__OLMo-2-1124-7B", "HuggingFaceTB__SmolLM3-3B",
          "THUDM__GLM-4-9B-0414", "bigcode__starcoder2-7b", "ibm-granite__granite-3.1-2b-instruct", "kyutai__helium-1-preview-2b",
          "Qwen__Qwen1.5-MoE-A2.7B-Chat", "openai-community__gpt2-xl", "LGAI-EXAONE__EXAONE-4.0-1.2B", "meta-llama__Meta-Llama-3-8B")
TAKEN = ("tuning", "gradient_checkpointing", "precision", "optimizer", "attention", "loss", "micro_batch_size", "gradient_accumulation_steps", "offload")
STATED = ("keep_outputs", "max_grad_norm", "padded", "attention_mask", "use_cache", "checkpoint_reentrant")
FIGURES = ("peak_allocated_bytes", "peak_reserved_bytes", "static_bytes")
STACK = {"torch": "2.15", "transformers": "5.23", "peft": "0.21", "deepspeed": "0.19", "framework": "transformers"}


def config_of(folder, name):
    with open(os.path.join(folder, name + ".json"), encoding="utf-8") as f:
        return {k: v for k, v in json.load(f).items() if not k.startswith("_") and k != "quantization_config"}


def drawn(r, config):
    longest = config.get("max_position_embeddings", config.get("n_positions", 1 << 20))
    training = {"seq_len": min(longest, r.choice([512, 777, 1024, 2048, 4096]))}
    if r.random() < .6:
        training["tuning"] = r.choice(["full", "lora"])
    if training.get("tuning") == "lora":
        training["lora"] = {"target_modules": "all-linear"}
    if r.random() < .3:
        training["precision"] = "bf16"
    return {"config": config, "cluster": {"gpu": r.choice(["A100-80GB", "A100-40GB"]), "gpus_per_node": r.choice([1, 1, 2, 4, 8])}, "training": training, "stack": STACK}


def stated(question, answer):
    """The first candidate as a question of its own."""
    c, resolved = answer["candidates"][0], answer["resolved"]["training"]
    training = dict(question["training"], methods=c["method"], **{k: c[k] for k in TAKEN}, **{k: resolved[k] for k in STATED})
    cluster = dict(question["cluster"])
    if c["method"] == "single":
        cluster["gpus_per_node"] = 1
    if c["method"] == "tp+fsdp2":
        training["tensor_parallel"] = c["tensor_parallel"]
    elif c["method"] == "fsdp2":
        training["fsdp"] = {"wrap": "accelerate"}  # accelerate 1.15 fsdp2_prepare_model; the oracle's own is a unit a layer
        if c["precision"] == "bf16-mixed":
            training["reduce_dtype"] = "bf16"  # accelerate 1.15 FullyShardedDataParallelPlugin.set_mixed_precision
    return dict(question, cluster=cluster, training=training)


def traced(oracle, python, request):
    if request["training"]["methods"].startswith("zero"):  # accelerate 1.15 _prepare_deepspeed() has no autocast; the oracle would have one
        request = dict(request, training=dict(request["training"], precision="bf16"))
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(request, f)
        f.flush()
        told = subprocess.run([python, os.path.join(oracle, "ask.py"), f.name, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    begin = re.search(r"^\{", told, re.M)
    return json.JSONDecoder().raw_decode(told[begin.start():])[0] if begin else None


def main():
    p = argparse.ArgumentParser()
    for name in ("oracle", "configs", "python", "program"):
        p.add_argument(name)
    p.add_argument("--n", type=int, default=24)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    r, rows = random.Random(a.seed), []
    for i in range(a.n):
        model = r.choice(MODELS)
        question = drawn(r, config_of(a.configs, model))
        told = subprocess.run([a.program, "estimate", "--offline", "--json", "-"], input=json.dumps(question), stdout=subprocess.PIPE, text=True).stdout
        answer = json.loads(told)
        if not answer.get("candidates") or not answer["candidates"][0].get("fits"):
            continue
        request = stated(question, answer)
        result = traced(a.oracle, a.python, request)
        if not result or "peak_allocated_bytes" not in result:
            print("no figures: %d %s %s" % (i, model, request["training"]["methods"]), file=sys.stderr)
            continue
        method = request["training"]["methods"]
        rows.append({"id": "recommended/%02d-%s-%s" % (i, model.split("__")[1], method), "group": ("one GPU" if method == "single" else "several GPUs") + ", whole models as recommended",
                     "body": json.dumps(request, separators=(",", ":")), **{k: result[k] for k in FIGURES if k in result}})
        print(rows[-1]["id"], *(result.get(k) for k in FIGURES), flush=True)
        with open(os.path.join(HERE, "recommended.jsonl"), "w", encoding="utf-8") as out:
            out.writelines(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)


main()
