#!/usr/bin/env python3
"""Makes rows of generate_random.jsonl of this folder: generate() of small models drawn at random, with packed weights too, as the oracle's runtime counts it.

    make_generate_random.py ORACLE N SEED >> generate_random.jsonl      with the oracle's own python; torch 2.15, transformers 5.23, bitsandbytes 0.50

Weights that bitsandbytes packs go through transformers' own loader, from a checkpoint with all names and shapes and no content.
"""
import functools
import gc
import importlib.metadata
import json
import os
import random
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PLAIN = {"llama": {}, "mistral": {"sliding_window": None}, "qwen2": {}, "qwen3": {"head_dim": 64}, "gemma2": {"sliding_window": 64, "head_dim": 64},
         "gemma3_text": {"sliding_window": 64, "head_dim": 64}, "phi3": {"pad_token_id": 0}, "olmo2": {}, "cohere": {}, "stablelm": {"partial_rotary_factor": 0.25},
         "starcoder2": {}, "smollm3": {"pad_token_id": 0, "no_rope_layer_interval": 4}, "gpt_neox": {"rotary_pct": 0.25}, "nemotron": {}, "granite": {}}
CACHES = {None: {}, "fp8": {"cache_implementation": "quantized", "cache_config": {"backend": "fp8"}},
          "static": {"cache_implementation": "static", "disable_compile": True}}


def config_of(rng):
    if rng.random() < 0.3:
        with open(os.path.join(HERE, "moe.jsonl"), encoding="utf-8") as f:
            config = dict(json.loads(json.loads(rng.choice(f.readlines()))["body"])["config"])
        config.pop("quantization_config", None)
        return config
    kind = rng.choice(sorted(PLAIN))
    heads = rng.choice([4, 8])
    return {"model_type": kind, "vocab_size": rng.choice([1000, 32000, 50257]), "hidden_size": rng.choice([128, 256, 512]), "intermediate_size": rng.choice([256, 512, 1376]),
            "num_attention_heads": heads, "num_key_value_heads": rng.choice([1, 2, heads]), "num_hidden_layers": rng.choice([2, 3, 4]), "max_position_embeddings": 4096,
            "tie_word_embeddings": rng.random() < 0.4, **PLAIN[kind]}


def draw(rng):
    config, weights = config_of(rng), rng.choice(["bf16", "fp16", "nf4", "nf4-dq", "int8"])
    config["torch_dtype"] = {"bf16": "bfloat16", "fp16": "float16"}.get(weights) or rng.choice(["bfloat16", "float16"])
    asked = {"config": config, "weights": weights, "attention": rng.choice(["sdpa", "sdpa", "eager"]), "batch": rng.choice([1, 1, 2, 3, 8]),
             "prompt": rng.choice([1, 7, 33, 300, 1000]), "new": rng.choice([1, 2, 8, 20, 40]), "cache": None}
    asked["padded"] = asked["batch"] > 1 and rng.random() < 0.3
    if weights in ("bf16", "fp16") and rng.random() < 0.2:
        asked["cache"] = rng.choice(["static", "fp8"])
    return asked


def load(asked, path):
    import torch
    from one_gpu import step
    config, kind = step.load_config(path, {}), asked["weights"]
    dtype = getattr(torch, asked["config"]["torch_dtype"])
    model, used = step.model_on_meta(config, dtype, asked["attention"])
    if kind in ("bf16", "fp16"):
        step.materialise(model)
        return model, used
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig
    how = {"load_in_8bit": True} if kind == "int8" else {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": kind == "nf4-dq",
                                                         "bnb_4bit_compute_dtype": dtype}
    with tempfile.TemporaryDirectory() as folder:
        step.checkpoint_of_holes(model, folder, step.DEFAULTS["shard_bytes"])
        config.save_pretrained(folder)
        named = "dtype" if int(importlib.metadata.version("transformers").split(".")[0]) > 4 else "torch_dtype"
        return AutoModelForCausalLM.from_pretrained(folder, quantization_config=BitsAndBytesConfig(**how), device_map={"": 0}, attn_implementation=used, **{named: dtype}), used


def trace(asked, path):
    import torch
    from one_gpu import emulate
    reads = emulate.DeviceReads(asked["padded"], asked["batch"], asked["prompt"], 1 if asked["padded"] else 0)
    reads.install()
    model, used = load(asked, path)
    model.eval()
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    figures, left = {"static_bytes": torch.cuda.memory_allocated()}, [asked["new"]]
    ids, mask = (torch.empty((asked["batch"], asked["prompt"]), dtype=torch.int64, device="cuda") for _ in range(2))
    inner = type(model)._prefill

    @functools.wraps(inner)
    def prefill(self, *args, **kwargs):
        out = inner(self, *args, **kwargs)
        figures["prefill_bytes"] = torch.cuda.max_memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        return out

    def unfinished(self, *args, **kwargs):
        left[0] -= 1
        return left[0] >= 0

    type(model)._prefill, type(model)._has_unfinished_sequences = prefill, unfinished
    model.generation_config.eos_token_id = model.generation_config.pad_token_id = None
    with torch.no_grad():
        model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=asked["new"], do_sample=False, **CACHES[asked["cache"]])
    figures["decode_bytes"] = torch.cuda.max_memory_allocated()
    figures["peak_allocated_bytes"] = max(figures["prefill_bytes"], figures["decode_bytes"])
    figures["peak_reserved_bytes"] = torch.cuda.memory_reserved()
    return figures, used


def row_of(name, asked, figures, used):
    inference = {"prompt_tokens": asked["prompt"], "new_tokens": asked["new"], "batch_size": asked["batch"], "weights": asked["weights"], "engine": "transformers"}
    if asked["cache"]:
        inference["kv_cache" if asked["cache"] == "fp8" else "cache"] = asked["cache"]
    request = {"workload": "inference", "cluster": {"gpu": "A100-80GB"}, "training": {"attention": used, "padded": asked["padded"]}, "inference": inference,
               "stack": {"torch": "2.15", "transformers": "5.23"}, "config": asked["config"]}
    return {"id": name, "group": "generation", "body": json.dumps(request, separators=(",", ":")), **figures}


def main():
    oracle = sys.argv[1]
    sys.path.insert(0, oracle)
    if sys.argv[2] == "--one":
        import environment
        environment.ensure(80)
        with open(sys.argv[3], encoding="utf-8") as f:
            asked = json.load(f)
        with open(sys.argv[3] + ".config", "w", encoding="utf-8") as f:
            json.dump(asked["config"], f)
        figures, used = trace(asked, sys.argv[3] + ".config")
        print(json.dumps([figures, used]))
        return
    seed = int(sys.argv[3])
    rng = random.Random(seed)
    for i in range(int(sys.argv[2])):
        asked = draw(rng)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "asked.json")
            with open(path, "w", encoding="utf-8") as f:
                json.dump(asked, f)
            done = subprocess.run([sys.executable, os.path.abspath(sys.argv[0]), oracle, "--one", path], stdout=subprocess.PIPE, check=False)
        if not done.returncode:
            name = "generate-random/%d-%d-%s-%s" % (seed, i, asked["config"]["model_type"], asked["weights"])
            print(json.dumps(row_of(name, asked, *json.loads(done.stdout.splitlines()[-1])), separators=(",", ":")), flush=True)


if __name__ == "__main__":
    main()
