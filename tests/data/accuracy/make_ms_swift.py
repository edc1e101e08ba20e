#!/usr/bin/env python3
"""Makes ms_swift.jsonl of this folder: preference training by ms-swift's own DPOTrainer on the oracle's loop.

    make_ms_swift.py ORACLE CONFIGS PYTHON PACKAGES [--only TEXT]

ORACLE holds trace.py and one_gpu; PYTHON is that of its environment (torch 2.15, transformers 5.23, peft 0.21); PACKAGES has swift/ of modelscope/ms-swift 4.6.0 and trl/ of trl 0.29,
of whose files the functions of a step are taken by name. All tokens count.
"""
import ast
import contextlib
import os
import sys
import types

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import make_llama_factory  # noqa: E402
import make_stages  # noqa: E402

TINY, GPT2, QWEN2, QWEN3, GEMMA, LORA = make_stages.TINY, make_stages.GPT2, make_stages.QWEN2, make_stages.QWEN3, make_stages.GEMMA, make_stages.LORA

CASES = [
    ("dpo-lora", QWEN3, 4, 1, 512, dict(stage="dpo", precision="bf16-autocast", **LORA)),
    ("dpo-lora-ckpt", TINY, 0, 2, 512, dict(stage="dpo", precision="bf16-autocast", gradient_checkpointing=True, **LORA)),
    ("dpo-lora-pure", QWEN2, 4, 2, 384, dict(stage="dpo", precision="bf16", **LORA)),
    ("dpo-full", QWEN3, 4, 1, 512, dict(stage="dpo", precision="bf16-mixed")),
    ("dpo-full-pure", QWEN2, 4, 1, 512, dict(stage="dpo", precision="bf16")),
    ("dpo-softcap", GEMMA, 3, 1, 384, dict(stage="dpo", precision="bf16-autocast", **LORA)),
]
TAKEN = {"swift/rlhf_trainers/dpo_trainer.py": ["concatenated_forward", "compute_ref_log_probs", "dpo_loss", "get_batch_loss_metrics", "compute_loss"],
         "swift/rlhf_trainers/rlhf_mixin.py": ["get_per_token_logps"], "swift/trainers/mixin.py": ["prepare_logits_to_keep"]}


def functions(packages):
    import typing
    import torch
    import torch.nn.functional as F
    made = {"torch": torch, "F": F, "nn": torch.nn, "nullcontext": contextlib.nullcontext, "PreTrainedModel": object, "is_mp": lambda: False}
    made.update((name, getattr(typing, name)) for name in ("Any", "Dict", "List", "Literal", "Optional", "Tuple", "Union"))
    wanted = {"trl/trainer/utils.py": ["selective_log_softmax"], **TAKEN}
    for name, names in wanted.items():
        with open(os.path.join(packages, name), encoding="utf-8") as f:
            tree = ast.parse(f.read())
        found = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name in names]
        for n in found:
            n.decorator_list = []
        tree.body = found
        exec(compile(tree, name, "exec"), made)  # pylint: disable=exec-used
    return made


class Dpo:
    names = ("input_ids", "attention_mask", "labels")

    @staticmethod
    def prepare(run, stage):
        import torch
        from one_gpu import step
        from transformers.trainer_pt_utils import get_parameter_names  # noqa: F401  (the Trainer's module is there)
        made = functions(Dpo.packages)
        peft = hasattr(run.model, "peft_config")
        for m in run.model.modules():
            if isinstance(m, torch.nn.Dropout):
                m.p = 0
        reference = None
        if not peft:
            reference = make_stages.reference_of(run)
            step.wrap_precision(reference, run.o["precision"])
        one = types.SimpleNamespace(device=torch.device("cuda"), gather_for_metrics=lambda x: x)
        trainer = types.SimpleNamespace(
            model=run.model, ref_model=reference, accelerator=one, template=types.SimpleNamespace(sequence_parallel_size=1, padding_free=False), beta=0.1,
            label_smoothing=0.0, loss_type=["sigmoid"], loss_weights=None, aux_loss_enabled=False, is_encoder_decoder=False, label_pad_token_id=-100,
            reference_free=False, f_divergence_type="reverse_kl", use_weighting=False, _peft_has_been_casted_to_bf16=False, model_accepts_loss_kwargs=True,
            args=types.SimpleNamespace(ld_alpha=None, rpo_alpha=None, gradient_accumulation_steps=1, device=torch.device("cuda")),
            get_use_logits_to_keep=lambda default: default, store_metrics=lambda metrics, train_eval: None,
            null_ref_context=lambda: run.model.disable_adapter() if peft else contextlib.nullcontext())
        for names in TAKEN.values():
            for name in names:
                setattr(trainer, name, types.MethodType(made[name], trainer))
        trainer.concatenated_forward_of = trainer.concatenated_forward
        real = trainer.get_per_token_logps
        trainer.get_per_token_logps = lambda *a, **k: (run.phase("loss") if torch.is_grad_enabled() else None, real(*a, **k))[1]

        def keep(inputs):  # every token counts: one more than there are, which keeps all
            labels = inputs["labels"]
            (labels != -100).int().argmax(-1).min()
            inputs["labels"], inputs["logits_to_keep"] = labels[:, -(labels.shape[-1] + 1):], labels.shape[-1] + 1

        trainer.prepare_logits_to_keep = keep
        return trainer, None

    @staticmethod
    def batch(o, stage):
        import torch
        return {name: torch.empty((2 * o["micro_batch_size"], o["seq_len"]), dtype=torch.int64, device="cuda") for name in Dpo.names}

    @staticmethod
    def loss(trainer, _, model, batch):
        return trainer.compute_loss(model, batch, num_items_in_batch=trainer.items)


def patch(stage):
    """make_llama_factory.patch() with the count of items that the Trainer makes"""
    from one_gpu import step
    count = step.Run.count_items
    make_llama_factory.patch(stage)
    begin = step.Run.__init__

    def counting(run, path, o, phase):
        begin(run, path, o, phase)
        run.takes_count = True

    def loss(run, batch, items=None):
        run.stage[0].items = items
        return Dpo.loss(*run.stage, run.model, dict(batch))

    step.Run.__init__, step.Run.count_items, step.Run.compute_loss = counting, count, loss


def trace(oracle, packages):
    """Within the oracle's environment: the request in STAGE_REQUEST, its figures on standard output."""
    Dpo.packages = packages
    make_stages.STAGES = {"dpo": Dpo}
    make_stages.patch, make_stages.__file__ = patch, __file__
    make_stages.trace(oracle, os.path.join(packages, "none"))


if __name__ == "__main__":
    if sys.argv[1] == "--trace":
        trace(sys.argv[2], sys.argv[3])
    else:
        make_stages.collect("ms_swift", __file__, CASES, "ms-swift")
