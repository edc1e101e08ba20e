#!/usr/bin/env python3
"""Makes ms_swift.jsonl of this folder: preference training by ms-swift's own trainers on the oracle's loop.

    make_ms_swift.py ORACLE CONFIGS PYTHON PACKAGES [--only TEXT]

ORACLE holds trace.py and one_gpu; PYTHON is that of its environment (torch 2.15, transformers 5.23, peft 0.21); PACKAGES has swift/ of modelscope/ms-swift 4.6.0 and trl/ of trl 0.29.1,
of whose files the functions of a step are taken by name. All tokens count; of a batch of one row of kto all but the first.
"""
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
    ("orpo-lora", QWEN3, 4, 2, 512, dict(stage="orpo", precision="bf16-autocast", **LORA)),
    ("orpo-full-pure", QWEN2, 4, 1, 512, dict(stage="orpo", precision="bf16")),
    ("cpo-lora-ckpt", TINY, 0, 2, 512, dict(stage="cpo", precision="bf16-autocast", gradient_checkpointing=True, **LORA)),
    ("cpo-lora-pure", QWEN2, 4, 2, 384, dict(stage="cpo", precision="bf16", **LORA)),
    ("simpo-full", QWEN3, 4, 1, 512, dict(stage="simpo", precision="bf16-mixed")),
    ("simpo-lora", QWEN2, 4, 1, 768, dict(stage="simpo", precision="bf16-autocast", **LORA)),
    ("kto-lora", QWEN3, 4, 2, 512, dict(stage="kto", precision="bf16-autocast", **LORA)),
    ("kto-lora-one", QWEN2, 4, 1, 512, dict(stage="kto", precision="bf16-autocast", **LORA)),
    ("kto-lora-ckpt", TINY, 0, 4, 384, dict(stage="kto", precision="bf16-autocast", gradient_checkpointing=True, **LORA)),
    ("kto-full", QWEN2, 4, 3, 256, dict(stage="kto", precision="bf16-mixed")),
    ("kto-full-pure", QWEN3, 4, 1, 384, dict(stage="kto", precision="bf16")),
]
MIXIN, KEEPS = ("swift/rlhf_trainers/rlhf_mixin.py", "RLHFTrainerMixin"), ("swift/trainers/mixin.py", "SwiftMixin", "prepare_logits_to_keep")
PAIRS = ("concatenated_forward", "get_batch_loss_metrics", "get_batch_logps", "compute_loss")
CPO = ("CPOTrainer", [MIXIN + ("concatenated_forward", "compute_loss"), ("trl/experimental/cpo/cpo_trainer.py", "CPOTrainer", "cpo_loss", "concatenated_inputs", *PAIRS)])
TAKEN = {"dpo": ("DPOTrainer", [("swift/rlhf_trainers/dpo_trainer.py", "DPOTrainer", "concatenated_forward", "compute_ref_log_probs", "dpo_loss", "get_batch_loss_metrics",
                                 "compute_loss"), MIXIN + ("get_per_token_logps",)]),
         "orpo": ("ORPOTrainer", [MIXIN + ("concatenated_forward", "compute_loss"),
                                  ("trl/experimental/orpo/orpo_trainer.py", "ORPOTrainer", "odds_ratio_loss", "concatenated_inputs", *PAIRS)]),
         "cpo": CPO, "simpo": CPO,
         "kto": ("KTOTrainer", [("swift/rlhf_trainers/kto_trainer.py", "KTOTrainer", "forward", "_get_model_kwargs", "get_batch_logps", "_compute_kl_logps"),
                                MIXIN + ("get_per_token_logps", "compute_loss"), KEEPS,
                                ("trl/experimental/kto/kto_trainer.py", "KTOTrainer", "get_batch_loss_metrics", "kto_loss", "compute_loss")])}
FUNCTIONS = [("trl/trainer/utils.py", "selective_log_softmax"), ("trl/experimental/orpo/orpo_trainer.py", "log1mexp"), ("swift/trainers/utils.py", "disable_gradient_checkpointing")]


def trainer_class(packages, stage):
    """The class that ms-swift makes, of those of its methods that a step calls."""
    import ast
    import typing
    import torch
    import torch.nn.functional as F
    made = {"torch": torch, "F": F, "nn": torch.nn, "nullcontext": contextlib.nullcontext, "contextmanager": contextlib.contextmanager, "PreTrainedModel": object,
            "is_mp": lambda: False, "is_torch_xla_available": lambda: False}
    made.update((name, getattr(typing, name)) for name in ("Any", "Dict", "List", "Literal", "Optional", "Tuple", "Union"))

    def take(name, pick):
        with open(os.path.join(packages, name), encoding="utf-8") as f:
            tree = ast.parse(f.read())
        tree.body = [n for n in tree.body if pick(n)]
        exec(compile(tree, name, "exec"), made)  # pylint: disable=exec-used

    for name, function in FUNCTIONS:
        take(name, lambda n, function=function: isinstance(n, ast.FunctionDef) and n.name == function)
    name, parts = TAKEN[stage]
    classes = []
    for file, cls, *methods in parts:
        def pick(n, cls=cls, methods=methods):
            if not isinstance(n, ast.ClassDef) or n.name != cls:
                return False
            n.bases, n.body = [], [f for f in n.body if isinstance(f, ast.FunctionDef) and f.name in methods]
            return True
        take(file, pick)
        classes.append(made[cls])
    return type(name, tuple(classes), {})


class Swift:
    names = ("input_ids", "attention_mask", "labels")

    @staticmethod
    def prepare(run, stage):
        import torch
        from one_gpu import step
        kind = stage["stage"]
        trainer = trainer_class(Swift.packages, kind)()
        peft = hasattr(run.model, "peft_config")
        for m in run.model.modules():
            if isinstance(m, torch.nn.Dropout):
                m.p = 0
        reference = None
        if not peft and kind in ("dpo", "kto"):
            reference = make_stages.reference_of(run)
            reference.config.use_cache = False  # pipelines/train/rlhf.py _prepare_single_model()
            step.wrap_precision(reference, run.o["precision"])
        one = types.SimpleNamespace(device=torch.device("cuda"), gather_for_metrics=lambda x: x, is_main_process=True)
        vars(trainer).update(
            model=run.model, ref_model=reference, accelerator=one, template=types.SimpleNamespace(sequence_parallel_size=1, padding_free=False), beta=0.1,
            label_smoothing=0.0, loss_type={"dpo": ["sigmoid"], "cpo": "sigmoid"}.get(kind, kind), loss_weights=None, aux_loss_enabled=False,
            is_encoder_decoder=False, label_pad_token_id=-100, padding_value=0, pad_token_id=0, cpo_alpha=1.0, simpo_gamma=1, alpha=0.0, calculate_KL=True,
            desirable_weight=1.0, undesirable_weight=1.0, reference_free=False, f_divergence_type="reverse_kl", use_weighting=False,
            _peft_has_been_casted_to_bf16=False, model_accepts_loss_kwargs=True,
            args=types.SimpleNamespace(ld_alpha=None, rpo_alpha=None, gradient_accumulation_steps=1, device=torch.device("cuda"), use_liger_kernel=False,
                                       gradient_checkpointing_kwargs={"use_reentrant": run.o["use_reentrant"]}),
            get_use_logits_to_keep=lambda default: default, store_metrics=lambda metrics, train_eval: None,
            null_ref_context=lambda: run.model.disable_adapter() if peft else contextlib.nullcontext())
        if hasattr(trainer, "get_per_token_logps"):
            real = trainer.get_per_token_logps
            trainer.get_per_token_logps = lambda logits, *a, **k: (run.phase("loss") if logits.requires_grad else None, real(logits, *a, **k))[1]
        if kind in ("dpo", "kto"):
            first_known(trainer)
        return trainer, None

    @staticmethod
    def batch(o, stage):
        import torch
        make = lambda: torch.empty((o["micro_batch_size"], o["seq_len"]), dtype=torch.int64, device="cuda")
        if stage["stage"] == "kto":
            made = {prefix + name: make() for prefix in ("completion_", "KL_completion_") for name in Swift.names}
            n = o["micro_batch_size"]
            made["label"] = [True] * (n // 2) + [False] * (n - n // 2)
            return made
        return {name: torch.empty((2 * o["micro_batch_size"], o["seq_len"]), dtype=torch.int64, device="cuda") for name in Swift.names}

    @staticmethod
    def loss(trainer, _, model, batch):
        return trainer.compute_loss(model, batch, num_items_in_batch=trainer.items)


def first_known(trainer):
    """Every token counts: of several rows one more than there are is kept, which is all; of one row, by a mask, all but the first."""
    import torch
    prepare, get = getattr(trainer, "prepare_logits_to_keep", None), torch.Tensor.__getitem__

    def keep(inputs):
        labels = inputs["labels"]
        if labels.shape[0] == 1 and prepare is not None:
            prepare(inputs)
            return
        (labels != -100).int().argmax(-1).min()
        inputs["labels"], inputs["logits_to_keep"] = labels[:, -(labels.shape[-1] + 1):], labels.shape[-1] + 1

    def places(x, mask):  # labels have one that does not count, hidden states are asked for where it is another's turn
        n = mask.numel() - (not x.is_floating_point())
        return [None, *torch.empty((n, 1), dtype=torch.int64, device=mask.device).unbind(1)]

    class Columns(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, mask):
            ctx.save_for_backward(mask)
            ctx.shape = x.shape
            return torch.ops.aten.index(x, places(x, mask))

        @staticmethod
        def backward(ctx, grad):
            out = grad.new_zeros(ctx.shape)
            return torch.ops.aten._index_put_impl_(out, places(grad, ctx.saved_tensors[0]), grad, True, True), None

    def getitem(x, key):
        if isinstance(key, tuple) and len(key) > 1 and isinstance(key[1], torch.Tensor) and key[1].dtype == torch.bool:
            return Columns.apply(x, key[1])
        return get(x, key)

    torch.Tensor.__getitem__ = getitem
    trainer.prepare_logits_to_keep = keep


def patch(stage):
    """make_llama_factory.patch() with the count of items that the Trainer makes"""
    from one_gpu import step
    count = step.Run.count_items
    make_llama_factory.patch(stage)
    begin = step.Run.__init__

    def counting(run, path, o, phase):
        begin(run, path, o, phase)
        run.takes_count = stage["stage"] != "kto"  # whose batch has no "labels"

    def loss(run, batch, items=None):
        run.stage[0].items = items
        return Swift.loss(*run.stage, run.model, dict(batch))

    step.Run.__init__, step.Run.compute_loss = counting, loss
    if stage["stage"] != "kto":
        step.Run.count_items = count


def trace(oracle, packages):
    """Within the oracle's environment: the request in STAGE_REQUEST, its figures on standard output."""
    Swift.packages = packages
    make_stages.STAGES = dict.fromkeys(TAKEN, Swift)
    make_stages.patch, make_stages.__file__ = patch, __file__
    make_stages.trace(oracle, os.path.join(packages, "none"))


if __name__ == "__main__":
    if sys.argv[1] == "--trace":
        trace(sys.argv[2], sys.argv[3])
    else:
        make_stages.collect("ms_swift", __file__, CASES, "ms-swift")
