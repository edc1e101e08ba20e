#!/usr/bin/env python3
"""Makes rows of device_maps.jsonl in this folder: the device map that transformers 5 or accelerate infers, on the meta device.

    make_device_maps.py CONFIGS [nf4 | int8] >> device_maps.jsonl      once with each release (5.23.0; 4.53.3 with accelerate 1.8.1) and each form of the weights
"""
import json
import os
import sys
import warnings
warnings.filterwarnings("ignore")
import torch, transformers
from transformers import AutoConfig, AutoModelForCausalLM
configs = sys.argv[1]
WEIGHTS = sys.argv[2] if len(sys.argv) > 2 else None
v5 = int(transformers.__version__.split(".")[0]) >= 5
if v5:
    from transformers.integrations import accelerate as A
else:
    import accelerate.utils.modeling as A
MODELS = ["TinyLlama__TinyLlama-1.1B-Chat-v1.0", "Qwen__Qwen3-0.6B", "meta-llama__Meta-Llama-3-8B", "meta-llama__Meta-Llama-3-70B", "openai-community__gpt2", "facebook__opt-1.3b",
          "bigscience__bloom-3b", "google__gemma-2-2b-it", "EleutherAI__pythia-1.4b", "bigcode__gpt_bigcode-santacoder", "Qwen__Qwen2.5-32B", "mistralai__Mixtral-8x7B-v0.1"]
GIB = 1 << 30
MEMORY = [([24], 64), ([24, 24], 64), ([24] * 4, 128), ([80] * 2, 256), ([80] * 4, 512), ([16, 16], 32), ([8], 16), ([8], 2), ([4, 4, 4], 8), ([80] * 8, 1024)]
for name in MODELS:
    path = os.path.join(configs, name + ".json")
    if not os.path.exists(path):
        continue
    own = {k: v for k, v in json.load(open(path)).items() if not k.startswith("_")}
    try:
        config = AutoConfig.for_model(own.pop("model_type"), **own)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config, **({"dtype": torch.bfloat16} if v5 else {"torch_dtype": torch.bfloat16}))
    except Exception as e:
        print(name, repr(e)[:100], file=sys.stderr)
        continue
    if WEIGHTS and v5:
        model.tie_weights()
    quantizer, how, special = None, {} if v5 else {"dtype": torch.bfloat16}, {}
    if WEIGHTS:
        from transformers import BitsAndBytesConfig
        from transformers.quantizers.auto import AutoHfQuantizer
        quantizer = AutoHfQuantizer.from_config(BitsAndBytesConfig(load_in_8bit=WEIGHTS == "int8", load_in_4bit=WEIGHTS == "nf4", bnb_4bit_quant_type="nf4"), pre_quantized=False)
        with torch.device("meta"):
            quantizer.preprocess_model(model=model, device_map="auto", config=config, **({"dtype": torch.bfloat16} if v5 else {"keep_in_fp32_modules": None, "torch_dtype": torch.bfloat16}))
        if v5:
            how = {"hf_quantizer": quantizer}
        else:
            how = {"dtype": quantizer.adjust_target_dtype(torch.bfloat16), "special_dtypes": quantizer.get_special_dtypes_update(model, torch.bfloat16)}
    model.tie_weights()
    for gpus, cpu in MEMORY:
        most = {i: g * GIB for i, g in enumerate(gpus)}
        most["cpu"] = cpu * GIB
        given = dict(most)
        if len(gpus) == 1:
            given[0] = int(given[0] * 0.9)
        real = torch.cuda.device_count
        torch.cuda.device_count = lambda: len(gpus)
        if v5:
            A.accelerate_max_memory = lambda m=None, g=given: dict(g)
        balanced = A.get_balanced_memory(model, max_memory=given, no_split_module_classes=model._no_split_modules, **how)
        if quantizer:
            balanced = quantizer.adjust_max_memory(balanced)
        found = A.infer_auto_device_map(model, max_memory=balanced, no_split_module_classes=model._no_split_modules, clean_result=False, **how)
        torch.cuda.device_count = real
        print(json.dumps({"config_file": name, "transformers": transformers.__version__, "gpus": gpus, "cpu": cpu, **({"weights": WEIGHTS} if WEIGHTS else {}), "map": {k: str(v) for k, v in found.items()}}, separators=(",", ":")))
