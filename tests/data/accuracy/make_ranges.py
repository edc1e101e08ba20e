#!/usr/bin/env python3
"""Makes ranges.jsonl of this folder: what torch.compile's partitioner keeps of a layer, and peaks that were published of compiled and float8 steps.

    make_ranges.py PUBLISHED CONFIGS > ranges.jsonl

run with the oracle's Python (torch 2.15, transformers 5.23), on the CPU. PUBLISHED has a case a line with `request`, `config_file`, `metric` and `expected`.

kept       bytes between forward and backward a layer and token, of real models compiled as one graph: the difference of two depths. AOTAutograd with Inductor's
           decompositions and min_cut_rematerialization_partition; what a forward hands out that no argument of it is
published  somebody's figure; frameworks with models of their own are asked as a plain loop
"""
import functools
import json
import os
import sys

import torch
from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd
from torch._inductor.decomposition import select_decomp_table
from transformers import AutoConfig, AutoModelForCausalLM

ROWS, TOKENS, DEPTHS = 2, 256, (3, 5)
GATED = dict(hidden_size=256, intermediate_size=896, num_attention_heads=8, num_key_value_heads=2, vocab_size=1024, max_position_embeddings=8192, dtype="bfloat16")
PLAIN = dict(hidden_size=256, intermediate_size=1024, num_attention_heads=8, vocab_size=1024, max_position_embeddings=8192, dtype="bfloat16")
MODELS = {
    "llama": GATED, "qwen2": GATED, "qwen3": dict(GATED, head_dim=32), "olmo2": GATED, "granite": GATED, "gpt_neox": PLAIN, "phi": PLAIN,
    "gemma2": dict(GATED, head_dim=32),
}
EAGER = {"gemma2"}


def kept(config, attention):
    sizes = []

    def forward(gm, inputs):
        out = next(n for n in gm.graph.nodes if n.op == "output").args[0]
        made = {n for n in out if getattr(n, "op", "placeholder") != "placeholder"}
        sizes.append(sum(n.meta["val"].numel() * n.meta["val"].element_size() for n in made if isinstance(n.meta.get("val"), torch.Tensor)))
        return make_boxed_func(gm.forward)

    torch._dynamo.reset()
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation=attention).train()
    cut = functools.partial(min_cut_rematerialization_partition, compiler="inductor")
    backend = aot_autograd(fw_compiler=forward, bw_compiler=lambda gm, inputs: make_boxed_func(gm.forward), partition_fn=cut,
                           decompositions=select_decomp_table())
    ids = torch.zeros(ROWS, TOKENS, dtype=torch.int64)
    torch.compile(model, backend=backend)(input_ids=ids, labels=ids, use_cache=False).loss.backward()
    assert len(sizes) == 1, "one graph"
    return sizes[0]


def kept_row(name, given):
    depth = "num_hidden_layers"
    attention = "eager" if name in EAGER else "sdpa"
    shallow, deep = (kept(AutoConfig.for_model(name, **given, **{depth: n}), attention) for n in DEPTHS)
    body = {"config": dict(given, model_type=name), "cluster": {"gpu": "H100-80GB"},
            "training": dict(methods="single", tuning="full", precision="bf16", optimizer="sgd", gradient_checkpointing=False, attention=attention, compile=True,
                             seq_len=TOKENS), "stack": {"torch": "2.15", "transformers": "5.23"}}
    return {"id": "kept-" + name, "kind": "kept", "depth": depth, "body": json.dumps(body, separators=(",", ":")),
            "bytes": (deep - shallow) / (DEPTHS[1] - DEPTHS[0]) / ROWS / TOKENS}


def published_rows(path, configs):
    for case in map(json.loads, open(path, encoding="utf-8")):
        training = (case.get("request") or {}).get("training", {})
        if not (training.get("compile") or training.get("float8", "none") != "none") or training.get("context_parallel", 1) > 1:
            continue
        if "thunder" in case["id"] or (training.get("tensor_parallel", 1) > 1):
            continue
        request = json.loads(json.dumps(case["request"]))
        request["stack"]["framework"] = "torch"
        config = json.load(open(os.path.join(configs, case["config_file"]), encoding="utf-8"))
        request["config"] = {k: v for k, v in config.items() if not k.startswith("_")}
        yield {"id": case["id"], "kind": "published", "source_ref": case["source_ref"], "grade": case["grade"], "metric": case["metric"].split("_")[1],
               "bytes": case["expected"], "body": json.dumps(request, separators=(",", ":"))}


def main():
    for name, given in MODELS.items():
        print(json.dumps(kept_row(name, given)), flush=True)
    for row in published_rows(*sys.argv[1:3]):
        print(json.dumps(row))


if __name__ == "__main__":
    main()
