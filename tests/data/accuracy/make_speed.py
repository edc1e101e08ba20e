#!/usr/bin/env python3
"""Writes speed.jsonl and speed_pairs.jsonl from published measurements of training speed. Python standard library only.

    make_speed.py SPEED.jsonl PAIRS.jsonl CONFIGS_FOLDER

A row of speed.jsonl is a request that is answered (`use`: "answer"), or one of a program that is not answered but launches the same kernels on one GPU
(`use`: "kernels"): it takes part in fitting the constants of core/perf/constants.c, and in no figure of the answers.
"""
import json
import os
import sys

PROGRAMS = {"llama", "mistral", "qwen2", "qwen3", "gpt2", "opt", "gpt_neox", "gemma2", "gpt_bigcode", "gpt_neo", "codegen", "biogpt", "bloom", "gptj"}


METHODS = {"single", "ddp", "zero1", "zero2", "zero3", "fsdp", "fsdp_grad_op", "fsdp_no_shard", "hsdp", "fsdp2", "fsdp2_noreshard", "hsdp2", "tp", "pp", "tp+fsdp2"}


# Qwen 1 has no program: a Llama of its shape launches its kernels (two more products an attention, whose q, k and v it makes at once). Its
# adapters stand on c_attn, c_proj twice, w1 and w2.
QWEN_TARGETS = ["q_proj", "o_proj", "down_proj", "gate_proj", "up_proj"]


def llama_of_qwen(c):
    return {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": c["hidden_size"], "num_hidden_layers": c["num_hidden_layers"],
            "num_attention_heads": c["num_attention_heads"], "num_key_value_heads": c["num_attention_heads"], "intermediate_size": c["intermediate_size"] // 2,
            "vocab_size": c["vocab_size"], "max_position_embeddings": 8192, "rms_norm_eps": c["layer_norm_epsilon"], "tie_word_embeddings": False,
            "torch_dtype": "bfloat16"}


def one(v):
    return v[0] if isinstance(v, list) and v else v


def use(row, t, config):
    method, tuning = one(t["methods"]), one(t["tuning"])
    plain = (one(t.get("loss", "hf")) == "hf" and not t.get("liger_kernels") and not t.get("compile") and t.get("float8", "none") == "none"
             and one(t.get("offload", "none")) in ("none", "optimizer", "optimizer+params") and tuning in ("full", "lora")
             and one(t.get("gradient_checkpointing", False)) in (True, False) and config["model_type"] in PROGRAMS and not row.get("needs"))
    framework = row["request"].get("stack", {}).get("framework", "transformers")
    if not plain:
        return None
    if method in METHODS and framework in ("transformers", "torch"):
        return "answer"
    return "kernels" if row["source"] == "torchtune" and method == "single" else None


def thinned(rows, paired):
    """Long sweeps by every fourth row, and those that pairs compare."""
    seen = {}
    for r in rows:
        n = seen[r["source"]] = seen.get(r["source"], -1) + 1
        if r["source"] not in ("gpjt", "llm-foundry") or n % 4 == 0 or (n % 2 == 0 and r["id"] in paired):
            yield r


def made(row, configs):
    with open(os.path.join(configs, row["config_file"]), encoding="utf-8") as f:
        config = {k: v for k, v in json.load(f).items() if not k.startswith("_")}
    for k, v in (row.get("config_set") or {}).items():
        config.pop(k, None) if v is None else config.__setitem__(k, v)
    t = {k: one(v) if k != "lora" else v for k, v in row["request"]["training"].items()}
    qwen = config["model_type"] == "qwen" and t["tuning"] == "lora" and not t["lora"].get("modules_to_save")
    if qwen:
        config, t["lora"] = llama_of_qwen(config), dict(t["lora"], target_modules=QWEN_TARGETS)
    kind = use(row, t, config)
    if kind and qwen:
        kind = "kernels"
    if not kind:
        return None
    return {"id": row["id"], "use": kind, "source": row["source"], "source_ref": row["source_ref"], "series": row["series"], "grade": row["grade"],
            "tolerance": row["tolerance"], "n_gpus": row["n_gpus"], "tokens_per_s": row["expected"], "cluster": row["request"]["cluster"],
            "training": t, "stack": row["request"].get("stack", {}), "config": config}


def main():
    speed, pairs, configs = sys.argv[1:]
    here = os.path.dirname(os.path.abspath(__file__))
    with open(speed, encoding="utf-8") as f:
        rows = [r for r in (made(json.loads(line), configs) for line in f) if r]
    known = {r["id"]: r["use"] for r in rows}
    with open(pairs, encoding="utf-8") as f:
        pairs = [p for p in map(json.loads, f) if p["a"] in known and p["b"] in known and p["kind"] != "length"]
    rows = list(thinned(rows, {p[side] for p in pairs for side in "ab"}))
    kept = {r["id"] for r in rows}
    pairs = [p for p in pairs if p["a"] in kept and p["b"] in kept]
    with open(os.path.join(here, "speed.jsonl"), "w", encoding="utf-8") as f:
        for r in rows:
            f.write(json.dumps(r) + "\n")
    with open(os.path.join(here, "speed_pairs.jsonl"), "w", encoding="utf-8") as f:
        for p in pairs:
            use = "answer" if known[p["a"]] == known[p["b"]] == "answer" else "kernels"
            f.write(json.dumps(dict({k: p[k] for k in ("id", "source", "series", "kind", "a", "b", "faster", "ratio")}, use=use)) + "\n")


if __name__ == "__main__":
    main()
