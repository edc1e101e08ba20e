#!/usr/bin/env python3
"""Makes cases.jsonl, stacks.jsonl and inventory.jsonl of this folder from the ground truth.

    make_cases.py GROUNDTRUTH CONFIGS

cases.jsonl: the single-GPU traces of the modelled families with loss hf, the optimizers that are modelled, quantised weights on the oldest stack alone.
  body is the request as it is posted, config inline; the rest is what the traced run showed.
stacks.jsonl: the same on stacks between the newest and the oldest, each a group.
inventory.jsonl: exact parameter totals, LoRA counts, and per config a digest of all tensors: FNV-1a 64 of the sorted
  lines "name|shape|tied_to".
published.jsonl: figures that others measured on one real GPU, of the same families and options.
generated.jsonl: what others printed of generating on one GPU, beside the figure of ours that it is: READS says which, and why.
"""
import collections
import csv
import gzip
import json
import os
import sys

FAMILIES = {"opt", "bloom", "codegen", "biogpt", "gpt_bigcode", "gpt_neo", "gpt2", "gpt_neox", "llama", "mistral", "qwen2", "qwen3", "gemma2", "gptj",
            "phi3", "olmo", "olmo2", "olmo3", "granite", "smollm3", "gemma", "gemma3_text", "cohere", "cohere2", "stablelm", "starcoder2", "phi", "glm", "glm4", "seed_oss",
            "ministral3", "exaone4", "ernie4_5", "helium", "arcee", "apertus", "nemotron", "falcon", "xglm"}
# Mixtures of experts have cases of their own (make_moe.py), but for what earlier releases do; of some only the parameters are known.
EARLIER = {"mixtral", "qwen2_moe", "qwen3_moe"}
COUNTED = FAMILIES | {"mixtral", "qwen2_moe", "qwen3_moe", "gpt_oss", "deepseek_v2", "deepseek_v3", "deepseek_v32", "glm4_moe", "glm_moe_dsa", "minimax_m2",
                      "ernie4_5_moe", "falcon_h1", "nemotron_h", "qwen3_next", "qwen3_5", "qwen3_5_moe", "gemma3", "mamba", "phimoe", "dbrx", "minicpm3",
                      "openai-gpt", "rwkv", "mimo_v2_flash", "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "fuyu", "kimi_k25",
                      "deepseek_v4", "mllama", "llama4", "gemma4", "step3p7"}
# What of them is written of earlier releases of transformers: family_is_written of core/stack/quirks.def.
SINCE = {"olmo": 4048, "olmo2": 4048, "granite": 4045, "cohere": 4048, "phi": 4048, "glm": 4048, "phi3": 4048, "helium": 4049,
         "glm4": 4051, "gemma3_text": 4053, "smollm3": 4053, "cohere2": 4053, "arcee": 4053, "exaone4": 4054, "ernie4_5": 4054, "seed_oss": 4056, "olmo3": 5000,
         "mixtral": 4048, "qwen2_moe": 4048, "qwen3_moe": 4053, "ministral3": 5000, "apertus": 5000, "nemotron": 5013}
OPTIMIZERS = {"adamw_torch", "adamw_torch_fused", "sgd"}


def fnv(lines):
    h = 0xcbf29ce484222325
    for line in lines:
        for byte in line.encode() + b"\n":
            h = ((h ^ byte) * 0x100000001b3) & 0xffffffffffffffff
    return "%016x" % h


def is_written(family, stack):
    major, minor = stack.get("transformers", "5.23").split(".")[:2]
    return int(major) * 1000 + int(minor) >= SINCE.get(family, 0)


def loads_by_file(request):
    """Quantised weights on stacks before transformers 5, which make_kbit.py has not; LLM.int8 as bitsandbytes does it since 0.45."""
    stack, kind = request["stack"], request["training"]["quantization"]
    return stack.get("transformers", "5").startswith("4.") and (kind != "int8" or int(stack["bitsandbytes"].split(".")[1]) >= 45)


def config_of(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as f:
        return {k: v for k, v in json.load(f).items() if not k.startswith("_")}


def group_of(stack):
    """The stacks between the newest and the oldest have groups of their own."""
    return "one GPU, torch %s with transformers %s" % tuple(".".join(stack[p].split(".")[:2]) for p in ("torch", "transformers"))


def cases(truth, configs, out, grouped):
    for line in open(truth, encoding="utf-8"):
        c = json.loads(line)
        config = config_of(configs, c["config_file"])
        t = c["request"]["training"]
        families = FAMILIES | EARLIER if grouped else FAMILIES
        if config.get("model_type") not in families or t["loss"] != "hf" or not is_written(config["model_type"], c["request"]["stack"]) or \
                (t["optimizer"] not in OPTIMIZERS if t["quantization"] == "none" else not loads_by_file(c["request"])):
            continue
        r = c["result"]
        row = {"id": c["id"], "family": config["model_type"], "body": json.dumps(dict(c["request"], config=config), separators=(",", ":")),
               "peak_allocated_bytes": r["peak_allocated_bytes"], "peak_reserved_bytes": r["peak_reserved_bytes"],
               "peak_reserved_expandable_bytes": r["peak_reserved_expandable_bytes"], "static_bytes": r["static_bytes"],
               "resting_bytes": r["resting_bytes"][-1], "peak_phase": r["peak_phase"], "phase_peaks_bytes": r["phase_peaks_bytes"],
               "breakdown_bytes": r["breakdown_bytes"],
               "groups": [{k: g[k] for k in ("op", "category", "phase", "bytes_each", "count", "bytes")} for g in r["top_groups"]]}
        if grouped:
            row = dict(id=row.pop("id"), group=group_of(c["request"]["stack"]), **row)
        out.write(json.dumps(row, separators=(",", ":")) + "\n")


def published(truth, configs, out):
    """Figures that others measured on one GPU and published, where the request asks for nothing but what is modelled."""
    for line in open(os.path.join(truth, "published_dev.jsonl"), encoding="utf-8"):
        c = json.loads(line)
        if c.get("needs") or not c.get("config_file") or not c["metric"].endswith("_bytes") or "request" not in c:
            continue
        config, request = config_of(configs, c["config_file"]), c["request"]
        t, cluster, stack = request.get("training", {}), request.get("cluster", {}), request.get("stack", {})
        single = t.get("methods", "single") in ("single", ["single"]) and cluster.get("gpus_per_node", 1) * cluster.get("nodes", 1) == 1
        if config.get("model_type") not in FAMILIES or not single or request.get("workload", "finetune") != "finetune" or \
                stack.get("framework", "transformers") not in ("transformers", "torch") or "quantization" in t or "qlora" in t.get("tuning", "") or \
                not is_written(config["model_type"], stack):
            continue
        out.write(json.dumps({"id": "%s/%s" % (c["source"], c["id"]), "metric": c["metric"], "expected": c["expected"], "grade": c["grade"],
                              "source_ref": c.get("source_ref"), "body": json.dumps(dict(request, config=config), separators=(",", ":"))},
                             separators=(",", ":")) + "\n")


# Which figure a source prints, told by how its rows rise with the prompt (bytes a token of 6,144 to 30,720):
# litgpt: generate/base.py prints torch.cuda.max_memory_allocated().
# qwen3-speed (QwenLM/Qwen3 docs/source/getting_started/speed_benchmark.md): bf16, GPTQ and fp8 rows rise by keys and values alone (Qwen3-8B: 16,811 to 20,267 MiB in
#   24,576 tokens, 144.0 KiB each, its cache's), so neither the prompt's products (1.2 MB a layer and token are 3 GB there) nor two tensors of keys at once are in them:
#   what stands behind the last token. AWQ rows, run without flash-attn (its list of packages), rise by 16 KiB more, the keys and values that sdpa repeats for all
#   heads, and by no product of the prompt: the peak of the tokens behind it.
# qwen-readme: 7B and 14B are, digit by digit, what commit 235aa8f of QwenLM/Qwen prints as "peak GPU memory usage for encoding 2048 tokens as context (and generating
#   single token)"; 1.8B came later, with the sentence "generating 2048".
READS = {"litgpt": lambda c: "peak_allocated_bytes", "qwen-readme": lambda c: "peak_allocated_bytes",
         "qwen3-speed": lambda c: "phase_peaks_bytes/decode" if c["request"]["inference"]["weights"] == "awq4" else "resting_bytes"}
# bigcode/octocoder in the guide "Optimizing LLMs for Speed and Memory" of transformers (docs/source/en/llm_tutorial_optimization.md): max_memory_allocated() in GiB of
# 60 tokens, with bitsandbytes 0.41; load_in_4bit loads in fp16, with bnb_4bit_compute_dtype fp32 and bnb_4bit_quant_type fp4, all by default.
# A V100 is asked for 4 bits, since its weights are fp16.
OCTOCODER = {"model_type": "gpt_bigcode", "n_embd": 6144, "n_layer": 40, "n_head": 48, "n_inner": 24576, "multi_query": True, "vocab_size": 49152, "n_positions": 8192,
             "activation_function": "gelu", "tie_word_embeddings": True}
GUIDE = (("bf16", 29.0260648727417, "A100-80GB", {}), ("int8", 15.219234466552734, "A100-80GB", {}),
         ("fp4", 9.543574333190918, "V100-32GB", {"compute_dtype": "fp32"}))


def generated(truth, configs, out):
    def write(group, ident, metric, expected, grade, ref, request):
        out.write(json.dumps({"id": ident, "group": group, "metric": metric, "expected": expected, "grade": grade, "source_ref": ref,
                              "body": json.dumps(request, separators=(",", ":"))}, separators=(",", ":")) + "\n")

    for line in open(os.path.join(truth, "published_dev.jsonl"), encoding="utf-8"):
        c = json.loads(line)
        request = c.get("request", {})
        if request.get("workload") != "inference":
            continue
        request["config"] = config_of(configs, c["config_file"])
        row = "%s/%s" % (c["source"], c["id"]), c["expected"], c["grade"], c["source_ref"]
        write("published, read as peaks", row[0], "peak_allocated_bytes", *row[1:], request)
        if c["source"] == "qwen-readme" and "1_8B" not in c["model"]:
            request["inference"].update(prompt_tokens=2048, new_tokens=1)
        write("published, generating", row[0], READS[c["source"]](c), *row[1:], request)
    for weights, gib, gpu, more in GUIDE:
        write("published, generating", "transformers-guide/octocoder-" + weights, "peak_allocated_bytes", int(gib * 2**30), "B",
              "huggingface/transformers:docs/source/en/llm_tutorial_optimization.md",
              {"cluster": {"gpu": gpu}, "workload": "inference", "inference": dict(weights=weights, prompt_tokens=30, new_tokens=60, batch_size=1, **more),
               "stack": {"torch": "2.15", "transformers": "5.23", "bitsandbytes": "0.41"}, "config": OCTOCODER})


def tensors(truth, configs, folder):
    rows = list(csv.DictReader(open(os.path.join(truth, "params_dev.csv"), encoding="utf-8")))
    wanted = {}
    for r in rows:
        name = r["file"]
        path = os.path.join(configs, name)
        if r["status"] == "exact" and os.path.exists(path) and config_of(configs, name).get("model_type") in COUNTED:
            wanted[name] = r
    files = {r["hub_id"]: name for name, r in wanted.items()}
    lines = collections.defaultdict(list)
    with gzip.open(os.path.join(truth, "tensors_dev.csv.gz"), "rt", encoding="utf-8") as f:
        for t in csv.DictReader(f):
            if t["hub_id"] in files:
                lines[files[t["hub_id"]]].append("%s|%s|%s" % (t["tensor"], t["shape"], t["tied_to"] or ""))
    with open(os.path.join(folder, "inventory.jsonl"), "w", encoding="utf-8") as out:
        for name, r in sorted(wanted.items()):
            number = lambda key: int(r[key]) if r.get(key) else None
            config = config_of(configs, name)
            out.write(json.dumps({"config_file": name, "config": config, "total": int(r["total"]), "tensors": int(r["tensors"]),
                                  "lora_r16_default": number("lora_r16_default"), "lora_r16_all_linear": number("lora_r16_all_linear"),
                                  "lora_default_modules": number("lora_r16_default_modules"), "digest": fnv(sorted(lines[name])), "rows": len(lines[name])},
                                 separators=(",", ":")) + "\n")


def main():
    truth, configs = sys.argv[1:3]
    folder = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(folder, "cases.jsonl"), "w", encoding="utf-8") as out:
        cases(os.path.join(truth, "trace_dev.jsonl"), configs, out, False)
    with open(os.path.join(folder, "stacks.jsonl"), "w", encoding="utf-8") as out:
        cases(os.path.join(truth, "trace_stacks_dev.jsonl"), configs, out, True)
    with open(os.path.join(folder, "published.jsonl"), "w", encoding="utf-8") as out:
        published(truth, configs, out)
    with open(os.path.join(folder, "generated.jsonl"), "w", encoding="utf-8") as out:
        generated(truth, configs, out)
    tensors(truth, configs, folder)


if __name__ == "__main__":
    main()
