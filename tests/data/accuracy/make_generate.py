#!/usr/bin/env python3
"""Makes generate.jsonl of this folder: model.generate() of real PyTorch and transformers, as the allocator of the oracle's runtime counts it.

    make_generate.py ORACLE CONFIGS [--show]      with the oracle's own python; torch 2.15, transformers 5.23

Greedy, no end-of-sequence token, so that all new tokens are made. A value that lies in device memory (is the mask all ones?) is answered from the batch.
"""
import functools
import gc
import json
import os
import subprocess
import sys

TINY, QWEN, QWEN2, GPT2, OPT = "TinyLlama__TinyLlama-1.1B-Chat-v1.0", "Qwen__Qwen3-0.6B", "Qwen__Qwen2-0.5B", "openai-community__gpt2", "facebook__opt-350m"
BLOOM, GEMMA, NEOX, BIGCODE = "bigscience__bloom-560m", "google__gemma-2-2b-it", "EleutherAI__pythia-160m", "bigcode__gpt_bigcode-santacoder"

CASES = [  # name, config, batch, prompt tokens, new tokens, attention, padded, dtype, cache
    ("llama", TINY, 1, 512, 64, "sdpa", False, "bf16"),
    ("llama-batch", TINY, 8, 300, 40, "sdpa", False, "bf16"),
    ("llama-padded", TINY, 4, 256, 33, "sdpa", True, "bf16"),
    ("llama-eager", TINY, 2, 700, 20, "eager", False, "fp16"),
    ("llama-long", TINY, 1, 8, 1200, "sdpa", False, "bf16"),
    ("llama-one", TINY, 1, 1024, 1, "sdpa", False, "bf16"),
    ("llama-two", TINY, 1, 1024, 2, "sdpa", False, "bf16"),
    ("qwen3", QWEN, 1, 2048, 100, "sdpa", False, "bf16"),
    ("qwen3-fp32", QWEN, 2, 100, 100, "sdpa", False, "fp32"),
    ("qwen2", QWEN2, 3, 1000, 30, "sdpa", False, "bf16"),
    ("gpt2", GPT2, 2, 400, 64, "sdpa", False, "fp32"),
    ("gpt2-eager", GPT2, 1, 600, 100, "eager", False, "bf16"),
    ("opt", OPT, 4, 128, 64, "sdpa", False, "fp16"),
    ("bloom", BLOOM, 2, 500, 40, "sdpa", False, "bf16"),
    ("gemma2", GEMMA, 1, 1500, 20, "eager", False, "bf16"),
    ("neox", NEOX, 2, 333, 77, "sdpa", False, "fp16"),
    ("falcon_h1", "tiiuae__Falcon-H1-0.5B-Base", 2, 300, 12, "sdpa", True, "bf16"),
    ("bigcode", BIGCODE, 2, 256, 50, "sdpa", False, "bf16"),
    ("llama-fp8", TINY, 2, 300, 40, "sdpa", False, "bf16", "fp8"),
    ("llama-fp8-long", TINY, 1, 8, 600, "sdpa", False, "bf16", "fp8"),
    ("qwen3-fp8-padded", QWEN, 3, 200, 20, "sdpa", True, "bf16", "fp8"),
    ("llama-static", TINY, 2, 300, 40, "sdpa", False, "bf16", "static"),
    ("llama-static-long", TINY, 1, 8, 600, "sdpa", False, "bf16", "static"),
    ("llama-static-padded", TINY, 3, 200, 20, "sdpa", True, "bf16", "static"),
    ("llama-static-eager", TINY, 1, 500, 30, "eager", False, "fp16", "static"),
    ("gpt2-static", GPT2, 2, 400, 64, "sdpa", False, "fp32", "static"),
]
CACHES = {None: {}, "fp8": {"cache_implementation": "quantized", "cache_config": {"backend": "fp8"}},
          "static": {"cache_implementation": "static", "disable_compile": True}}


def trace(config_path, batch, prompt, new, attention, padded, dtype, cache=None):
    import torch
    from one_gpu import emulate, step
    reads = emulate.DeviceReads(padded, batch, prompt, 1 if padded else 0)
    reads.install()
    config = step.load_config(config_path, {})
    model, used = step.model_on_meta(config, step.DTYPES[dtype], attention)
    step.materialise(model)
    model.eval()
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    figures = {"static_bytes": torch.cuda.memory_allocated()}
    ids = torch.empty((batch, prompt), dtype=torch.int64, device="cuda")
    mask = torch.empty((batch, prompt), dtype=torch.int64, device="cuda")
    name = "_prefill" if hasattr(type(model), "_prefill") else "forward"  # before 5.0 the first forward is the prompt's
    inner = getattr(type(model), name)
    left = [new]

    @functools.wraps(inner)
    def prefill(self, *args, **kwargs):
        out = inner(self, *args, **kwargs)
        if "prefill_bytes" not in figures:
            figures["prefill_bytes"] = torch.cuda.max_memory_allocated()
            torch.cuda.reset_peak_memory_stats()
        return out

    def unfinished(self, *args, **kwargs):
        left[0] -= 1
        return left[0] >= 0

    setattr(type(model), name, prefill)
    type(model)._has_unfinished_sequences = unfinished
    model.generation_config.eos_token_id = model.generation_config.pad_token_id = None
    with torch.no_grad():
        model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=new, do_sample=False, **CACHES[cache])
    figures["decode_bytes"] = torch.cuda.max_memory_allocated()
    figures["peak_allocated_bytes"] = max(figures["prefill_bytes"], figures["decode_bytes"])
    figures["peak_reserved_bytes"] = torch.cuda.memory_reserved()
    return figures, used, reads.unforeseen


def main():
    oracle, configs = sys.argv[1:3]
    sys.path.insert(0, oracle)
    import environment
    if len(sys.argv) > 4:
        environment.ensure(80)
        from one_gpu import emulate
        emulate.install_flash_attn()
        case = next(c for c in CASES if c[0] == sys.argv[4])
        figures, used, unforeseen = trace(os.path.join(configs, case[1] + ".json"), *case[2:])
        print(json.dumps({"figures": figures, "attention": used, "unforeseen": unforeseen}))
        return
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "generate.jsonl"), "w", encoding="utf-8") as out:
        for name, config, batch, prompt, new, attention, padded, dtype, *cache in CASES:
            told = subprocess.run([sys.executable, sys.argv[0], oracle, configs, "--one", name], stdout=subprocess.PIPE, check=True).stdout
            one = json.loads(told.splitlines()[-1])
            with open(os.path.join(configs, config + ".json"), encoding="utf-8") as f:
                own = {k: v for k, v in json.load(f).items() if not k.startswith("_")}
            request = {"workload": "inference", "cluster": {"gpu": "A100-80GB"},
                       "training": {"attention": one["attention"], "padded": padded},
                       "inference": {"prompt_tokens": prompt, "new_tokens": new, "batch_size": batch, "weights": dtype, "engine": "transformers"},
                       "stack": {"torch": "2.15", "transformers": "5.23"}, "config": own}
            if cache:
                request["inference"]["kv_cache" if cache[0] == "fp8" else "cache"] = cache[0]
            row = {"id": "generate/" + name, "group": "generation", "body": json.dumps(request, separators=(",", ":"))}
            row.update(one["figures"])
            out.write(json.dumps(row, separators=(",", ":")) + "\n")
            out.flush()
            print(name, one["figures"], one["unforeseen"])


if __name__ == "__main__":
    main()
