"""What compare-random --packages draws on one GPU beside sizes and flags, and how the tracer of one GPU comes to run it: by the files of
tests/data/accuracy that make rows of each. PACKAGES: trl, liger-kernel, cut-cross-entropy, and where they lie there torchtitan (selective_op), schedulefree."""
import os

import drawn_options
from drawn_options import of_data, releases

OPTIMIZERS = ("adamw_bnb_8bit", "paged_adamw_8bit", "paged_adamw_32bit", "lion_8bit", "paged_lion_8bit", "lion_32bit", "adafactor", "muon", "adagrad",
              "rmsprop", "ademamix", "ademamix_8bit", "paged_ademamix_8bit")
STAGES = ("dpo", "dpo", "kto", "orpo", "cpo", "simpo", "reward", "distillation", "classification", "token_classification")
HEADS = ("classification", "token_classification", "question_answering", "masked_lm", "embedding")  # make_heads.py's, the others make_stages.py's
OURS = drawn_options.OF_TRAINING + ("optimizer_in_backward", "offload", "gradient_checkpointing")
KNOWN = ("adamw_torch", "adamw_torch_fused", "sgd")


# ------------------------------------------------------------------------------------------------------------------------- draws
def optimizer(r, q, t):
    t["optimizer"] = r.choice(OPTIMIZERS)


def loss(r, q, t):
    words = ["chunked", "cut_cross_entropy"] + ["chunked_nll"] * ("trl" in q["stack"])
    if r.random() < 0.5:
        t["loss"] = r.choice(words)
        return
    del t["loss"]
    t["liger_kernels"] = r.choice([["fused_linear_cross_entropy"], ["rope", "rms_norm", "swiglu", "fused_linear_cross_entropy"], ["rms_norm", "cross_entropy"],
                                   ["rope", "rms_norm", "geglu", "layer_norm", "fused_linear_cross_entropy"]])


def packing(r, q, t):
    t.update(packing=True, padded=False, lengths=[max(16, t["seq_len"] // r.choice([1, 2, 3, 7]))])


def quantised(r, q, t):
    lora(r, q, t)
    t.update(tuning="qlora", quantization=r.choice(["nf4", "nf4-dq", "int8"]), prepare_kbit=r.choice(["none", "peft", "trl"]))
    if t["precision"] not in ("bf16", "bf16-autocast"):
        t["precision"] = "bf16-autocast"


def lora(r, q, t):
    t["tuning"] = "lora"
    t.setdefault("lora", {"rank": r.choice([8, 64]), "alpha": 16, "dropout": r.choice([0.0, 0.05]), "dtype": "fp32", "target_modules": "all-linear"})


def adapters(r, q, t):
    """Members of LoraConfig that move memory."""
    lora(r, q, t)
    named = t["lora"].get("target_modules")
    named = named if isinstance(named, list) else None
    kinds = ["dora", "rslora", "bias", "save_head", "save_embedding", "layers", "ranks"]
    for kind in r.sample(kinds, r.choice([1, 1, 2])):
        if kind == "dora":
            t["lora"]["use_dora"] = True
        elif kind == "rslora":
            t["lora"]["use_rslora"] = True
        elif kind == "bias":
            t["lora"]["bias"] = r.choice(["all", "lora_only"])
        else:
            named = t["lora"]["target_modules"] = named or r.choice([["q_proj", "v_proj"], ["q_proj", "k_proj", "v_proj", "o_proj"]])
            if kind == "save_head":
                t["lora"]["modules_to_save"] = ["lm_head"]
            elif kind == "save_embedding":
                t["lora"]["modules_to_save"] = r.choice([["embed_tokens"], ["embed_tokens", "lm_head"]])
            elif kind == "layers":
                t["lora"]["layers_to_transform"] = [0]
            else:
                t["lora"]["rank_pattern"] = {named[0]: r.choice([2, 32])}


def part(r, q, t):
    t["tuning"] = "full"
    for name in ("lora", "quantization", "prepare_kbit"):
        t.pop(name, None)
    drawn_options.part(r, q, t, "single", None)


def stage(r, q, t):
    t["stage"] = r.choice(STAGES)
    t["padded"] = False
    if t["stage"] == "kto":
        t["micro_batch_size"] = r.choice([2, 3])
    if t["stage"] in ("dpo", "kto") and r.random() < 0.3:
        t["reference"] = "precomputed"


def checkpoints(r, q, t):
    t["gradient_checkpointing"] = r.choice(["every_2nd_layer"] + ["selective_op"] * ("torchtitan" in q["have"]))
    t.pop("checkpoint_reentrant", None)


def in_backward(r, q, t):
    t.update(optimizer_in_backward=True, max_grad_norm=0.0, gradient_accumulation_steps=1)


def activations(r, q, t):
    t["offload"] = "activations"


def may(t):
    out = [optimizer, optimizer, loss, loss, packing, quantised, adapters, adapters, stage, stage, checkpoints, in_backward, activations]
    return out + [part] * (t["tuning"] == "full")


APART = ({loss, stage}, {packing, stage}, {in_backward, stage}, {part, quantised}, {part, adapters}, {checkpoints, stage}, {activations, stage})


def draw(r, q, packages):
    """One to three of them on top of what was drawn."""
    t, have = q["training"], releases(packages)
    q["have"] = have
    if "trl" in have:
        q["stack"]["trl"] = have["trl"]
    taken = []
    for _ in range(r.choice([1, 1, 2, 2, 3])):
        more = [f for f in may(t) if f not in taken and not any({f, g} in APART for g in taken)]
        taken.append(r.choice(more))
        taken[-1](r, q, t)
    del q["have"]
    if t.get("packing"):
        t.pop("padded", None)
    if t.get("liger_kernels"):
        q["stack"]["liger"] = have["liger-kernel"]
    if "stage" not in t and t.get("loss") != "chunked_nll" and t.get("offload") != "activations":
        q["stack"].pop("trl", None)


# ------------------------------------------------------------------------------------------------------------------ tracer's words
def options_of(ask, q):
    t = {k: v for k, v in q["training"].items() if k not in OURS}
    word = q["training"].get("gradient_checkpointing", False)
    t["gradient_checkpointing"] = bool(word)
    if t.get("lora"):
        t["lora"] = {k: v for k, v in t["lora"].items() if k not in drawn_options.OF_LORA}
    return ask.for_one(dict(q, training=t), t, [])


# ------------------------------------------------------------------------------------------------------------------------- traces
def install(t, o, tracer, packages):
    """In the case's own process; what the options are then."""
    from one_gpu import step
    of_peft = {k: t["lora"][k] for k in drawn_options.OF_LORA if k in (t.get("lora") or {})}
    if of_peft:
        import peft
        real = peft.LoraConfig
        peft.LoraConfig = lambda **k: real(**dict(k, **of_peft))
    if t["tuning"] == "lora" and "modules_to_save" in of_peft and "use_dora" not in of_peft:
        adapted_on_host(step)
    if t["optimizer"] not in KNOWN:
        of_data("make_optimizers", tracer, "", packages).make(step, packages)
    if t.get("packing"):
        of_data("make_packing").patch(-(-t["micro_batch_size"] * t["seq_len"] // t["lengths"][0]))
    built = []
    if t.get("loss", "hf") != "hf" or t.get("liger_kernels"):
        of_data("make_kernels", tracer, "", packages).without_kernels()
        if t.get("loss", "hf") != "hf":
            of_data("make_losses", tracer, "", packages).mark_phases(step)
        built.append(lambda model: drawn_options.with_loss(model, t, tracer, packages, False))
    if any(k in t for k in ("freeze", "trainable", "freeze_ratio")):
        freeze = of_data("make_freeze").freeze
        built.append(lambda model: freeze(model, t))
    if built:
        build = step.build

        def patched(config, o):
            model, attention = build(config, o)
            for f in built:
                f(model)
            return model, attention
        step.build = patched
    if t.get("optimizer_in_backward") or isinstance(t.get("gradient_checkpointing"), str):
        of_data("make_options", tracer, "", packages).switch(step, packages)
        o = dict(o, in_backward=bool(t.get("optimizer_in_backward")))
        if isinstance(t.get("gradient_checkpointing"), str):
            o["word"] = t["gradient_checkpointing"]
    if t.get("offload") == "activations":
        of_data("make_offload", tracer, "", packages).within(step, packages)
    if "stage" in t:
        staged(t, packages)
    return o


def adapted_on_host(step):
    """peft copies what it saves, and the Trainer moves the model that it made: copies stand beside what they are of, and nothing was freed before.
    Other adapters are made beside weights that lie on the GPU, as tracing has them (device_map)."""
    import peft
    plain, adapt = step.materialise, peft.get_peft_model

    def adapted(model, config, **how):
        model = adapt(model, config, **how)
        return model.to("cuda")

    peft.get_peft_model = adapted
    build = step.build

    def on_host(config, o):
        step.materialise = lambda model: plain(model, "cpu")
        try:
            return build(config, o)
        finally:
            step.materialise = plain
    step.build = on_host


def staged(t, packages):
    import sys
    if t["stage"] in HEADS:
        heads = of_data("make_heads")
        heads.patch(t["stage"])
        loads(heads.AUTO[t["stage"]])
        if t["stage"] == "embedding":
            heads.sentences(packages)
        return
    sys.path.insert(0, packages)
    stages = of_data("make_stages")
    sys.meta_path.append(stages.Finder)
    stages.patch({"stage": t["stage"], "reference": t.get("reference")})
    if t["stage"] == "reward":
        loads("AutoModelForSequenceClassification")


def loads(auto):
    """from_pretrained() of quantised weights, too, makes a model of this class."""
    import transformers
    transformers.AutoModelForCausalLM.from_pretrained = getattr(transformers, auto).from_pretrained


def figures(out):
    told = ("peak_allocated_bytes", "peak_reserved_bytes", "peak_reserved_expandable_bytes", "static_bytes", "phase_peaks_bytes", "peak_phase", "assumed_reads")
    return {k: out[k] for k in told if k in out}


def trace(tracer, batch, packages, events=None):
    """Lines {"id", "config", "options", "asked"}, one line each back: every case in its own process, forked after the imports."""
    import json
    import sys
    import tempfile
    sys.path.insert(0, tracer)
    import environment
    environment.ensure()
    from one_gpu import emulate
    emulate.install_flash_attn()
    import torch
    import accelerate  # noqa: F401
    import peft  # noqa: F401
    import transformers.modeling_utils  # noqa: F401
    from transformers import AutoModelForCausalLM, Trainer  # noqa: F401
    from transformers.optimization import Adafactor  # noqa: F401
    from one_gpu import report, step  # noqa: F401
    torch.cuda.init()
    with open(batch) as f:
        rows = [json.loads(line) for line in f]
    for row in rows:
        handle, name = tempfile.mkstemp(prefix="case")
        os.close(handle)
        pid = os.fork()
        if pid == 0:
            import signal
            import traceback
            signal.alarm(240)
            torch.cuda._is_in_bad_fork, torch.cuda._initialized = (lambda: False), True
            try:
                done = {"result": figures(report.trace(row["config"], install(row["asked"], row["options"], tracer, packages), events=events))}
            except BaseException as error:
                done = {"error": "%s: %s" % (type(error).__name__, str(error)[:500]), "where": traceback.format_exc()[-1500:]}
            with open(name, "w") as f:
                f.write(json.dumps(dict(done, id=row["id"])))
            os._exit(0)
        os.waitpid(pid, 0)
        with open(name) as f:
            sys.stdout.write(f.read() + "\n")
        sys.stdout.flush()
        os.unlink(name)
    os._exit(0)
