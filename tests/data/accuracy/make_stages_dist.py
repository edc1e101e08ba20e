#!/usr/bin/env python3
"""Makes stages_dist.jsonl of this folder: steps of TRL's trainers on one rank of several, with the reference or the teacher that stands beside the policy.

    make_stages_dist.py ORACLE CONFIGS PYTHON TRL [--only TEXT]

As make_stages.py, whose stand-ins it takes: TRL's own compute_loss, its prepare_deepspeed() and prepare_fsdp() with accelerate's plugin, on PyTorch's fully_shard,
FullyShardedDataParallel and DeepSpeed's engine over a process group that moves nothing. ORACLE holds dist_trace.py and many_gpus. The reference is made on the host
in the dtype in which the policy was loaded (ref_model_init_kwargs), and prepared in __init__, before train() wraps the policy.
"""
import copy
import json
import os
import subprocess
import sys
import types

import make_stages
from make_stages import GPT2, HERE, QWEN2, QWEN3, TINY, Finder, NoKernel, patch_masks

STACK = {"torch": "2.15", "transformers": "5.23", "peft": "0.21", "trl": "1.16", "deepspeed": "0.19.8"}
LORA = dict(tuning="lora", lora={"rank": 16, "dropout": 0.05, "target_modules": ["q_proj", "v_proj"]})
CKPT = dict(gradient_checkpointing=True)
FSDP2 = dict(fsdp={"wrap": "accelerate"}, reduce_dtype="bf16")
FSDP = dict(fsdp={"backward_prefetch": "pre"}, reduce_dtype="bf16")

# name, method, ranks, config, layers, rows (samples), tokens of a row, the rest of `training`
CASES = [
    ("zero3-dpo", "zero3", 8, TINY, 6, 1, 512, dict(stage="dpo", precision="bf16")),
    ("zero3-dpo-ckpt", "zero3", 4, QWEN3, 8, 2, 512, dict(stage="dpo", precision="bf16", **CKPT)),
    ("zero3-dpo-tied", "zero3", 4, QWEN2, 6, 1, 512, dict(stage="dpo", precision="bf16")),
    ("zero3-dpo-lora", "zero3", 4, TINY, 6, 1, 512, dict(stage="dpo", precision="bf16", **LORA)),
    ("zero3-dpo-lora-ckpt", "zero3", 4, TINY, 6, 1, 512, dict(stage="dpo", precision="bf16", checkpoint_reentrant=True, **CKPT, **LORA)),
    ("zero3-dpo-precomputed", "zero3", 4, TINY, 6, 1, 512, dict(stage="dpo", reference="precomputed", precision="bf16")),
    ("zero3-distillation", "zero3", 8, TINY, 6, 1, 512, dict(stage="distillation", precision="bf16")),
    ("zero3-distillation-ckpt", "zero3", 4, QWEN3, 6, 1, 512, dict(stage="distillation", precision="bf16", **CKPT)),
    ("zero3-kto", "zero3", 4, TINY, 6, 2, 512, dict(stage="kto", precision="bf16")),
    ("zero3-kto-ckpt", "zero3", 4, QWEN2, 6, 2, 512, dict(stage="kto", precision="bf16", **CKPT)),
    ("zero3-dpo-offload", "zero3", 4, TINY, 6, 1, 512, dict(stage="dpo", precision="bf16", offload="optimizer", **CKPT)),
    ("zero3-dpo-offload-params", "zero3", 4, TINY, 6, 1, 512, dict(stage="dpo", precision="bf16", offload="optimizer+params", **CKPT)),
    ("zero2-dpo", "zero2", 4, TINY, 6, 1, 512, dict(stage="dpo", precision="bf16")),
    ("zero2-distillation", "zero2", 4, TINY, 6, 1, 512, dict(stage="distillation", precision="bf16", **CKPT)),
    ("fsdp2-dpo", "fsdp2", 8, TINY, 6, 1, 512, dict(stage="dpo", precision="bf16-mixed", **FSDP2)),
    ("fsdp2-dpo-ckpt", "fsdp2", 4, QWEN3, 8, 2, 512, dict(stage="dpo", precision="bf16-mixed", **CKPT, **FSDP2)),
    ("fsdp2-dpo-lora", "fsdp2", 4, TINY, 6, 1, 512, dict(stage="dpo", precision="bf16-mixed", **FSDP2, **LORA)),
    ("fsdp2-dpo-lora-ckpt", "fsdp2", 4, TINY, 6, 1, 512, dict(stage="dpo", precision="bf16-mixed", **CKPT, **FSDP2, **LORA)),
    ("fsdp2-kto", "fsdp2", 4, QWEN2, 6, 2, 512, dict(stage="kto", precision="bf16-mixed", **FSDP2)),
    ("fsdp2-dpo-precomputed", "fsdp2", 4, TINY, 6, 1, 512, dict(stage="dpo", reference="precomputed", precision="bf16-mixed", **FSDP2)),
    ("fsdp-dpo", "fsdp", 8, TINY, 6, 1, 512, dict(stage="dpo", precision="bf16-mixed", **FSDP)),
    ("fsdp-dpo-ckpt", "fsdp", 4, QWEN3, 8, 2, 512, dict(stage="dpo", precision="bf16-mixed", **FSDP, **CKPT)),
    ("fsdp-dpo-lora", "fsdp", 4, TINY, 6, 1, 512, dict(stage="dpo", precision="bf16-mixed", **FSDP, **LORA)),
    ("fsdp-kto", "fsdp", 4, QWEN2, 6, 2, 512, dict(stage="kto", precision="bf16-mixed", **FSDP)),
    ("fsdp_grad_op-dpo", "fsdp_grad_op", 4, TINY, 6, 1, 512, dict(stage="dpo", precision="bf16-mixed", **FSDP)),
    ("ddp-dpo", "ddp", 4, TINY, 4, 1, 512, dict(stage="dpo", precision="bf16-autocast")),
    ("ddp-distillation", "ddp", 4, TINY, 4, 1, 512, dict(stage="distillation", precision="bf16-mixed", **CKPT)),
]


def zero_config(o):
    """The file that the policy's engine has; many_gpus/parallel.py apply_zero()."""
    b, stage = o["buckets"], int(o["method"][4:])
    zero = {"stage": stage, "reduce_bucket_size": b["reduce_elems"], "allgather_bucket_size": b["allgather_elems"], "overlap_comm": o["overlap_comm"],
            "contiguous_gradients": True}
    if o["offload"] != "none":
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": o["offload_pin_memory"]}
    if o["offload"] == "optimizer+params":
        zero["offload_param"] = {"device": "cpu", "pin_memory": o["offload_pin_memory"]}
    if stage == 3:
        zero.update({"stage3_prefetch_bucket_size": b["prefetch_elems"], "stage3_max_live_parameters": b["max_live_elems"], "stage3_max_reuse_distance": b["max_live_elems"],
                     "stage3_param_persistence_threshold": b["persistence_elems"], "sub_group_size": b["sub_group_elems"]})
    return {"train_micro_batch_size_per_gpu": o["micro_batch_size"], "gradient_accumulation_steps": o["gradient_accumulation_steps"],
            "zero_allow_untested_optimizer": True, "zero_optimization": zero, o["precision"].split("-")[0]: {"enabled": True}}


def fsdp_plugin(o, model):
    """accelerate's plugin, as the Trainer's fsdp arguments make it."""
    from accelerate.utils import FullyShardedDataParallelPlugin
    second = o["method"].startswith("fsdp2")
    more = {} if second else dict(sharding_strategy="SHARD_GRAD_OP" if o["method"] == "fsdp_grad_op" else "FULL_SHARD", use_orig_params=o["use_orig_params"],
                                  backward_prefetch={"pre": "BACKWARD_PRE", "post": "BACKWARD_POST", "none": "NO_PREFETCH"}[o["backward_prefetch"]],
                                  forward_prefetch=o["forward_prefetch"], limit_all_gathers=o["limit_all_gathers"], sync_module_states=False)
    plugin = FullyShardedDataParallelPlugin(fsdp_version=2 if second else 1, auto_wrap_policy="TRANSFORMER_BASED_WRAP", cpu_ram_efficient_loading=False,
                                            cpu_offload=o["offload"] == "optimizer+params", **more)
    if o["precision"].endswith("-mixed"):
        plugin.set_mixed_precision(o["precision"].split("-")[0])
    return plugin


def accelerator_of(o, model):
    import torch
    state = types.SimpleNamespace()
    if o["method"].startswith("zero"):
        state.deepspeed_plugin = types.SimpleNamespace(deepspeed_config=zero_config(o))
    elif o["method"].startswith("fsdp"):
        state.fsdp_plugin = fsdp_plugin(o, model)
    return types.SimpleNamespace(state=state, device=torch.device("cuda", 0))


def on_host(cfg, dtype, o):
    from many_gpus import models
    model = models.build(cfg, dtype, o["attention"], "meta")
    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    model.to_empty(device="cpu")
    if tied:
        model.get_output_embeddings().weight = model.get_input_embeddings().weight
    return model.eval()


def reference_of(cfg, o):
    """create_model_from_path beside the policy, and what __init__ does with it."""
    import torch
    from many_gpus import models
    cfg = copy.deepcopy(cfg)
    cfg.use_cache = True  # its own config's: nobody turns it off
    dtype = torch.float32 if o["precision"].endswith("-mixed") and not o["method"].startswith("zero") and not o["loaded_half"] else models.DTYPES[o["precision"].split("-")[0]]
    return on_host(cfg, dtype, o)


def prepare_reference(reference, o, stage):
    from many_gpus import models
    from trl.models import prepare_deepspeed, prepare_fsdp
    from trl.trainer.utils import add_fused_lm_head, disable_dropout_in_model
    if stage != "distillation":
        disable_dropout_in_model(reference)
        add_fused_lm_head(reference)
    accelerator = accelerator_of(o, reference)
    if o["method"].startswith("zero"):
        return prepare_deepspeed(reference, accelerator)
    if o["method"].startswith("fsdp"):
        return prepare_fsdp(reference, accelerator)
    if o["autocast"]:
        models.patch_forward(reference, o)
    return reference.to("cuda")


class Stand:
    """The policy in the loop's place: a call is TRL's compute_loss, all else is the wrapped model's."""

    def __init__(self, policy, loss):
        object.__setattr__(self, "policy", policy)
        object.__setattr__(self, "loss", loss)

    def __call__(self, num_items_in_batch=None, **inputs):
        return types.SimpleNamespace(loss=self.loss(self.policy, inputs, num_items_in_batch))

    def __getattr__(self, name):
        return getattr(self.policy, name)


def install(o, stage):
    """Replaces what dist_trace does between model and loop by what the trainer of the stage does."""
    import dist_trace
    import torch
    import trl.kernels.chunked_logprob as kernel
    import trl.trainer.utils as utils
    from many_gpus import models, parallel, step
    from trl.trainer.utils import add_fused_lm_head, disable_dropout_in_model
    kernel._forward_kernel = kernel._backward_kernel = NoKernel()
    kernel._use_triton = utils._use_triton = lambda device: True
    patch_masks(torch)
    kind = make_stages.STAGES[stage["stage"]]
    fused, counts = stage["stage"] != "distillation", stage["stage"] == "distillation"
    made = types.SimpleNamespace()
    make = dist_trace.make_model
    outputs = ("log_probs", "entropy", "mean_logits") + (("is_top1",) if stage["stage"] == "dpo" else ())
    if o["method"] == "zero3":
        import transformers.integrations.deepspeed as hf
        hf.is_deepspeed_zero3_enabled = lambda: True

    def make_model(cfg, o, device):
        model = make(cfg, o, device)
        disable_dropout_in_model(model)
        if fused:
            add_fused_lm_head(model.get_base_model() if hasattr(model, "peft_config") else model, outputs=outputs)
        made.config = cfg
        return model

    tie = dist_trace.tie

    def stands(model, facts):  # the policy is on the host: the rest of __init__
        tie(model, facts)
        made.policy = model
        beside = stage["reference"] != "precomputed" and (counts or not hasattr(model, "peft_config"))
        if o["method"].startswith("zero"):
            os.environ.update(RANK=str(made.rank), WORLD_SIZE=str(o["world_size"]), LOCAL_RANK="0", MASTER_ADDR="localhost", MASTER_PORT="29500", DS_ACCELERATOR="cuda")
        made.reference = prepare_reference(reference_of(made.config, o), o, stage["stage"]) if beside and o["method"] != "ddp" else None
        made.beside = beside

    dist_trace.make_model, dist_trace.tie = make_model, stands
    wrap = dist_trace.wrap_model

    def wrap_model(cfg, o, rank):
        made.rank = rank
        record("loading")
        model, facts = wrap(cfg, o, rank)
        if made.beside and o["method"] == "ddp":  # prepare_model(evaluation_mode=True)
            made.reference = prepare_reference(reference_of(made.config, o), o, stage["stage"])
        if o["method"].startswith("fsdp"):  # trainer.py: self.model = self.model_wrapped
            made.policy = model
        made.trainer, made.compute = trainer_and_loss(stage, made)
        if hasattr(made.trainer, "args"):  # by which disable_gradient_checkpointing() turns it on again
            made.trainer.args.gradient_checkpointing_kwargs = {"use_reentrant": o["checkpoint_reentrant"]}
        record("steps")

        def loss(policy, inputs, items):
            value = kind.loss(made.trainer, made.compute, policy, dict(inputs), *([items] if counts else []))
            return value if counts else value / 1  # training_step: over the accumulation
        return Stand(model, loss), facts

    dist_trace.wrap_model = wrap_model
    shard = parallel.apply_fsdp2

    def apply_fsdp2(model, o, mesh):  # accelerate's policy has an output_dtype, too
        import torch.distributed.fsdp as fsdp
        policy = fsdp.MixedPrecisionPolicy
        fsdp.MixedPrecisionPolicy = lambda **k: policy(**dict(k, output_dtype=k.get("param_dtype")))
        shard(model, o, mesh)
        fsdp.MixedPrecisionPolicy = policy
        return model

    parallel.apply_fsdp2 = apply_fsdp2
    step.batch = lambda o, vocab: kind.batch(o, stage)
    static = step.name_static
    step.name_static = lambda history, model, optimizer: static(history, model.policy, optimizer)
    if not counts:
        batches, init = step.Kept.batches, step.Kept.__init__

        def begin(self, o):
            init(self, o)
            self.counts = self.averages = False
        step.Kept.__init__ = begin


def trainer_and_loss(stage, made):
    """What TRL's functions read of their trainer."""
    run = types.SimpleNamespace(model=made.policy)
    ready = stage["reference"] == "precomputed"
    if stage["stage"] == "dpo":
        from trl.trainer import dpo_trainer
        return make_stages.trainer_of(run, ref_model=made.reference, precompute_ref_logps=ready, ld_alpha=None, f_divergence_type="reverse_kl", loss_types=["sigmoid"],
                                      loss_weights=[1.0], beta=0.1, label_smoothing=0.0, use_weighting=False), dpo_trainer.DPOTrainer._compute_loss
    if stage["stage"] == "kto":
        import torch
        from trl.trainer.kto_trainer import KTOTrainer
        nonzero = torch.nonzero
        torch.nonzero = lambda t, **k: torch.empty((t.numel() // 2, 1), dtype=torch.int64, device=t.device) if t.dim() == 1 and t.is_cuda else nonzero(t, **k)
        trainer = make_stages.trainer_of(run, ref_model=made.reference, precompute_ref_logps=ready, calculate_KL=True, loss_type="kto", beta=0.1, desirable_weight=1.0,
                                         undesirable_weight=1.0)
        trainer._compute_kl_logps = types.MethodType(KTOTrainer._compute_kl_logps, trainer)
        return trainer, KTOTrainer._compute_loss
    from trl.experimental.gkd.gkd_trainer import GKDTrainer
    return make_stages.trainer_of(run, teacher_model=made.reference, beta=0.5, generalized_jsd_loss=GKDTrainer.generalized_jsd_loss), GKDTrainer.compute_loss


def record(since):
    import torch
    if os.environ.get("STAGE_EVENTS") and os.environ.get("STAGE_SINCE", "steps") == since:
        torch.cuda.memory._record_memory_history(max_entries=10**7, stacks="python", context="alloc")


def events(path):
    """Every birth and death of the steps, a line of JSON each."""
    import torch
    with open(path, "w", encoding="utf-8") as f:
        for e in torch.cuda.memory._snapshot()["device_traces"][0]:
            frames = [(x["filename"].split("/")[-1], x["line"], x["name"]) for x in e.get("frames") or []]
            f.write(json.dumps([e["action"], e["addr"], e["size"], e["stream"], frames[:16]]) + "\n")


def trace(oracle, trl):
    """Within the oracle's environment: the request in STAGE_REQUEST, its figures on standard output."""
    sys.path[:0] = [oracle, trl]
    sys.argv[0] = os.path.abspath(__file__)
    import environment
    environment.ensure(80, int(os.environ.get("STAGE_LAG", "0")))
    import tempfile
    sys.meta_path.append(Finder)
    import ask
    import dist_trace
    request = json.loads(os.environ["STAGE_REQUEST"])
    training = dict(request["training"])
    stage = {"stage": training.pop("stage"), "reference": training.pop("reference", None)}
    loaded_half = training["precision"].endswith("autocast") and training["methods"].startswith("fsdp")
    options = ask.for_many(request, training, []) if hasattr(ask, "for_many") else json.loads(os.environ["STAGE_OPTIONS"])
    given = {**options, "loop": "trainer", "breakdown": bool(os.environ.get("STAGE_TOP"))}
    o = dist_trace.resolve(given)
    o["loaded_half"] = loaded_half
    if training["methods"].startswith("zero"):
        import deepspeed  # noqa: F401
    install(o, stage)
    rank = int(os.environ.get("STAGE_RANK", "0"))
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(request["config"], f)
        f.flush()
        out = dist_trace.trace_rank(f.name, o, rank)
        if os.environ.get("STAGE_EVENTS"):
            events(os.environ["STAGE_EVENTS"])
    print("\n" + json.dumps(out))
    sys.stdout.flush()
    os._exit(0)


def request_of(case, configs):
    name, method, ranks, config, layers, rows, tokens, training = case
    one = make_stages.request_of((name, config, layers, rows, tokens, training), configs)
    one["cluster"].update(gpus_per_node=ranks)
    one["training"].update(methods=method)
    one["stack"] = dict(STACK, framework="transformers")
    return one


def figures(rank, zero3):
    from make_dist_cases import figures as shared
    made = shared(rank["after_init_allocated_bytes"], rank["steps"], rank["peak_reserved_bytes"])
    if zero3:  # what is reserved hangs on when blocks that another stream reads are free again: the tracer's GPU never lags, and trains two engines
        del made["peak_reserved_bytes"]
    made["active_between" if zero3 else "peak_active_bytes"] = rank["peak_active_bytes"]
    return made


def main():
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    oracle, configs, python, trl = sys.argv[1:5]
    path = os.path.join(HERE, "stages_dist.jsonl")
    rows = {}
    if only and os.path.exists(path):
        rows = {row["id"]: row for row in map(json.loads, open(path, encoding="utf-8"))}
    for case in CASES:
        if only not in case[0]:
            continue
        request, worst = request_of(case, configs), None
        for rank in range(case[2]) if case[1] in ("zero1", "zero2") else [0]:
            env = dict(os.environ, STAGE_REQUEST=json.dumps(request), STAGE_RANK=str(rank))
            told = subprocess.run([python, os.path.abspath(__file__), "--trace", oracle, trl], env=env, stdout=subprocess.PIPE).stdout
            if b"\n{" not in told:
                print("no figures: " + case[0], file=sys.stderr)
                break
            result = json.loads(told[told.rindex(b"\n{"):])
            worst = result if not worst or result["peak_allocated_bytes"] > worst["peak_allocated_bytes"] else worst
        else:
            row = {"id": "stages-dist/" + case[0], "group": "several GPUs, stages", "body": json.dumps(request, separators=(",", ":")), **figures(worst, case[1] == "zero3")}
            rows[row["id"]] = row
            with open(path, "w", encoding="utf-8") as out:
                out.writelines(json.dumps(rows[k], separators=(",", ":")) + "\n" for k in ["stages-dist/" + c[0] for c in CASES] if k in rows)


if __name__ == "__main__":
    if sys.argv[1] == "--trace":
        trace(sys.argv[2], sys.argv[3])
    else:
        main()
