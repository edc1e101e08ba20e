#!/usr/bin/env python3
"""Makes rows of device_maps.jsonl in this folder: the device map that transformers 5 or accelerate infers, on the meta device.

    make_device_maps.py CONFIGS [nf4 | int8] >> device_maps.jsonl      once with each release (5.23.0; 4.53.3 with accelerate 1.8.1) and each form of the weights
    make_device_maps.py --types N >> device_maps.jsonl                 of types of tests/data/families.jsonl that generate, N draws each: 1 to 4 GPUs with uneven room, a host or none,
                                                                       "auto", "balanced_low_0", "sequential"
"""
import json
import os
import random
import sys
import warnings
warnings.filterwarnings("ignore")
import torch, transformers
from transformers import AutoConfig, AutoModelForCausalLM
HERE = os.path.dirname(os.path.abspath(__file__))
TYPES = int(sys.argv[2]) if sys.argv[1] == "--types" else 0
configs = sys.argv[1]
WEIGHTS = sys.argv[2] if len(sys.argv) > 2 and not TYPES else None
v5 = int(transformers.__version__.split(".")[0]) >= 5
if v5:
    from transformers.integrations import accelerate as A
else:
    import accelerate.utils.modeling as A
MODELS = ["TinyLlama__TinyLlama-1.1B-Chat-v1.0", "Qwen__Qwen3-0.6B", "meta-llama__Meta-Llama-3-8B", "meta-llama__Meta-Llama-3-70B", "openai-community__gpt2", "facebook__opt-1.3b",
          "bigscience__bloom-3b", "google__gemma-2-2b-it", "EleutherAI__pythia-1.4b", "bigcode__gpt_bigcode-santacoder", "Qwen__Qwen2.5-32B", "mistralai__Mixtral-8x7B-v0.1"]
NOT_MODELLED = ("deepseek_v32", "deepseek_v4", "rwkv", "electra", "camembert", "xlm-roberta", "roberta")  # no step, or encoders
NOT_WRITTEN = () if v5 else ("dbrx", "fuyu", "jamba", "persimmon", "phimoe")  # of that release
HOW = ("auto", "auto", "balanced_low_0", "sequential")
GIB = 1 << 30
MEMORY = [([24], 64), ([24, 24], 64), ([24] * 4, 128), ([80] * 2, 256), ([80] * 4, 512), ([16, 16], 32), ([8], 16), ([8], 2), ([4, 4, 4], 8), ([80] * 8, 1024)]


def configs_of():
    if TYPES:
        with open(os.path.join(HERE, "..", "families.jsonl"), encoding="utf-8") as f:
            for row in map(json.loads, f):
                if "stage" not in row and row["config"]["model_type"] not in NOT_MODELLED + NOT_WRITTEN:
                    yield row["config"]["model_type"], {k: v for k, v in row["config"].items()}
        return
    for name in MODELS:
        path = os.path.join(configs, name + ".json")
        if os.path.exists(path):
            yield name, {k: v for k, v in json.load(open(path)).items() if not k.startswith("_")}


def on_meta(own):
    config = AutoConfig.for_model(own.pop("model_type"), **own)
    if TYPES and "text_config" in own:
        raise ValueError("a model with a tower")
    with torch.device("meta"):
        return config, AutoModelForCausalLM.from_config(config, **({"dtype": torch.bfloat16} if v5 else {"torch_dtype": torch.bfloat16}))


def drawn(name, model):
    """GPUs with shares of the model's own bytes, not in order; a host with as much, with too little, or none."""
    r, whole = random.Random(name), sum(p.numel() * p.element_size() for p in model.parameters())
    for _ in range(TYPES):
        gpus = [int(whole * r.choice([0.2, 0.35, 0.5, 0.7, 0.9, 1.3])) for _ in range(r.choice([1, 2, 2, 3, 4]))]
        host = r.choice([None, 0.3, 1.0, 3.0])
        yield gpus, host and int(whole * host), r.choice(HOW)


def quantised(model, config):
    from transformers import BitsAndBytesConfig
    from transformers.quantizers.auto import AutoHfQuantizer
    quantizer = AutoHfQuantizer.from_config(BitsAndBytesConfig(load_in_8bit=WEIGHTS == "int8", load_in_4bit=WEIGHTS == "nf4", bnb_4bit_quant_type="nf4"), pre_quantized=False)
    with torch.device("meta"):
        quantizer.preprocess_model(model=model, device_map="auto", config=config, **({"dtype": torch.bfloat16} if v5 else {"keep_in_fp32_modules": None, "torch_dtype": torch.bfloat16}))
    if v5:
        return quantizer, {"hf_quantizer": quantizer}
    return quantizer, {"dtype": quantizer.adjust_target_dtype(torch.bfloat16), "special_dtypes": quantizer.get_special_dtypes_update(model, torch.bfloat16)}


def infer(model, quantizer, how, given, word):
    real, gpus = torch.cuda.device_count, len([k for k in given if k != "cpu"])
    whole = model._no_split_modules if v5 else model._get_no_split_modules(word)
    torch.cuda.device_count = lambda: gpus
    if v5:
        A.accelerate_max_memory = lambda m=None, g=given: dict(g)
    try:
        balanced = dict(given) if word == "sequential" else A.get_balanced_memory(model, max_memory=dict(given), no_split_module_classes=whole,
                                                                                  low_zero=word == "balanced_low_0", **how)
        if quantizer:
            balanced = quantizer.adjust_max_memory(balanced)
        return A.infer_auto_device_map(model, max_memory=balanced, no_split_module_classes=whole, clean_result=False, **how)
    finally:
        torch.cuda.device_count = real


def main():
    for name, own in configs_of():
        try:
            config, model = on_meta(own)
        except Exception as e:
            print(name, repr(e)[:100], file=sys.stderr)
            continue
        if WEIGHTS and v5:
            model.tie_weights()
        quantizer, how = quantised(model, config) if WEIGHTS else (None, {} if v5 else {"dtype": torch.bfloat16})
        model.tie_weights()
        for gpus, cpu, word in drawn(name, model) if TYPES else [(*m, "auto") for m in MEMORY]:
            given = {**{i: g if TYPES else g * GIB for i, g in enumerate(gpus)}, **({"cpu": cpu if TYPES else cpu * GIB} if cpu else {})}
            if len(gpus) == 1 and not TYPES:
                given[0] = int(given[0] * 0.9)
            try:
                found = infer(model, quantizer, how, given, word)
            except Exception as e:
                print(name, gpus, cpu, repr(e)[:100], file=sys.stderr)
                continue
            print(json.dumps({"type" if TYPES else "config_file": name, "transformers": transformers.__version__, "gpus": gpus, "cpu": cpu, **({"weights": WEIGHTS} if WEIGHTS else {}), **({"how": word} if TYPES else {}),
                              "map": {k: str(v) for k, v in found.items()}}, separators=(",", ":")))


main()
