#!/usr/bin/env python3
"""Makes generate_types.jsonl of this folder: generate() of small models of each type, by release, as the oracle's runtime counts it.

    PYTHONPATH=RELEASE:.. PYTHON make_generate_types.py ORACLE RELEASE [TYPE..] [--ways sdpa,eager] [--over JSON] [--beside PROGRAM [--shapes N --seed N]]

PYTHON and PYTHONPATH as make_releases.py says. Configs are those of tests/data/families.jsonl. Each generation runs in a process of its own, forked once all is imported.

--beside: writes no file; what PROGRAM (llmemd) answers of each is printed beside the trace. --shapes: of N generations that tools/drawn_shapes.py draws.
"""
import argparse
import functools
import gc
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile

from make_generate_random import load

HERE = os.path.dirname(os.path.abspath(__file__))
BASE = {"weights": "bf16", "attention": "sdpa", "batch": 2, "prompt": 150, "new": 9, "cache": None, "padded": False, "drawn": None, "use_cache": None}
WAYS = {"sdpa": {}, "eager": {"attention": "eager", "prompt": 37, "new": 12}, "padded": {"padded": True, "batch": 3, "prompt": 40}, "one": {"batch": 1, "prompt": 700, "new": 3},
        "long": {"batch": 1, "prompt": 5, "new": 90}, "fp32": {"weights": "fp32", "prompt": 33}, "nf4": {"weights": "nf4"}, "int8": {"weights": "int8", "prompt": 70},
        "wide": {"drawn": {"top_p": 0.9}, "batch": 5, "prompt": 20}, "gqa": {"padded": True, "batch": 3, "prompt": 700, "new": 4}, "drawn": {"drawn": {"top_k": 50}}, "nucleus": {"drawn": {"top_k": 0, "top_p": 0.9, "temperature": 0.7}, "batch": 16}, "both": {"drawn": {"top_p": 0.9}, "batch": 16, "prompt": 3},
        "static": {"cache": "static"}, "static-padded": {"cache": "static", "padded": True, "batch": 3, "prompt": 40}, "fp8": {"cache": "fp8"},
        "uncached": {"use_cache": False}, "uncached-eager": {"use_cache": False, "attention": "eager", "prompt": 37, "new": 12},
        "uncached-padded": {"use_cache": False, "padded": True, "batch": 3, "prompt": 40}, "uncached-one": {"use_cache": False, "batch": 1, "prompt": 5, "new": 90}}
CACHES = {None: {}, "fp8": {"cache_implementation": "quantized", "cache_config": {"backend": "fp8"}},
          "static": {"cache_implementation": "static", "disable_compile": True}}
FIGURES = ("static_bytes", "prefill_bytes", "decode_bytes", "peak_allocated_bytes", "peak_reserved_bytes")


def experts_of(config):
    """What a loop over experts is told: the first of 5 and before are modules in turn."""
    inner = config.get("text_config", config)
    n, k = ([inner[k] for k in names if inner.get(k)] for names in (("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"),
                                                                   ("num_experts_per_tok", "num_experts_per_token", "moe_topk")))
    return (n[0], k[0] if k else 1) if n else (None, 1)


def rows_alike():
    """The host is told how many rows each expert has, of one token too."""
    from transformers.models.jetmoe import modeling_jetmoe
    theirs = modeling_jetmoe.JetMoeParallelExperts.forward

    def forward(self, inputs, expert_size):
        rows, parts = len(inputs), self.num_experts
        return theirs(self, inputs, [rows // parts + (1 if i < rows % parts else 0) for i in range(parts)])

    modeling_jetmoe.JetMoeParallelExperts.forward = forward


def trace(config, asked):
    import torch
    from one_gpu import emulate, step
    torch.cuda._is_in_bad_fork, torch.cuda._initialized = (lambda: False), True  # no driver is there to mind
    version = tuple(int(n) for n in importlib.metadata.version("transformers").split(".")[:2])
    if (5, 0) <= version < (5, 2):
        on_meta = step.model_on_meta

        def tied(*of):
            model, attention = on_meta(*of)
            model.tie_weights()
            return model, attention

        step.model_on_meta = tied
    if "text_config" in config or "vision_config" in config:
        import transformers
        whole = transformers.AutoModelForImageTextToText._model_mapping
        if transformers.CONFIG_MAPPING[config["model_type"]] in whole:
            transformers.AutoModelForCausalLM._model_mapping = whole
    experts, top_k = experts_of(config) if version < (5, 0) else (None, 1)
    if config["model_type"] == "dbrx":  # its experts are a loop in every release
        experts, top_k = config["ffn_config"]["moe_num_experts"], config["ffn_config"]["moe_top_k"]
    if config["model_type"] == "jetmoe":
        rows_alike()
    reads = emulate.DeviceReads(asked["padded"], asked["batch"], asked["prompt"], 1 if asked["padded"] else 0, experts, top_k)
    reads.install()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "config.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(config, f)
        if asked["weights"] == "fp32":
            model, used = step.model_on_meta(step.load_config(path, {}), torch.float32, asked["attention"])
            step.materialise(model)
        else:
            model, used = load({**asked, "config": {"torch_dtype": "bfloat16", **config}}, path)
    model.eval()
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    figures, left = {"static_bytes": torch.cuda.memory_allocated()}, [asked["new"]]
    ids, mask = (torch.empty((asked["batch"], asked["prompt"]), dtype=torch.int64, device="cuda") for _ in range(2))
    name = "_prefill" if hasattr(type(model), "_prefill") else "forward"  # before 5.0 the first forward is the prompt's
    inner = getattr(type(model), name)

    @functools.wraps(inner)
    def prefill(self, *args, **kwargs):
        out = inner(self, *args, **kwargs)
        if "prefill_bytes" not in figures:
            figures["prefill_bytes"] = torch.cuda.max_memory_allocated()
            torch.cuda.reset_peak_memory_stats()
        return out

    def unfinished(self, *args, **kwargs):
        left[0] -= 1
        reads.seq = asked["prompt"] + asked["new"] - left[0] - 1 if asked["use_cache"] is False or left[0] == asked["new"] - 1 else 1  # of the next forward
        return left[0] >= 0

    setattr(type(model), name, prefill)
    type(model)._has_unfinished_sequences = unfinished
    model.generation_config.eos_token_id = model.generation_config.pad_token_id = None
    made = torch.arange

    def counted(*of, **how):
        """Where a text that is read anew ends, which _update_model_kwargs_for_generation() reads from the device."""
        return made(0, 1, **how) if len(of) == 2 and all(isinstance(n, torch.Tensor) and n.is_cuda for n in of) else made(*of, **how)

    torch.arange = counted
    with torch.no_grad():
        model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=asked["new"], do_sample=asked["drawn"] is not None, **(asked["drawn"] or {}),
                       **CACHES[asked["cache"]], **({} if asked["use_cache"] is None else {"use_cache": asked["use_cache"]}))
    figures["decode_bytes"] = torch.cuda.max_memory_allocated()
    figures["peak_allocated_bytes"] = max(figures["prefill_bytes"], figures["decode_bytes"])
    figures["peak_reserved_bytes"] = torch.cuda.memory_reserved()
    return figures, used


def forked(config, asked):
    handle, name = tempfile.mkstemp()
    os.close(handle)
    child = os.fork()
    if child == 0:
        try:
            figures, used = trace(config, asked)
            told = {"figures": figures, "attention": used}
        except BaseException as e:  # a release may refuse
            if os.environ.get("RAISE"):
                raise
            told = {"error": "%s: %s" % (type(e).__name__, str(e)[:300])}
        with open(name, "w", encoding="utf-8") as f:
            json.dump(told, f, default=str)
        os._exit(0)
    os.waitpid(child, 0)
    with open(name, encoding="utf-8") as f:
        text = f.read()
    os.unlink(name)
    return json.loads(text) if text else {"error": "died"}


def request_of(config, asked, stack, used):
    inference = {"prompt_tokens": asked["prompt"], "new_tokens": asked["new"], "batch_size": asked["batch"], "weights": asked["weights"], "engine": "transformers"}
    if asked["cache"]:
        inference["kv_cache" if asked["cache"] == "fp8" else "cache"] = asked["cache"]
    if asked["use_cache"] is not None:
        inference["use_cache"] = asked["use_cache"]
    if asked["drawn"] is not None:
        inference.update(do_sample=True, **asked["drawn"])
    config = {"torch_dtype": "bfloat16", **config}
    return {"workload": "inference", "cluster": {"gpu": "A100-80GB"}, "training": {"attention": used, "padded": asked["padded"]}, "inference": inference, "stack": stack, "config": config}


def beside(program, kind, name, request, told):
    done = subprocess.run([program, "estimate", "--offline", "--json"], input=json.dumps(request), capture_output=True, text=True)
    answer = json.loads(done.stdout or "{}")
    first = (answer.get("candidates") or [{}])[0]
    ours, theirs = first.get("memory"), told.get("figures")
    refused = "" if ours else (first.get("reason") or answer).get("detail") or done.stderr[-200:]
    if not ours or not theirs:
        print("%s %s: %s; traced: %s" % (kind, name, refused or ours["peak_allocated_bytes"], theirs["peak_allocated_bytes"] if theirs else told["error"]), flush=True)
        return
    ours = {"static_bytes": ours["static_bytes"], "prefill_bytes": ours["phase_peaks_bytes"]["prefill"], "decode_bytes": ours["phase_peaks_bytes"]["decode"],
            "peak_reserved_bytes": ours["peak_reserved_bytes"], "peak_allocated_bytes": ours["peak_allocated_bytes"]}
    off = {k: ours[k] - theirs[k] for k in FIGURES if ours[k] != theirs[k]}
    print("%s %s: %s" % (kind, name, "equal" if not off else "%+.4f %% %s" % (100 * off.get("peak_allocated_bytes", 0) / theirs["peak_allocated_bytes"], off)), flush=True)


def drawn(only, seed, n):
    """(type, config, what is asked) of any shape."""
    import random

    sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "tools"))
    import drawn_shapes
    r = random.Random(seed)
    for _ in range(n):
        kind, config = drawn_shapes.config(r, ",".join(only) + "," if only else "")
        yield kind, config, {
            "weights": r.choice(["bf16", "bf16", "bf16", "fp32", "nf4", "int8"]), "attention": r.choice(["sdpa", "sdpa", "eager"]), "batch": r.choice([1, 1, 2, 3, 5]),
            "prompt": r.choice([1, 2, 7, 33, 100, 257, 700]), "new": r.choice([2, 3, 9, 20, 65]), "cache": r.choice([None, None, None, None, "static"]),
            "padded": r.random() < 0.25, "drawn": r.choice([None, None, {"top_k": 50}, {"top_p": 0.9}]), "use_cache": r.choice([None, None, None, False])}


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("oracle"), a.add_argument("release"), a.add_argument("types", nargs="*"), a.add_argument("--beside")
    a.add_argument("--ways", help="of WAYS, joined by commas", default="sdpa"), a.add_argument("--over", type=json.loads, default={}, help="JSON: what is put over the config")
    a.add_argument("--shapes", type=int), a.add_argument("--seed", type=int, default=1)
    a.add_argument("--asked", type=json.loads, default={}, help="JSON: what is put over what is asked")
    a = a.parse_args()
    sys.path.insert(0, a.oracle)
    os.environ.update(NULLCUDA_CC="80", NULLCUDA_SMS="108", NULLCUDA_TPM="2048", NULLCUDA_BPM="32", PYTHONHASHSEED="0")
    import environment

    environment.ensure(80)
    from one_gpu import emulate

    emulate.install_flash_attn()
    import accelerate  # noqa: F401
    import bitsandbytes  # noqa: F401
    import torch
    import transformers.modeling_utils  # noqa: F401
    from one_gpu import step  # noqa: F401
    from transformers import AutoModelForCausalLM  # noqa: F401

    torch.cuda.init()
    stack = {n: ".".join(importlib.metadata.version(n).split("+")[0].split(".")[:2]) for n in ("torch", "transformers", "bitsandbytes", "accelerate")}
    assert stack["transformers"] == a.release, stack
    configs = {}
    for line in open(os.path.join(HERE, "..", "families.jsonl"), encoding="utf-8"):
        row = json.loads(line)
        if "config" in row and not row.get("stage"):
            configs.setdefault(row["config"]["model_type"], row["config"])
    target, rows = os.path.join(HERE, "generate_types.jsonl"), {}
    if os.path.exists(target):
        rows = {json.loads(line)["id"]: line for line in open(target, encoding="utf-8")}
    for i, (kind, config, asked) in enumerate(drawn(a.types, a.seed, a.shapes or 0)):
        told = forked(config, asked)
        beside(a.beside, "%d %s" % (i, kind), json.dumps(asked), request_of(config, asked, stack, told.get("attention", asked["attention"])), told)
        if os.environ.get("DRAWN"):
            with open(os.environ["DRAWN"], "a", encoding="utf-8") as f:
                f.write(json.dumps({"i": i, "config": config, "asked": asked, "told": told}) + "\n")
    for kind in [] if a.shapes else a.types or configs:
        for way in a.ways.split(","):
            config, asked = {**configs[kind], **a.over}, {**BASE, **WAYS[way], **a.asked}
            told = forked(config, asked)
            request = request_of(config, asked, stack, told.get("attention", asked["attention"]))
            if a.beside:
                beside(a.beside, kind, way, request, told)
                continue
            if "error" in told:
                print(kind, way, told["error"], file=sys.stderr, flush=True)
                continue
            row = {"id": "generate-types/%s/%s/%s" % (kind, a.release, way), "group": "generation", "body": json.dumps(request, separators=(",", ":")), **told["figures"]}
            rows[row["id"]] = json.dumps(row, separators=(",", ":")) + "\n"
            print(kind, way, told["figures"], flush=True)
    if not a.beside:
        with open(target, "w", encoding="utf-8") as out:
            out.writelines(rows[k] for k in sorted(rows))


if __name__ == "__main__":
    main()
