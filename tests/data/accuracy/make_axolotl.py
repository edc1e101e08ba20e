#!/usr/bin/env python3
"""Makes axolotl.jsonl of this folder: preference training by axolotl's trainers, that is trl 1.9's own losses on the oracle's loop; of DPO the cache is emptied after each step.

    make_axolotl.py ORACLE CONFIGS PYTHON PACKAGES [--only TEXT]

ORACLE holds trace.py and one_gpu; PYTHON is that of its environment (torch 2.15, transformers 5.23, peft 0.21); PACKAGES is a folder with an unpacked trl 1.9.0 wheel. axolotl 0.19.0
core/trainers/dpo/trainer.py adds nothing to the loss; gc.collect() and empty_cache() follow training_step(). All tokens count. Cases with prepare_kbit want AXOLOTL, the src folder of
0.19.0, whose loader casts the policy and the reference (make_casts.py).
"""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import make_stages  # noqa: E402

STUBS = list(make_stages.STUBS)
import make_llama_factory  # noqa: E402

TINY, QWEN2, QWEN3, GEMMA, LORA = make_stages.TINY, make_stages.QWEN2, make_stages.QWEN3, make_stages.GEMMA, make_stages.LORA

# name, config, layers (0: as they are), rows (samples), tokens of a row, the rest of `training`
CASES = [
    ("dpo-lora", QWEN3, 4, 1, 512, dict(stage="dpo", precision="bf16-autocast", **LORA)),
    ("dpo-lora-ckpt", TINY, 0, 2, 512, dict(stage="dpo", precision="bf16-autocast", gradient_checkpointing=True, **LORA)),
    ("dpo-lora-pure", QWEN2, 4, 2, 384, dict(stage="dpo", precision="bf16", **LORA)),
    ("dpo-full", QWEN3, 4, 1, 512, dict(stage="dpo", precision="bf16-mixed")),
    ("dpo-full-autocast", TINY, 4, 2, 300, dict(stage="dpo", precision="bf16-autocast", gradient_checkpointing=True)),
    ("dpo-precomputed", QWEN2, 4, 2, 512, dict(stage="dpo", reference="precomputed", precision="bf16-autocast", **LORA)),
    ("orpo", QWEN3, 4, 1, 512, dict(stage="orpo", precision="bf16")),
    ("orpo-lora", TINY, 0, 2, 512, dict(stage="orpo", precision="bf16-autocast", gradient_checkpointing=True, **LORA)),
    ("kto-lora", TINY, 0, 2, 512, dict(stage="kto", precision="bf16-autocast", gradient_checkpointing=True, **LORA)),
    ("kto-full", QWEN3, 4, 4, 256, dict(stage="kto", precision="bf16")),
    ("simpo-mixed", QWEN2, 4, 2, 300, dict(stage="simpo", precision="bf16-mixed")),
    ("dpo-moe", make_stages.MOE, 2, 1, 257, dict(stage="dpo", precision="bf16-autocast", gradient_checkpointing=True, **LORA)),
    ("kto-moe", make_stages.MOE, 2, 2, 257, dict(stage="kto", precision="bf16")),
    ("dpo-full-cast", QWEN3, 4, 1, 384, dict(stage="dpo", precision="bf16-autocast", prepare_kbit="axolotl")),
    ("kto-full-cast", TINY, 4, 2, 257, dict(stage="kto", precision="bf16-autocast", gradient_checkpointing=True, prepare_kbit="axolotl")),
    ("orpo-cast", QWEN2, 4, 1, 300, dict(stage="orpo", precision="bf16-autocast", prepare_kbit="axolotl")),
    ("dpo-softcap", GEMMA, 3, 1, 384, dict(stage="dpo", precision="bf16-autocast", **LORA)),
]


class Dpo(make_stages.Dpo):
    @staticmethod
    def prepare(run, stage):
        import torch
        from one_gpu import step
        from trl.trainer import dpo_trainer
        from trl.trainer.utils import disable_dropout_in_model
        peft = hasattr(run.model, "peft_config")
        reference = None if peft or stage["reference"] == "precomputed" else make_stages.reference_of(run)
        disable_dropout_in_model(run.model)
        if reference is not None:
            disable_dropout_in_model(reference)
            step.wrap_precision(reference, run.o["precision"])
        real = dpo_trainer.selective_log_softmax
        dpo_trainer.selective_log_softmax = lambda *a: (run.phase("loss") if torch.is_grad_enabled() else None, real(*a))[1]
        return make_stages.trainer_of(run, ref_model=reference, precompute_ref_logps=stage["reference"] == "precomputed", ld_alpha=None, f_divergence_type="reverse_kl",
                                      loss_types=["sigmoid"], loss_weights=[1.0], beta=0.1, label_smoothing=0.0, use_weighting=False), dpo_trainer.DPOTrainer._compute_loss


class Kto(make_stages.Kto):
    @staticmethod
    def prepare(run, stage):
        import types
        import torch
        from one_gpu import step
        from trl.trainer import kto_trainer
        from trl.trainer.utils import disable_dropout_in_model
        reference = None if hasattr(run.model, "peft_config") or stage["reference"] == "precomputed" else make_stages.reference_of(run)
        disable_dropout_in_model(run.model)
        if reference is not None:
            step.wrap_precision(reference, run.o["precision"])
        real = kto_trainer.selective_log_softmax
        kto_trainer.selective_log_softmax = lambda logits, *a: (run.phase("loss") if logits.requires_grad else None, real(logits, *a))[1]
        trainer = make_stages.trainer_of(run, ref_model=reference, precompute_ref_logps=stage["reference"] == "precomputed", calculate_KL=True, loss_type="kto", beta=0.1,
                                         desirable_weight=1.0, undesirable_weight=1.0, use_liger_kernel=False)
        trainer._compute_kl_logps = types.MethodType(kto_trainer.KTOTrainer._compute_kl_logps, trainer)
        return trainer, kto_trainer.KTOTrainer._compute_loss


def patch(stage):
    make_llama_factory.patch(stage)
    if stage["stage"] != "dpo":
        return
    from one_gpu import step
    micro = step.Run.training_step if hasattr(step.Run, "training_step") else None
    if micro is None:
        sys.exit("the oracle's loop has no training_step to follow")

    def and_empty(run, *a, **k):
        import gc
        import torch
        made = micro(run, *a, **k)
        gc.collect()
        torch.cuda.empty_cache()
        return made
    step.Run.training_step = and_empty


def trace(oracle, packages):
    make_stages.STAGES = {"dpo": Dpo, "orpo": make_stages.Orpo, "simpo": make_stages.Orpo, "kto": Kto}
    make_stages.STUBS[:] = STUBS
    make_stages.patch, make_stages.__file__ = patch, __file__
    request = json.loads(os.environ["STAGE_REQUEST"])
    if request["training"].pop("prepare_kbit", None):
        sys.path.insert(0, oracle)
        import environment
        environment.ensure()
        import make_casts
        from one_gpu import step
        meta, training = step.model_on_meta, dict(request["training"])
        step.model_on_meta = lambda *a: (make_casts.cast(os.environ["AXOLOTL"], meta(*a)[0], training), a[2])
        os.environ["STAGE_REQUEST"] = json.dumps(request)
    make_stages.trace(oracle, packages)


if __name__ == "__main__":
    if sys.argv[1] == "--trace":
        trace(sys.argv[2], sys.argv[3])
    else:
        make_stages.collect("axolotl", __file__, CASES, "axolotl")
