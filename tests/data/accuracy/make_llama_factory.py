#!/usr/bin/env python3
"""Makes llama_factory.jsonl of this folder: preferences and rewards by LLaMA-Factory's own trainers (CustomDPOTrainer, CustomKTOTrainer,
PairwiseTrainer) on the oracle's loop.

    make_llama_factory.py ORACLE CONFIGS PYTHON PACKAGES [--only TEXT]

ORACLE holds trace.py and one_gpu; PYTHON is that of its environment (torch 2.15, transformers 5.23, peft 0.21); PACKAGES is a folder with unpacked wheels of llamafactory 0.9.5
and trl 0.24.0. What they import and no step runs is stood in for. The reference model of full tuning is loaded as load_model(is_trainable=False) leaves it: frozen, in the
compute dtype. All tokens count, half of KTO's rows are desirable (of one row: none).
"""
import os
import sys
import types

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import make_stages  # noqa: E402

TINY, GPT2, QWEN2, QWEN3, GEMMA, LORA = make_stages.TINY, make_stages.GPT2, make_stages.QWEN2, make_stages.QWEN3, make_stages.GEMMA, make_stages.LORA
make_stages.STUBS += ["mergekit", "llm_blender", "vllm", "weave", "joblib", "liger_kernel", "omegaconf", "fire", "av", "librosa", "torchaudio", "matplotlib", "gradio", "numba",
                      "modelscope", "openmind_hub", "sklearn", "jieba", "nltk", "rouge_chinese", "ray", "PIL", "tiktoken"]

# name, config, layers (0: as they are), rows (samples), tokens of a row, the rest of `training`
CASES = [
    ("dpo-lora", QWEN3, 4, 1, 512, dict(stage="dpo", precision="bf16-autocast", **LORA)),
    ("dpo-lora-ckpt", TINY, 0, 2, 512, dict(stage="dpo", precision="bf16-autocast", gradient_checkpointing=True, **LORA)),
    ("dpo-lora-pure", QWEN2, 4, 2, 384, dict(stage="dpo", precision="bf16", **LORA)),
    ("dpo-full", QWEN3, 4, 1, 512, dict(stage="dpo", precision="bf16-mixed")),
    ("dpo-full-ckpt", TINY, 4, 2, 768, dict(stage="dpo", precision="bf16-mixed", gradient_checkpointing=True)),
    ("dpo-full-pure", QWEN2, 4, 1, 512, dict(stage="dpo", precision="bf16")),
    ("dpo-softcap", GEMMA, 3, 1, 384, dict(stage="dpo", precision="bf16-autocast", **LORA)),
    ("orpo-lora", QWEN3, 4, 2, 512, dict(stage="orpo", precision="bf16-autocast", **LORA)),
    ("orpo-full", GPT2, 0, 1, 512, dict(stage="orpo", precision="bf16-mixed")),
    ("simpo-lora-ckpt", TINY, 0, 2, 512, dict(stage="simpo", precision="bf16-autocast", gradient_checkpointing=True, **LORA)),
    ("kto-lora", QWEN3, 4, 2, 512, dict(stage="kto", precision="bf16-autocast", **LORA)),
    ("kto-lora-one", TINY, 0, 1, 512, dict(stage="kto", precision="bf16-autocast", gradient_checkpointing=True, **LORA)),
    ("kto-full", QWEN2, 4, 4, 256, dict(stage="kto", precision="bf16-mixed")),
    ("rm-lora", QWEN3, 4, 1, 512, dict(stage="reward", precision="bf16-autocast", **LORA)),
    ("rm-lora-ckpt", TINY, 0, 2, 512, dict(stage="reward", precision="bf16-autocast", gradient_checkpointing=True, **LORA)),
    ("rm-lora-pure", QWEN2, 4, 2, 384, dict(stage="reward", precision="bf16", **LORA)),
    ("rm-softcap", GEMMA, 3, 1, 384, dict(stage="reward", precision="bf16-autocast", **LORA)),
    ("rm-full", QWEN3, 4, 1, 512, dict(stage="reward", precision="bf16-mixed")),
    ("rm-full-ckpt", TINY, 4, 2, 768, dict(stage="reward", precision="bf16-mixed", gradient_checkpointing=True)),
    ("rm-full-gpt2", GPT2, 0, 2, 512, dict(stage="reward", precision="bf16-mixed")),
]


def reference_of(run):
    """create_ref_model(): load_model(is_trainable=False) casts what is fp32 to the compute dtype, freezes and calls eval()."""
    from one_gpu import step
    o = run.o
    half = step.DTYPES[o["precision"].split("-")[0]]
    model, _ = step.model_on_meta(step.load_config(run.path, o["model_config"]), half, o["attention"])
    return step.materialise(model).requires_grad_(False).eval()


def prepare(run, kind, stage, **more):
    from llamafactory.train import trainer_utils
    from one_gpu import step
    from trl.trainer.utils import disable_dropout_in_model
    peft, wants = hasattr(run.model, "peft_config"), stage["stage"] in ("dpo", "kto")
    disable_dropout_in_model(run.model)
    reference = None
    if wants and not peft:
        reference = reference_of(run)
        step.wrap_precision(reference, run.o["precision"])
    import torch
    trainer = make_stages.trainer_of(run, ref_model=reference, beta=0.1, _peft_has_been_casted_to_bf16=False, reference_free=False, label_smoothing=0.0,
                                     f_divergence_type="reverse_kl", ftx_gamma=0.0, bco_gemma=0.0, simpo_gamma=0.5, ld_alpha=None, is_encoder_decoder=False,
                                     finetuning_args=types.SimpleNamespace(use_ref_model=wants), store_metrics=lambda metrics, train_eval="train": None, **more)
    trainer.args.device = torch.device("cuda")
    for cls in reversed(kind.__mro__):
        for name in ("dpo_loss", "kto_loss", "odds_ratio_loss", "simpo_loss", "compute_preference_loss", "concatenated_forward", "compute_reference_log_probs",
                     "get_batch_loss_metrics", "forward"):
            if name in cls.__dict__ and "trainer" in cls.__module__:
                setattr(trainer, name, types.MethodType(cls.__dict__[name], trainer))
    real = trainer_utils.get_batch_logps
    module = sys.modules[kind.__module__]
    module.get_batch_logps = lambda *a, **k: (run.phase("loss") if torch.is_grad_enabled() else None, real(*a, **k))[1]
    return trainer, super(kind, kind).compute_loss


class Pairs:
    names = ("input_ids", "attention_mask", "labels")

    @staticmethod
    def prepare(run, stage):
        from llamafactory.train.dpo.trainer import CustomDPOTrainer
        return prepare(run, CustomDPOTrainer, stage, loss_type={"dpo": "sigmoid"}.get(stage["stage"], stage["stage"]))

    @staticmethod
    def batch(o, stage):
        import torch
        return {name: torch.empty((2 * o["micro_batch_size"], o["seq_len"]), dtype=torch.int64, device="cuda") for name in Pairs.names}

    @staticmethod
    def loss(trainer, compute, model, batch):
        return compute(trainer, model, batch, False)


class Values:
    """The model stands beside its value head before the optimizer is made."""

    names = Pairs.names
    batch = Pairs.batch

    @staticmethod
    def prepare(run, stage):
        from llamafactory.train.rm.trainer import PairwiseTrainer
        return None, PairwiseTrainer.compute_loss

    @staticmethod
    def loss(trainer, compute, model, batch):
        return compute(trainer, model, batch)

    @staticmethod
    def build(config, o):
        from trl import AutoModelForCausalLMWithValueHead
        model, attention = Values.real(config, o)
        made = AutoModelForCausalLMWithValueHead.from_pretrained(model).to("cuda").train()
        for name in ("get_input_embeddings", "get_output_embeddings"):  # model/patcher.py patch_valuehead_model
            setattr(made, name, getattr(model, name))
        return made, attention


class Kto:
    names = ("input_ids", "attention_mask", "labels", "kl_input_ids", "kl_attention_mask", "kl_labels")

    @staticmethod
    def prepare(run, stage):
        from llamafactory.train.kto.trainer import CustomKTOTrainer
        return prepare(run, CustomKTOTrainer, stage, loss_type="kto", calculate_KL=True, desirable_weight=1.0, undesirable_weight=1.0)

    @staticmethod
    def batch(o, stage):
        import torch
        made = {name: torch.empty((o["micro_batch_size"], o["seq_len"]), dtype=torch.int64, device="cuda") for name in Kto.names}
        made["kto_tags"] = torch.empty(o["micro_batch_size"], dtype=torch.bool, device="cuda")
        return made

    @staticmethod
    def loss(trainer, compute, model, batch):
        return compute(trainer, model, batch)


def patch_verdicts(torch):
    """Rows by a verdict: half of them, of its opposite the rest; at::index makes them of what nonzero() finds."""
    get, invert = torch.Tensor.__getitem__, torch.Tensor.__invert__

    def places(key, rest):
        n = key.numel() // 2
        return list(torch.empty((key.numel() - n if rest else n, 1), dtype=torch.int64, device=key.device).unbind(1))

    class Rows(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, key, rest):
            ctx.save_for_backward(key)
            ctx.shape, ctx.rest = x.shape, rest
            return torch.ops.aten.index(x, places(key, rest))

        @staticmethod
        def backward(ctx, grad):
            out = grad.new_zeros(ctx.shape)
            return torch.ops.aten._index_put_impl_(out, places(ctx.saved_tensors[0], ctx.rest), grad, True, True), None, None

    def some(x, key):
        if isinstance(key, torch.Tensor) and key.dtype == torch.bool and key.is_cuda and key.dim() == 1:
            return Rows.apply(x, key, getattr(key, "rest", False))
        return get(x, key)

    def rest(x):
        made = invert(x)
        made.rest = True
        return made

    nonzero = torch.nonzero

    def half(t, *a, **k):
        return places(t, getattr(t, "rest", False))[0].unsqueeze(1) if t.dim() == 1 and t.dtype == torch.bool else nonzero(t, *a, **k)

    torch.Tensor.__getitem__, torch.Tensor.__invert__, torch.nonzero = some, rest, half


def trace(oracle, packages):
    """Within the oracle's environment: the request in STAGE_REQUEST, its figures on standard output."""
    os.environ["DISABLE_VERSION_CHECK"] = "1"
    make_stages.STAGES = {"dpo": Pairs, "orpo": Pairs, "simpo": Pairs, "kto": Kto, "reward": Values}
    make_stages.patch, make_stages.__file__ = patch, __file__
    make_stages.trace(oracle, packages)


def patch(stage):
    """make_stages.patch() without trl 1.16's kernels"""
    import torch
    from one_gpu import emulate, step
    kind = make_stages.STAGES[stage["stage"]]
    build, init = step.wrap_precision, step.Run.__init__

    def before_precision(model, precision):
        run = before_precision.run
        if run.stage is None:
            run.stage, run.model = (), model
            run.stage = kind.prepare(run, stage)
        build(model, precision)

    def begin(run, path, o, phase):
        before_precision.run, run.path, run.o, run.stage = run, path, o, None
        init(run, path, o, phase)
        run.takes_count = False

    step.wrap_precision, step.Run.__init__ = before_precision, begin
    if kind is Values:
        Values.real, step.build = step.build, Values.build
    step.Run.compute_loss = lambda run, batch, items=None: kind.loss(*run.stage, run.model, dict(batch))
    step.Run.count_items = lambda run, batches: None
    step.make_batch = lambda config, o: kind.batch(o, stage)
    install = emulate.DeviceReads.install

    def known(reads):
        install(reads)
        make_stages.patch_masks(torch)
        patch_verdicts(torch)

    emulate.DeviceReads.install = known


if __name__ == "__main__":
    if sys.argv[1] == "--trace":
        trace(sys.argv[2], sys.argv[3])
    else:
        make_stages.collect("llama_factory", __file__, CASES, "llama-factory")
