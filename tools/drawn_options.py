"""What compare-random --packages draws beside methods, and how the tracer of several GPUs comes to run it: by each package's own code, as the files of
tests/data/accuracy that make rows of one GPU have it. PACKAGES is a folder: pip install --no-deps --target PACKAGES liger-kernel trl cut-cross-entropy."""
import importlib.metadata
import os
import sys
import types

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "data", "accuracy")
FIRST = ("fsdp", "fsdp_grad_op", "hsdp")
FULLY = ("fsdp2", "fsdp2_noreshard", "hsdp2")
ENGINE = ("zero0", "zero1", "zero2", "zero3")
PIECES = ("adamw_bnb_8bit", "adamw_bnb_8bit", "paged_adamw_8bit", "paged_adamw_32bit", "lion_8bit", "lion_32bit")
OF_TRAINING = ("loss", "liger_kernels", "packing", "lengths", "freeze", "trainable", "freeze_ratio", "stage", "reference")
OF_LORA = ("modules_to_save", "use_dora", "use_rslora", "layers_to_transform", "rank_pattern", "bias")  # make_adapters.OF_PEFT, of which these are drawn


def releases(packages):
    found = {}
    for d in importlib.metadata.distributions(path=[packages]):
        found[d.metadata["Name"].lower().replace("_", "-")] = d.version
    return found


# ------------------------------------------------------------------------------------------------------------------------- draws
def optimizer(r, q, t, method, framework):
    if r.random() < 0.3:
        t["optimizer"] = "adafactor"
    else:
        t["optimizer"] = r.choice(PIECES)


def loss(r, q, t, method, framework):
    words = ["chunked", "cut_cross_entropy"] + (["chunked_nll"] if "trl" in q["stack"] and framework == "transformers" else [])
    if r.random() < 0.5:
        t["loss"] = r.choice(words)
        return
    del t["loss"]
    t["liger_kernels"] = r.choice([["fused_linear_cross_entropy"], ["rope", "rms_norm", "swiglu", "fused_linear_cross_entropy"], ["rms_norm", "cross_entropy"]])


def packing(r, q, t, method, framework):
    """Every sequence as long as another, so that there are `sequences` of them."""
    t.update(packing=True, padded=False, lengths=[max(16, t["seq_len"] // r.choice([1, 2, 3, 7]))])


def int8(r, q, t, method, framework):
    t.update(tuning="qlora", quantization="int8", prepare_kbit=r.choice(["none", "peft"] if t["precision"].startswith("fp16") else ["none", "peft", "trl"]))
    t["lora"]["dtype"] = "fp32"


def dora(r, q, t, method, framework):
    t["lora"]["use_dora"] = True


def patterns(r, q, t, method, framework):
    if not isinstance(t["lora"].get("target_modules"), list):
        t["lora"]["target_modules"] = ["q_proj", "v_proj"]
    t["lora"]["rank_pattern"] = {t["lora"]["target_modules"][0]: r.choice([2, 32])}
    if r.random() < 0.5:
        t["lora"]["layers_to_transform"] = [0]


def saved(r, q, t, method, framework):
    t["lora"]["modules_to_save"] = r.choice([["lm_head"], ["lm_head"], ["embed_tokens", "lm_head"], ["embed_tokens"]])
    if not isinstance(t["lora"].get("target_modules"), list):
        t["lora"]["target_modules"] = ["q_proj", "v_proj"]


NAMES = {"opt": ("embed_tokens", "layers", "final_layer_norm"),
         "biogpt": ("embed_tokens", "layers", "layer_norm"), "gpt_neox": ("embed_in", "layers", "final_layer_norm"),
         **{name: ("wte", "h", "ln_f") for name in ("gpt2", "gpt_bigcode", "gptj", "codegen", "gpt_neo")},
         **{name: ("word_embeddings", "h", "ln_f") for name in ("bloom", "falcon")}}


def part(r, q, t, method, framework):
    embedding, layers, norm = NAMES.get(q["config"]["model_type"], ("embed_tokens", "layers", "norm"))
    parts = [{"freeze": [embedding]}, {"freeze": [embedding, layers + ".0-0"]}, {"trainable": [layers + ".1-1", norm]}, {"freeze_ratio": 0.5}]
    tied = q["config"].get("tie_word_embeddings", True)  # named_parameters() tells a tied head by the embedding's name alone
    t.update(r.choice(parts if tied else parts + [{"freeze": ["lm_head"]}]))


def stage(r, q, t, method, framework):
    t.update(stage=r.choice(["dpo", "dpo", "kto"]), padded=False, gradient_accumulation_steps=1)
    t.pop("sync_each_batch", None)
    if t["stage"] == "kto":
        t["micro_batch_size"] = 2
    if r.random() < 0.3:
        t["reference"] = "precomputed"


def activations(r, q, t, method, framework):
    t["offload"] = "activations"


def flash(r, q, t, method, framework):
    t.update(attention="flash_attention_2", padded=False)


def may(q, t, method, framework):
    """What this method and tuning are answered with."""
    adapted, packed, plain = t["tuning"] != "full", "quantization" in t, t.get("offload", "none") == "none"
    half = t["precision"] != "fp32"
    out = []
    if method in ("ddp",) + FIRST + ENGINE and plain:
        out += [optimizer, optimizer]
    if method not in ("tp", "tp+fsdp2", "pp"):
        out += [loss, loss, packing]
    if method in ("ddp",) + ENGINE[:3] and adapted and half:
        out.append(int8)
    flat = method in FIRST and not t["fsdp"]["use_orig_params"] and not t["precision"].endswith(("mixed", "autocast"))
    if adapted and (method in ("ddp",) + FULLY + ENGINE or flat):
        out.append(dora)
    if adapted and not packed and method in ("ddp",) + FIRST + FULLY + ENGINE:
        out.append(saved)
    if adapted and method != "pp":
        out.append(patterns)
    if not adapted and method not in ("pp", "fsdp_no_shard"):
        out.append(part)
    if "trl" in q["stack"] and framework == "transformers" and method in ("ddp", "zero1", "zero2", "zero3", "fsdp", "fsdp2") and not packed:
        out += [stage, stage]
    moves = method in ("ddp", "zero1", "zero2", "zero3", "fsdp2") + FIRST and plain and (method == "ddp" or not packed) and "stage" not in t
    if "trl" in q["stack"] and framework == "transformers" and moves and q["stack"]["transformers"] >= "5":
        out += [activations, activations]
    if half and method not in ("pp", "tp", "tp+fsdp2") and t["attention"] == "sdpa":
        out.append(flash)
    return out


def draw(r, q, method, packages):
    """One or two of them, on top of what was drawn."""
    t, framework, have = q["training"], q["stack"].get("framework"), releases(packages)
    if "liger-kernel" in have:
        q["stack"]["liger"] = have["liger-kernel"]
    if "trl" in have:
        q["stack"]["trl"] = have["trl"]
    first = r.choice(may(q, t, method, framework) or [None])
    if first:
        first(r, q, t, method, framework)
        others = [f for f in may(q, t, method, framework) if f is not first and {first, f} not in ({loss, stage}, {packing, stage}, {activations, stage})]
        if others and r.random() < 0.4:
            r.choice(others)(r, q, t, method, framework)
    if t.get("packing"):
        t.pop("padded", None)
    if not t.get("liger_kernels"):
        q["stack"].pop("liger", None)
    if "stage" not in t and t.get("loss") != "chunked_nll" and t.get("offload") != "activations":
        q["stack"].pop("trl", None)


# ------------------------------------------------------------------------------------------------------------------ tracer's words
def bare(q):
    """(the request without what the tracer has no word for, options in their place)"""
    t = {k: v for k, v in q["training"].items() if k not in OF_TRAINING}
    more = {}
    if t["optimizer"] not in ("adamw_torch", "adamw_torch_fused", "sgd"):
        more["optimizer"] = t["optimizer"]
        t["optimizer"] = "adamw_torch"
    if t.get("lora"):
        t["lora"] = {k: v for k, v in t["lora"].items() if k not in OF_LORA}
    if t.get("quantization") == "int8":
        more.update(quantization="int8", prepare_kbit=t.pop("prepare_kbit"))
        t.update(tuning="lora")
        del t["quantization"]
    if t.get("packing"):
        t["attention_mask"] = False
    if t.get("offload") == "activations":
        t["offload"] = "none"
    return dict(q, training=t), more


# ------------------------------------------------------------------------------------------------------------------------- traces
def before(asked):
    """Before anything of transformers is imported: what it looks for."""
    if any(t.get("attention") == "flash_attention_2" for t in asked):
        from one_gpu import emulate
        emulate.install_flash_attn()


def of_data(name, *argv):
    """A file of tests/data/accuracy, some of which read their arguments as they are imported."""
    given, sys.argv = sys.argv, [name, *argv]
    sys.path.insert(0, DATA)
    try:
        return __import__(name)
    finally:
        sys.argv = given


def install(t, o, tracer, packages):
    """In the rank's own process."""
    import dist_trace
    from many_gpus import models, reads, step
    if t.get("attention") == "flash_attention_2":
        plain = models.build
        models.build = lambda cfg, dtype, attention, device: (of_package(cfg, dtype, device) if attention == "flash_attention_2" else
                                                              plain(cfg, dtype, attention, device))
    if t.get("attention") == "flash_attention_2" or t.get("packing"):
        whole_rows(reads)
    of_peft = {k: t["lora"][k] for k in OF_LORA if k in t.get("lora", {})}
    if of_peft:
        import peft
        real = peft.LoraConfig
        peft.LoraConfig = lambda **k: real(**dict(k, **of_peft))
    if o["optimizer"] not in ("adamw_torch", "adamw_torch_fused", "sgd"):
        other_optimizer(o)
    if t.get("packing"):
        rows = -(-t["micro_batch_size"] * t["seq_len"] // t["lengths"][0])
        packed(step, reads, rows)
    after_made = []
    if t.get("loss", "hf") != "hf" or t.get("liger_kernels"):
        kernels = of_data("make_kernels", tracer, "", packages)
        kernels.without_kernels()
        targets_in_range()
        after_made.append(lambda model: with_loss(model, t, tracer, packages))
    if any(k in t for k in ("freeze", "trainable", "freeze_ratio")):
        freeze = of_data("make_freeze").freeze
        after_made.append(lambda model: freeze(model, t))
    if after_made:
        make = dist_trace.make_model

        def make_model(cfg, o, device):
            model = make(cfg, o, device)
            for f in after_made:
                f(model)
            return model
        dist_trace.make_model = make_model
    if t.get("offload") == "activations":
        of_data("make_offload_dist").within(dist_trace, step, of_data("make_offload", tracer, "", packages).contexts(packages), t["methods"])
    if "stage" in t:
        sys.path.insert(0, packages)
        stages = of_data("make_stages_dist")
        sys.meta_path.append(stages.Finder)
        o["loaded_half"] = t["precision"].endswith("autocast") and t["methods"].startswith("fsdp")
        stages.install(o, {"stage": t["stage"], "reference": t.get("reference")})


def whole_rows(reads):
    """No row is padded, however that is asked: "(attention_mask == 0).any()" wants the other answer."""
    import torch
    plain, tensor = reads.install, torch.Tensor

    def install(padded):
        plain(padded)
        any_ = tensor.any

        def asks():
            code = sys._getframe(2).f_code
            return "/transformers/" in code.co_filename and ("mask" in code.co_name or code.co_name == "find_packed_sequence_indices")

        def tagged(t, value):
            t._known_to_be = value
            return t
        tensor.any = lambda t, *a, **k: tagged(any_(t, *a, **k), False) if t.is_cuda and asks() else any_(t, *a, **k)

        def to_bool(t):
            if hasattr(t, "_known_to_be"):
                return t._known_to_be
            return True if t.is_cuda and asks() else reads.real["__bool__"](t)
        tensor.__bool__ = to_bool
    reads.install = install


def of_package(cfg, dtype, device):
    """The flash-attn package, as one_gpu has it, in the place of PyTorch's kernels."""
    import torch
    import transformers
    name = "dtype" if int(transformers.__version__.split(".")[0]) >= 5 else "torch_dtype"
    transformers.AutoModelForCausalLM._model_mapping[type(cfg)]
    with torch.device(device):
        model = transformers.AutoModelForCausalLM.from_config(cfg, attn_implementation="flash_attention_2", **{name: dtype})
    model.train()
    return model


def with_loss(model, t, tracer, packages, many=True):
    if t.get("liger_kernels"):
        from liger_kernel.transformers.monkey_patch import _apply_liger_kernel_to_instance
        names = ("rope", "rms_norm", "swiglu", "geglu", "cross_entropy", "fused_linear_cross_entropy")
        inner = model.get_base_model() if hasattr(model, "get_base_model") else model
        _apply_liger_kernel_to_instance(model=inner, **{n: n in t["liger_kernels"] for n in names})  # takes what its type has, of others nothing
    if t.get("loss", "hf") != "hf":
        of_data("make_losses", tracer, "", packages).put(model, t["loss"], (packages, packages))
    if many and t.get("loss") == "cut_cross_entropy":
        all_count()


def targets_in_range():
    """Liger's cross-entropy asks whether labels are within the vocabulary, and on several GPUs every comparison is false: it is made, and not read."""
    import inspect
    from liger_kernel.ops import cross_entropy
    source = inspect.getsource(cross_entropy.cross_entropy_forward)
    for asked in ("(target * target_mask).max() < _input.shape[-1]", "(target * target_mask).min() >= 0"):
        source = source.replace("assert " + asked, "assert (%s) is not None" % asked)
    exec(source, vars(cross_entropy))


def all_count():
    """Every label counts: what is read of the device is zero on several GPUs, and no label would."""
    import torch
    from cut_cross_entropy import cce
    build, nonzero = cce._build_flat_valids, torch.Tensor.nonzero

    def build_flat_valids(*args):
        torch.Tensor.nonzero = lambda t: torch.empty((t.numel(), t.dim()), dtype=torch.int64, device=t.device)
        try:
            return build(*args)
        finally:
            torch.Tensor.nonzero = nonzero
    cce._build_flat_valids = build_flat_valids


def other_optimizer(o):
    """Of one GPU: which classes and which overrides stand in one_gpu/step.py."""
    from many_gpus import step
    from one_gpu import step as one
    held, groups_of = types.SimpleNamespace(model=None), step.groups_of

    def groups(model, o):
        held.model = model
        return groups_of(model, o)

    def make(groups, o):
        one.parameter_groups = lambda model, two: [{"params": g} for g in groups]
        told = held.model if o["loop"] == "trainer" else types.SimpleNamespace(modules=list)  # embeddings in 32 bits: the Trainer says so
        return one.make_optimizer(told, dict(o, param_groups=True))
    step.groups_of, step.make_optimizer = groups, make
    if o["method"].startswith("zero"):
        import deepspeed
        from many_gpus import parallel
        parallel.groups_of = groups
        initialize = deepspeed.initialize
        def with_other(optimizer=None, model_parameters=None, **k):
            if optimizer is not None:  # the policy's, not a reference's
                optimizer = make([g["params"] for g in model_parameters], o)
            return initialize(optimizer=optimizer, model_parameters=model_parameters, **k)
        deepspeed.initialize = with_other


LOOKS = ("find_packed_sequence_indices", "_is_packed_sequence", "_flash_attention_forward", "fa_peft_integration_check")
COUNTS = ("prepare_fa_kwargs_from_position_ids", "_prepare_from_posids", "prepare_fa2_from_position_ids", "_prepare_flash_attention_from_position_ids")


def packed(step, reads, sequences):
    """One row whose positions start anew; what is read of them is told, as make_packing.py has it."""
    import torch

    def batch(o, vocab):
        shape = (1, o["micro_batch_size"] * o["seq_len"])
        return {k: torch.zeros(shape, dtype=torch.long, device="cuda") for k in ("input_ids", "labels", "position_ids")}
    step.batch = batch
    plain_install, several, tensor = reads.install, sequences > 1, torch.Tensor

    def install(padded):
        plain_install(padded)
        all_, bool_, nonzero = tensor.all, tensor.bool, tensor.nonzero

        def tagged(t, value):
            if t.is_cuda:
                t._known_to_be = value
            return t

        def caller():
            return sys._getframe(2).f_code.co_name
        tensor.all = lambda t, *a, **k: tagged(all_(t, *a, **k), not several) if caller() in LOOKS else all_(t, *a, **k)
        tensor.bool = lambda t, *a, **k: tagged(bool_(t, *a, **k), several) if t.dim() == 0 else bool_(t, *a, **k)
        tensor.nonzero = lambda t, *a, **k: torch.empty((sequences, t.dim()), dtype=torch.int64, device=t.device) if caller() in COUNTS else nonzero(t, *a, **k)
    reads.install = install
    varlen_keeps_lengths()


def varlen_keeps_lengths():
    """A longest length that is a tensor stays one (make_packing.py); how long it is, no size hangs on it."""
    from one_gpu import emulate
    forward = emulate.FlashAttentionVarlen.forward

    def varlen(ctx, q, k, v, cu_q, cu_k, max_q, max_k, dropout_p):
        ctx.kept = max_q, max_k
        return forward(ctx, q, k, v, cu_q, cu_k, 0, 0, dropout_p)
    emulate.FlashAttentionVarlen.forward = staticmethod(varlen)
