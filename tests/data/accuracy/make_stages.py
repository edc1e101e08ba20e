#!/usr/bin/env python3
"""Makes stages.jsonl of this folder: steps of preference training, reward models and distillation: TRL's own compute_loss on the oracle's loop.

    make_stages.py ORACLE CONFIGS PYTHON TRL [--only TEXT]

ORACLE holds trace.py and one_gpu; PYTHON is that of its environment (torch 2.15, transformers 5.23, peft 0.21); TRL is a folder with an unpacked trl 1.16.0
wheel. What TRL imports and no step runs (datasets, rich, ..) is stood in for; kernels in Triton are launched as nothing, their host code runs. Data decides one
thing, how many tokens count: all do. Where C++ would read that from the device, the same operators are called here with what it would have read.
"""
import json
import os
import subprocess
import sys
import types

HERE = os.path.dirname(os.path.abspath(__file__))
FIGURES = ("peak_allocated_bytes", "peak_reserved_bytes", "peak_reserved_expandable_bytes", "static_bytes", "resting_bytes", "peak_phase", "phase_peaks_bytes")
STACK = {"torch": "2.15", "transformers": "5.23", "peft": "0.21", "trl": "1.16"}
TINY, GPT2, QWEN2, QWEN3, GEMMA = ("TinyLlama__TinyLlama-1.1B-Chat-v1.0", "openai-community__gpt2", "Qwen__Qwen2-0.5B", "Qwen__Qwen3-0.6B", "google__gemma-2-2b-it")
MOE = "Qwen__Qwen3-30B-A3B"
LORA = dict(tuning="lora", lora={"rank": 16, "dropout": 0.05, "target_modules": ["q_proj", "v_proj"]})

# name, config, layers (0: as they are), rows (samples), tokens of a row, the rest of `training`
CASES = [
    ("dpo", QWEN3, 0, 1, 512, dict(stage="dpo", precision="bf16")),
    ("dpo-ckpt", QWEN3, 0, 2, 512, dict(stage="dpo", precision="bf16-autocast", gradient_checkpointing=True)),
    ("dpo-mixed", QWEN2, 4, 1, 768, dict(stage="dpo", precision="bf16-mixed")),
    ("dpo-precomputed", QWEN3, 0, 1, 512, dict(stage="dpo", reference="precomputed", precision="bf16")),
    ("dpo-lora", TINY, 0, 1, 512, dict(stage="dpo", precision="bf16-autocast", **LORA)),
    ("dpo-lora-ckpt", TINY, 0, 2, 512, dict(stage="dpo", precision="bf16-autocast", gradient_checkpointing=True, **LORA)),
    ("dpo-many-tokens", TINY, 4, 2, 1536, dict(stage="dpo", precision="bf16")),
    ("dpo-softcap", GEMMA, 3, 1, 512, dict(stage="dpo", precision="bf16")),
    ("dpo-tied", GPT2, 0, 2, 256, dict(stage="dpo", precision="bf16-mixed")),
    ("distillation", QWEN3, 4, 1, 512, dict(stage="distillation", precision="bf16")),
    ("distillation-autocast", QWEN2, 4, 2, 512, dict(stage="distillation", precision="bf16-autocast", gradient_checkpointing=True)),
    ("distillation-lora", TINY, 0, 1, 512, dict(stage="distillation", precision="bf16-autocast", **LORA)),
    ("orpo", QWEN3, 4, 1, 512, dict(stage="orpo", precision="bf16")),
    ("orpo-lora", TINY, 0, 2, 512, dict(stage="orpo", precision="bf16-autocast", gradient_checkpointing=True, **LORA)),
    ("cpo", QWEN2, 4, 1, 512, dict(stage="cpo", precision="bf16-autocast")),
    ("simpo", TINY, 4, 2, 512, dict(stage="simpo", precision="bf16")),
    ("dpo-moe", MOE, 2, 2, 257, dict(stage="dpo", precision="bf16-mixed", gradient_checkpointing=True)),
    ("kto-moe", MOE, 2, 2, 257, dict(stage="kto", precision="bf16")),
    ("kto", QWEN3, 4, 2, 512, dict(stage="kto", precision="bf16")),
    ("kto-lora", TINY, 0, 2, 512, dict(stage="kto", precision="bf16-autocast", gradient_checkpointing=True, **LORA)),
    ("reward", QWEN3, 0, 2, 512, dict(stage="reward", precision="bf16")),
    ("reward-ckpt", QWEN2, 0, 2, 768, dict(stage="reward", precision="bf16-autocast", gradient_checkpointing=True)),
    ("reward-mixed", TINY, 4, 1, 1024, dict(stage="reward", precision="bf16-mixed")),
    ("reward-dropout", GPT2, 4, 2, 256, dict(stage="reward", precision="fp32", attention="eager")),
    ("reward-lora", TINY, 0, 2, 512, dict(stage="reward", precision="bf16-autocast", **LORA)),
]
STUBS = ["datasets", "pyarrow", "rich", "pandas", "jmespath", "comet_ml", "wandb", "trackio"]


class Anything(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return cls


class Thing(metaclass=Anything):
    def __init__(self, *a, **k):
        pass


class Stub(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        setattr(self, name, type(name, (Thing,), {}))
        return getattr(self, name)


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        import importlib.machinery
        return importlib.machinery.ModuleSpec(name, Finder, is_package=True) if name.split(".")[0] in STUBS else None

    @staticmethod
    def create_module(spec):
        return Stub(spec.name)

    @staticmethod
    def exec_module(module):
        pass


class NoKernel:
    def __getitem__(self, grid):
        return lambda *a, **k: None


# --------------------------------------------------------------------------------------- what C++ would read from the device
def patch_masks(torch):
    """x[mask], masked_scatter and their gradients, of masks that are true everywhere: the operators that at::index, masked_select and masked_scatter_backward call."""
    get, scatter = torch.Tensor.__getitem__, torch.Tensor.masked_scatter

    def places(mask):
        return torch.empty((mask.numel(), mask.dim()), dtype=torch.int64, device=mask.device).unbind(1)

    class Index(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, mask):
            ctx.save_for_backward(mask)
            ctx.shape = x.shape
            return torch.ops.aten.index(x, list(places(mask)))

        @staticmethod
        def backward(ctx, grad):
            out = grad.new_zeros(ctx.shape)
            return torch.ops.aten._index_put_impl_(out, list(places(ctx.saved_tensors[0])), grad, True, True), None

    class Scatter(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, mask, source):
            ctx.save_for_backward(mask)
            ctx.shape = source.shape
            return scatter(x, mask, source)

        @staticmethod
        def backward(ctx, grad):
            return None, None, torch.ops.aten.index(grad, list(places(ctx.saved_tensors[0]))).view(ctx.shape)

    def getitem(x, key):
        if isinstance(key, torch.Tensor) and key.dtype == torch.bool and key.is_cuda:
            return Index.apply(x, key)
        return get(x, key)

    put = torch.Tensor.__setitem__

    def setitem(x, key, value):
        if isinstance(key, torch.Tensor) and key.dtype == torch.bool and key.is_cuda:
            return x.masked_fill_(key, value)  # index_put_ of a number by one mask: TensorAdvancedIndexing.cpp canDispatchToMaskedFill
        return put(x, key, value)

    torch.Tensor.__setitem__ = setitem
    torch.Tensor.__getitem__ = getitem
    torch.Tensor.masked_scatter = lambda x, mask, source: Scatter.apply(x, mask, source)


# -------------------------------------------------------------------------------------------------------------------- stages
def trainer_of(run, **more):
    """What TRL's functions read of their trainer."""
    import collections
    import torch
    one = types.SimpleNamespace(device=torch.device("cuda"), gather_for_metrics=lambda x: x, gather=lambda x: x, num_processes=1,
                                unwrap_model=lambda m, keep_fp32_wrapper=True: m, is_main_process=True)
    text = run.model.config.get_text_config()
    coef = getattr(text, "router_aux_loss_coef", 0.0)  # as __init__ of SFTTrainer, DPOTrainer and KTOTrainer ask, where nobody says router_aux_loss_coef
    aux = {"aux_loss_enabled": hasattr(text, "output_router_logits") and coef != 0.0, "router_aux_loss_coef": coef}
    asked = run.o["use_reentrant"] if hasattr(run, "o") else None
    kwargs = None if asked is None else {"use_reentrant": asked}  # with which checkpoints are put back after the reference's pass
    return types.SimpleNamespace(model=run.model, accelerator=one, _tp_size=1, _total_train_tokens=0,
                                 _metrics=collections.defaultdict(lambda: collections.defaultdict(list)),
                                 args=types.SimpleNamespace(gradient_checkpointing_kwargs=kwargs, center_rewards_coefficient=None), **{**aux, **more})


def mark_loss(run):
    """The phase "loss" begins where the head's products do."""
    from trl.trainer import utils
    real = utils._ChunkedLogProbFunction
    utils._ChunkedLogProbFunction = types.SimpleNamespace(apply=lambda *a: (run.phase("loss"), real.apply(*a))[1])


def reference_of(run):
    """create_model_from_path: the policy's config, its dtype, in eval mode as from_pretrained leaves it."""
    from one_gpu import step
    o = run.o
    model, _ = step.model_on_meta(step.load_config(run.path, o["model_config"]), step.DTYPES[o["weights_dtype"]], o["attention"])
    return step.materialise(model).eval()


class Dpo:
    names = ("input_ids", "attention_mask", "completion_mask")

    @staticmethod
    def prepare(run, stage):
        from trl.trainer import dpo_trainer
        from trl.trainer.utils import add_fused_lm_head, disable_dropout_in_model
        from one_gpu import step
        peft = hasattr(run.model, "peft_config")
        reference = None if peft or stage["reference"] == "precomputed" else reference_of(run)
        mark_loss(run)
        disable_dropout_in_model(run.model)
        add_fused_lm_head(run.model.get_base_model() if peft else run.model, outputs=("log_probs", "entropy", "mean_logits", "is_top1"))
        if reference is not None:
            add_fused_lm_head(reference)
            step.wrap_precision(reference, run.o["precision"])
        return trainer_of(run, ref_model=reference, precompute_ref_logps=stage["reference"] == "precomputed", ld_alpha=None, f_divergence_type="reverse_kl",
                          loss_types=["sigmoid"], loss_weights=[1.0], beta=0.1, label_smoothing=0.0, use_weighting=False), dpo_trainer.DPOTrainer._compute_loss

    @staticmethod
    def batch(o, stage):
        import torch
        made = {name: torch.empty((2 * o["micro_batch_size"], o["seq_len"]), dtype=torch.int64, device="cuda") for name in Dpo.names}
        if stage["reference"] == "precomputed":
            for name in ("ref_chosen_logps", "ref_rejected_logps"):
                made[name] = torch.empty(o["micro_batch_size"], device="cuda")
        return made

    @staticmethod
    def loss(trainer, compute, model, batch):
        return compute(trainer, model, batch, False)


class Reward:
    """A head of one output; the loss is RewardTrainer's."""

    @staticmethod
    def classes():
        from transformers import AutoModelForSequenceClassification
        return AutoModelForSequenceClassification

    @staticmethod
    def config(config):
        config.num_labels, config.pad_token_id = 1, 0

    @staticmethod
    def prepare(run, stage):
        from trl.trainer import reward_trainer
        from trl.trainer.utils import disable_dropout_in_model
        disable_dropout_in_model(run.model)
        return trainer_of(run), reward_trainer.RewardTrainer.compute_loss

    @staticmethod
    def batch(o, stage):
        import torch
        return {name: torch.empty((2 * o["micro_batch_size"], o["seq_len"]), dtype=torch.int64, device="cuda") for name in ("input_ids", "attention_mask")}

    @staticmethod
    def loss(trainer, compute, model, batch):
        return compute(trainer, model, batch)


class Distillation:
    """GKDTrainer on given completions: the teacher is a model of the student's config."""
    counts = True

    @staticmethod
    def prepare(run, stage):
        from one_gpu import step
        from trl.experimental.gkd.gkd_trainer import GKDTrainer
        from trl.trainer.utils import disable_dropout_in_model
        teacher = reference_of(run)
        disable_dropout_in_model(run.model)
        step.wrap_precision(teacher, run.o["precision"])
        return trainer_of(run, teacher_model=teacher, beta=0.5, generalized_jsd_loss=GKDTrainer.generalized_jsd_loss), GKDTrainer.compute_loss

    @staticmethod
    def batch(o, stage):
        import torch
        return {name: torch.empty((o["micro_batch_size"], o["seq_len"]), dtype=torch.int64, device="cuda") for name in ("input_ids", "attention_mask", "labels")}

    @staticmethod
    def loss(trainer, compute, model, batch, items):
        return compute(trainer, model, batch, num_items_in_batch=items)


class Orpo:
    """ORPOTrainer, CPOTrainer: pairs without a reference."""
    options = dict(aux_loss_enabled=False, beta=0.1, is_encoder_decoder=False, padding_value=0, pad_token_id=0, _peft_has_been_casted_to_bf16=False, label_smoothing=0.0)

    @staticmethod
    def prepare(run, stage):
        import torch
        from trl.experimental.cpo.cpo_trainer import CPOTrainer
        from trl.experimental.orpo.orpo_trainer import ORPOTrainer
        from trl.trainer.utils import disable_dropout_in_model
        kind = ORPOTrainer if stage["stage"] == "orpo" else CPOTrainer
        disable_dropout_in_model(run.model)
        trainer = trainer_of(run, **Orpo.options, loss_type="simpo" if stage["stage"] == "simpo" else "sigmoid", cpo_alpha=1.0, simpo_gamma=0.5, alpha=0.0,
                             store_metrics=lambda metrics, train_eval: None)
        trainer.args.device = torch.device("cuda")
        for name in ("concatenated_inputs", "odds_ratio_loss", "cpo_loss", "get_batch_logps", "concatenated_forward", "get_batch_loss_metrics"):
            if hasattr(kind, name):
                made = kind.__dict__[name]
                setattr(trainer, name, made.__func__ if isinstance(made, staticmethod) else types.MethodType(made, trainer))
        return trainer, kind.compute_loss

    @staticmethod
    def batch(o, stage):
        import torch
        return {side + name: torch.empty((o["micro_batch_size"], o["seq_len"]), dtype=torch.int64, device="cuda")
                for side in ("chosen_", "rejected_") for name in ("input_ids", "attention_mask", "labels")}

    @staticmethod
    def loss(trainer, compute, model, batch):
        return compute(trainer, model, batch)


class Kto:
    names = ("input_ids", "attention_mask", "completion_mask", "KL_input_ids", "KL_attention_mask", "KL_completion_mask")

    @staticmethod
    def prepare(run, stage):
        import torch
        from trl.trainer.kto_trainer import KTOTrainer
        from trl.trainer.utils import add_fused_lm_head, disable_dropout_in_model
        from one_gpu import step
        peft = hasattr(run.model, "peft_config")
        reference = None if peft or stage["reference"] == "precomputed" else reference_of(run)
        mark_loss(run)
        disable_dropout_in_model(run.model)
        add_fused_lm_head(run.model.get_base_model() if peft else run.model, outputs=("log_probs", "entropy", "mean_logits"))
        if reference is not None:
            add_fused_lm_head(reference)
            step.wrap_precision(reference, run.o["precision"])
        nonzero = torch.nonzero
        torch.nonzero = lambda t, **k: torch.empty((t.numel() // 2, 1), dtype=torch.int64, device=t.device) if t.dim() == 1 else nonzero(t, **k)
        trainer = trainer_of(run, ref_model=reference, precompute_ref_logps=stage["reference"] == "precomputed", calculate_KL=True, loss_type="kto", beta=0.1,
                             desirable_weight=1.0, undesirable_weight=1.0)
        trainer._compute_kl_logps = types.MethodType(KTOTrainer._compute_kl_logps, trainer)
        return trainer, KTOTrainer._compute_loss

    @staticmethod
    def batch(o, stage):
        import torch
        made = {name: torch.empty((o["micro_batch_size"], o["seq_len"]), dtype=torch.int64, device="cuda") for name in Kto.names}
        made["label"] = torch.empty(o["micro_batch_size"], dtype=torch.bool, device="cuda")
        if stage["reference"] == "precomputed":
            for name in ("ref_logps", "ref_KL_logps"):
                made[name] = torch.empty(o["micro_batch_size"], device="cuda")
        return made

    @staticmethod
    def loss(trainer, compute, model, batch):
        return compute(trainer, model, batch, False)


STAGES = {"kto": Kto, "dpo": Dpo, "reward": Reward, "distillation": Distillation, "orpo": Orpo, "cpo": Orpo, "simpo": Orpo}


def patch(stage):
    import torch
    from one_gpu import emulate, step
    import trl.kernels.chunked_logprob as kernel
    kernel._forward_kernel = kernel._backward_kernel = NoKernel()
    kernel._use_triton = lambda device: True
    import trl.trainer.utils as utils
    utils._use_triton = lambda device: True
    kind = STAGES[stage["stage"]]
    counts = hasattr(kind, "counts")
    import trl.kernels.logprob_entropy as entropy
    entropy._forward_kernel = entropy._backward_kernel = NoKernel()
    utils._supports_trl_loss_kernel = lambda *a, **k: True
    build, init = step.wrap_precision, step.Run.__init__
    if hasattr(kind, "classes"):
        load, meta = step.load_config, step.model_on_meta

        def load_config(path, changes):
            config = load(path, changes)
            kind.config(config)
            return config

        def model_on_meta(config, dtype, attention):
            import transformers
            transformers.AutoModelForCausalLM = kind.classes()
            return meta(config, dtype, attention)

        step.load_config, step.model_on_meta = load_config, model_on_meta
        import peft
        lora = peft.LoraConfig
        peft.LoraConfig = lambda **k: lora(**dict(k, task_type="SEQ_CLS"))

    def before_precision(model, precision):  # the trainer's __init__ ends, train() prepares
        run = before_precision.run
        if run.stage is None:
            run.stage, run.model = (), model
            run.stage = kind.prepare(run, stage)
        build(model, precision)

    def begin(run, path, o, phase):
        before_precision.run, run.path, run.o, run.stage = run, path, o, None
        init(run, path, o, phase)
        run.takes_count = run.takes_count and counts

    def compute_loss(run, batch, items=None):
        trainer, compute = run.stage
        return kind.loss(trainer, compute, run.model, dict(batch), *([items] if counts else []))

    step.wrap_precision, step.Run.__init__, step.Run.compute_loss = before_precision, begin, compute_loss
    if not counts:
        step.Run.count_items = lambda run, batches: None
    step.make_batch = lambda config, o: kind.batch(o, stage)
    install = emulate.DeviceReads.install

    def known(reads):
        install(reads)
        patch_masks(torch)

    emulate.DeviceReads.install = known


def trace(oracle, trl):
    """Within the oracle's environment: the request in STAGE_REQUEST, its figures on standard output."""
    sys.path[:0] = [oracle, trl]
    sys.argv[0] = os.path.abspath(__file__)
    import environment
    environment.ensure()
    import tempfile
    import ask
    from one_gpu import emulate
    emulate.install_flash_attn()
    sys.meta_path.append(Finder)
    from one_gpu import report
    request = json.loads(os.environ["STAGE_REQUEST"])
    training = dict(request["training"])
    patch({"stage": training.pop("stage"), "reference": training.pop("reference", None)})
    options = ask.for_one(request, training, [])
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(request["config"], f)
        f.flush()
        print("\n" + json.dumps(report.trace(f.name, options, events=os.environ.get("STAGE_EVENTS"))))


def request_of(case, configs):
    name, config, layers, rows, tokens, training = case
    with open(os.path.join(configs, config + ".json"), encoding="utf-8") as f:
        own = {k: v for k, v in json.load(f).items() if not k.startswith("_")}
    for key in ("num_hidden_layers", "n_layer"):
        if layers and key in own:
            own[key] = layers
            if "layer_types" in own:
                own["layer_types"] = own["layer_types"][:layers]
    return {"cluster": {"gpu": "A100-80GB"},
            "training": {"methods": "single", "tuning": "full", "attention": "sdpa", "gradient_checkpointing": False, "optimizer": "adamw_torch",
                         "micro_batch_size": rows, "seq_len": tokens, **training},
            "stack": STACK, "config": own}


def collect(name, script, cases, trainer=None):
    """NAME.jsonl of the cases, each traced by `script` in a process of the oracle's; trainer: who has a stage that is not trl's."""
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    oracle, configs, python, packages = sys.argv[1:5]
    with open(os.path.join(HERE, name + ".jsonl"), "w" if not only else "a", encoding="utf-8") as out:
        for case in cases:
            if only not in case[0]:
                continue
            request = request_of(case, configs)
            if trainer:
                request["stack"].pop("trl", None)
            env = dict(os.environ, STAGE_REQUEST=json.dumps(request))
            told = subprocess.run([python, os.path.abspath(script), "--trace", oracle, packages], env=env, stdout=subprocess.PIPE).stdout
            if b"\n{" not in told:
                print("no figures: " + case[0], file=sys.stderr)
                continue
            result = json.loads(told[told.rindex(b"\n{"):])
            if trainer:
                request["training"]["trainer"] = trainer
            row = {"id": name + "/" + case[0], "group": "one GPU, stages", "body": json.dumps(request, separators=(",", ":"))}
            row.update((k, result[k]) for k in FIGURES if k in result)
            out.write(json.dumps(row, separators=(",", ":")) + "\n")
            out.flush()


if __name__ == "__main__":
    if sys.argv[1] == "--trace":
        trace(sys.argv[2], sys.argv[3])
    else:
        collect("stages", __file__, CASES)
