#!/usr/bin/env python3
"""Makes colossal.jsonl: one rank of LLMem's runs (dp_real.py, tp_real.py of taehokim20/LLMem 3d289b4) over its Colossal-AI 0.3.0, with real PyTorch 2.2 and
transformers 4.40 on a runtime without a GPU.

    make_colossal.py ORACLE CONFIGS SITE > colossal.jsonl

run with the oracle's Python of 2024. SITE: colossalai 0.3.0 with LLMem's copy laid over it, and contexttimer (on Python 3.11 `_DistSpec` of
colossalai/tensor/distspec.py wants `__hash__ = object.__hash__`). The process group is torch's fake one; what c10d's NCCL holds beside a list of tensors (a flat
tensor, recorded on its stream) is written out here, as ProcessGroupNCCL.cpp has it. Kernels of the fused Adam are stubs: they allocate nothing. Batches are of one
length, with a mask without padding. `llmem_cdp` on several ranks is Gemini with every chunk kept whole.
"""
import json
import os
import subprocess
import sys

ORACLE, CONFIGS, SITE = sys.argv[1:4]
sys.path.insert(0, ORACLE)
sys.path.insert(0, SITE)
import environment  # noqa: E402

DEFAULTS = {"method": "llmem_cdp", "world_size": 1, "rank": 0, "tensor_parallel": 1, "micro_batch_size": 2, "seq_len": 512, "steps": 3, "cc": 70}
FOUR = dict(world_size=4)
METHODS = {"cdp": {}, "adp": dict(FOUR, method="llmem_adp"), "tp": dict(FOUR, method="llmem_tp", tensor_parallel=4),
           "dptp": dict(FOUR, method="llmem_dptp", tensor_parallel=2)}
MODELS = ["facebook__opt-125m", "facebook__opt-350m", "EleutherAI__gpt-neo-125m", "bigscience__bloom-560m", "microsoft__biogpt", "Salesforce__codegen-350M-mono"]
CASES = [(m, name, o) for m in MODELS for name, o in METHODS.items()] + [
    ("facebook__opt-125m", "cdp-2", dict(world_size=2, micro_batch_size=4)),
    ("facebook__opt-125m", "adp-8", dict(METHODS["adp"], world_size=8, micro_batch_size=1)),
    ("facebook__opt-1.3b", "adp", dict(METHODS["adp"], micro_batch_size=4)),
    ("bigcode__gpt_bigcode-santacoder", "adp", dict(METHODS["adp"], micro_batch_size=4)),
    ("bigcode__gpt_bigcode-santacoder", "tp", dict(METHODS["tp"], micro_batch_size=4)),
]


def fake_groups(world, rank):
    import torch
    import torch.distributed as dist
    from many_gpus import parallel
    parallel.init_fake(world, rank)
    new_group = dist.new_group
    dist.new_group = lambda ranks=None, *a, **k: new_group(ranks=ranks)
    from colossalai.logging.logger import DistributedLogger
    DistributedLogger._log = lambda *a, **k: None
    nccl = torch.cuda.Stream()

    def all_gather(tensor_list, tensor, group=None, async_op=False):
        flat = torch.empty(sum(t.numel() for t in tensor_list), dtype=tensor.dtype, device=tensor.device)
        flat.record_stream(nccl), tensor.record_stream(nccl)
        for t in tensor_list:
            t.record_stream(nccl)

    def reduce_scatter(output, input_list, op=None, group=None, async_op=False):
        flat = torch.empty(sum(t.numel() for t in input_list), dtype=output.dtype, device=output.device)
        flat.record_stream(nccl), output.record_stream(nccl)
        for t in input_list:
            t.record_stream(nccl)

    def all_reduce(tensor, op=None, group=None, async_op=False):
        if tensor.is_cuda:
            tensor.record_stream(nccl)
    dist.all_gather, dist.reduce_scatter, dist.all_reduce = all_gather, reduce_scatter, all_reduce
    torch.distributed.barrier = lambda *a, **k: None


def stub_kernels():
    from colossalai.kernel import op_builder

    class Ops:
        multi_tensor_adam = staticmethod(lambda *a: None)

        class CPUAdamOptimizer:
            def __init__(self, *a):
                pass
    from colossalai.amp.naive_amp.grad_scaler.dynamic_grad_scaler import DynamicGradScaler
    DynamicGradScaler._sanity_checks = lambda self: None  # it reads the device, where every number is 0
    from colossalai.nn.optimizer import cpu_adam, hybrid_adam
    for module in (op_builder, cpu_adam, hybrid_adam):
        for name in ("FusedOptimBuilder", "CPUAdamBuilder"):
            if hasattr(module, name):
                setattr(module, name, type(name, (), {"load": lambda self: Ops}))
    hybrid_adam.multi_tensor_applier = lambda op, *a: None


def build(config, o):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
    fields = json.load(open(config))
    cfg = AutoConfig.for_model(fields.pop("model_type"), **fields)
    AutoModelForCausalLM._model_mapping[type(cfg)]  # imported before ColoInitContext replaces what classes inherit

    def make():
        if o["tensor_parallel"] > 1:  # ColoInitContext brings each module to the device when it was made
            with torch.device("cuda"):
                model = AutoModelForCausalLM.from_config(cfg, attn_implementation="eager")
        else:  # pages that are never written take no memory
            with torch.device("cpu" if cfg.model_type == "codegen" else "meta"):  # it has tensors that are no buffers
                model = AutoModelForCausalLM.from_config(cfg, attn_implementation="eager")
            tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
            if cfg.model_type != "codegen":
                model.to_empty(device="cpu")
            if tied:
                model.get_output_embeddings().weight = model.get_input_embeddings().weight
            model.to("cuda")
        model.half()
        torch.cuda.empty_cache()
        model.gradient_checkpointing_enable()
        return model.train()
    if o["tensor_parallel"] == 1:
        return make(), cfg
    from colossalai.nn.parallel.layers import init_colo_module
    from colossalai.tensor import ComputePattern, ComputeSpec, ProcessGroup
    from colossalai.utils import get_current_device
    from colossalai.zero import ColoInitContext
    group = ProcessGroup(tp_degree=o["tensor_parallel"])
    with ColoInitContext(device=get_current_device()):
        model = make()
    init_colo_module(model, ComputeSpec(ComputePattern.TP1D), pg=group, recursive=True)
    torch.cuda.empty_cache()
    return model, cfg


def run(config, o):
    import torch
    from many_gpus import counters
    fake_groups(o["world_size"], o["rank"])
    stub_kernels()
    from colossalai.nn.optimizer import HybridAdam
    from colossalai.utils import get_current_device
    from colossalai.zero import zero_model_wrapper, zero_optim_wrapper
    from colossalai.zero.gemini.chunk import search_utils
    if o["method"] == "llmem_cdp" and o["world_size"] > 1:  # chunks that stay whole on each rank
        search = search_utils.search_chunk_configuration

        def kept(*a, **k):
            found = search(*a, **k)
            for v in found[0].values():
                v["keep_gathered"] = True
            return found
        from colossalai.zero.gemini.chunk import utils as chunk_utils
        chunk_utils.search_chunk_configuration = kept
    model, cfg = build(config, o)
    optimizer = HybridAdam(model.parameters(), lr=2e-5, weight_decay=0.0)
    gemini = dict(device=get_current_device(), placement_policy="cuda", pin_memory=False, strict_ddp_mode=False, search_range_mb=32, hidden_dim=None,
                  min_chunk_size_mb=32, memstats=None, mixed_precision=torch.float16)
    model = zero_model_wrapper(model, zero_stage=3, gemini_config=gemini)
    optimizer = zero_optim_wrapper(model, optimizer, optim_config=dict(gpu_margin_mem_ratio=0.0), initial_scale=2**5)
    torch.cuda.empty_cache()
    out = {"after_init_allocated_bytes": counters.read("current")["allocated"], "steps": []}
    manager = model.chunk_manager
    out["chunks"] = {k: [len(g), int(g[0].chunk_size)] for k, g in manager.chunk_groups.items()}
    for s in range(o["steps"]):
        size = (o["micro_batch_size"], o["seq_len"])
        batch = {"input_ids": torch.zeros(size, dtype=torch.long, device="cuda"), "labels": torch.zeros(size, dtype=torch.long, device="cuda"),
                 "attention_mask": torch.ones(size, dtype=torch.bool, device="cuda")}
        phases = counters.Phases()
        model.zero_grad()
        outputs = model(use_cache=False, **batch)
        loss = outputs["loss"]
        outputs = 0
        phases.end("forward")
        optimizer.backward(loss)
        phases.end("backward")
        if s == 0:
            torch.cuda.empty_cache()
        optimizer.step()
        optimizer.zero_grad()
        phases.end("optimizer")
        del batch, loss
        out["steps"].append(phases.rows)
    rows = out["steps"][-1]
    out["peak_allocated_bytes"] = max(r["peak_allocated_bytes"] for r in rows)
    out["peak_active_bytes"] = max(r["peak_active_bytes"] for r in rows)
    out["reserved_after_bytes"] = rows[-1]["reserved_bytes"]
    return out


def row_of(model, name, o, got):
    config = json.load(open(os.path.join(CONFIGS, model + ".json")))
    training = {"seq_len": o["seq_len"], "micro_batch_size": o["micro_batch_size"], "methods": o["method"]}
    if o["method"] == "llmem_dptp":
        training["tensor_parallel"] = o["tensor_parallel"]
    body = {"cluster": {"gpu": "V100-SXM2-32GB", "gpus_per_node": o["world_size"]}, "training": training, "stack": {"torch": "2.2", "transformers": "4.40"},
            "llmem": {"variant": "paper", "base_bytes": 1}, "config": config}
    row = {"id": "colossal/%s-%s" % (name, model.split("__")[1]), "group": "%s, Colossal-AI" % ("one GPU" if o["world_size"] == 1 else "several GPUs"),
           "body": json.dumps(body, separators=(",", ":")), "peak_allocated_bytes": got["peak_allocated_bytes"], "peak_active_bytes": got["peak_active_bytes"],
           "peak_reserved_bytes": got["reserved_after_bytes"]}
    if o["tensor_parallel"] == 1:  # init_colo_module() leaves a whole embedding in a cycle that nobody has collected yet
        row["static_bytes"] = got["after_init_allocated_bytes"]
    return row


def main():
    if len(sys.argv) > 4:
        config, o = sys.argv[4], {**DEFAULTS, **json.loads(sys.argv[5])}
        environment.ensure(o["cc"], 0)
        got = run(config, o)
        got.pop("steps")
        print(json.dumps(got))
        return
    for model, name, o in CASES:
        done = subprocess.run([sys.executable, *sys.argv, os.path.join(CONFIGS, model + ".json"), json.dumps(o)], capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr[-3000:])
        print(json.dumps(row_of(model, name, {**DEFAULTS, **o}, json.loads(done.stdout.strip().splitlines()[-1])), separators=(",", ":")), flush=True)


if __name__ == "__main__":
    main()
