"""The second held-out set of make_measured.py: cases that a generator draws of what requests may ask, and what switches each on in the loop of the oracle.

Widths are the models', layers few. The seed stands below; nothing of the program was looked at when a case was drawn. `switch()` takes the texts of the packages
themselves, as make_kernels.py, make_lora_kernels.py, make_options.py, make_offload.py, make_optimizers.py, make_heads.py, make_stages.py and make_packing.py do.
"""
import os
import random
import sys
import types

from make_heads import BERT, CAMEMBERT, DEBERTA, DISTIL, ELECTRA, MODERN, ROBERTA

SEED = 20261127
LAYERS = "num_hidden_layers"


def cut(n, **more):
    return {LAYERS: n, **more}


DENSE = [
    ("Qwen__Qwen3-0.6B", cut(4)), ("Qwen__Qwen2-0.5B", cut(4)), ("Qwen__Qwen2.5-1.5B", cut(3)), ("meta-llama__Llama-3.2-1B", cut(3)), ("meta-llama__Meta-Llama-3.1-8B", cut(2)),
    ("TinyLlama__TinyLlama-1.1B-Chat-v1.0", cut(5)), ("mistralai__Mistral-7B-v0.3", cut(2)), ("google__gemma-2-2b-it", cut(3, layer_types=None)),
    ("google__gemma-3-1b-it", cut(7, layer_types=None)), ("microsoft__Phi-3.5-mini-instruct", cut(2)), ("HuggingFaceTB__SmolLM2-360M-Instruct", cut(5)),
    ("allenai__Olmo-3-1025-7B", cut(4, layer_types=None)), ("ibm-granite__granite-3.1-2b-instruct", cut(3)), ("EleutherAI__pythia-1b", cut(4)),
    ("openai-community__gpt2-medium", cut(6, n_layer=6)), ("facebook__opt-1.3b", cut(4)), ("LGAI-EXAONE__EXAONE-4.0-1.2B", cut(4, layer_types=None)),
    ("THUDM__GLM-4-9B-0414", cut(2)), ("ByteDance-Seed__Seed-OSS-36B-Base", cut(2)), ("stabilityai__stablelm-3b-4e1t", cut(3)),
]
SCANS = [
    ("Qwen__Qwen3.5-27B", cut(4, layer_types=["linear_attention"] * 3 + ["full_attention"], hidden_size=2560, intermediate_size=9216, num_attention_heads=16)),
    ("Qwen__Qwen3.5-27B", cut(3, layer_types=["linear_attention", "full_attention", "linear_attention"])),
    ("tiiuae__Falcon-H1-0.5B-Base", cut(3)),
    ("nvidia__Nemotron-H-56B-Base-8K", cut(4, hybrid_override_pattern="M-*-", hidden_size=3136, intermediate_size=12544, mamba_num_heads=112, num_attention_heads=32, head_dim=128)),
    ("state-spaces__mamba-790m-hf", cut(3)), ("state-spaces__mamba-1.4b-hf", cut(2)),
    ({"model_type": "mamba2", "architectures": ["Mamba2ForCausalLM"], "vocab_size": 50288, "hidden_size": 2048, "num_heads": 64, "head_dim": 64, "state_size": 128, "n_groups": 1,
      "chunk_size": 256, "torch_dtype": "bfloat16"}, cut(3)),
    ({"model_type": "lfm2", "architectures": ["Lfm2ForCausalLM"], "vocab_size": 65536, "hidden_size": 2048, "block_ff_dim": 12288, "block_auto_adjust_ff_dim": True,
      "block_ffn_dim_multiplier": 1.0, "block_multiple_of": 256, "num_attention_heads": 32, "num_key_value_heads": 8, "full_attn_idxs": [2], "conv_L_cache": 3,
      "tie_embedding": True, "torch_dtype": "bfloat16"}, cut(4)),
    ({"model_type": "jamba", "architectures": ["JambaForCausalLM"], "vocab_size": 65536, "hidden_size": 2048, "intermediate_size": 4096, "num_attention_heads": 16,
      "num_key_value_heads": 4, "num_experts": 8, "num_experts_per_tok": 2, "attn_layer_period": 4, "attn_layer_offset": 2, "expert_layer_period": 2, "expert_layer_offset": 1,
      "mamba_d_state": 16, "torch_dtype": "bfloat16"}, cut(3)),
    ("Qwen__Qwen3-Next-80B-A3B-Instruct", cut(4, num_experts=32, layer_types=None)),
]
MIXTURES = [
    ("Qwen__Qwen3-30B-A3B", cut(2)), ("mistralai__Mixtral-8x7B-v0.1", cut(1)), ("openai__gpt-oss-120b", cut(2, num_local_experts=16, layer_types=None)),
    ("zai-org__GLM-4.5", cut(2, n_routed_experts=16, first_k_dense_replace=1)), ("deepseek-ai__DeepSeek-V3", cut(2, n_routed_experts=16, first_k_dense_replace=1)),
    ("Qwen__Qwen1.5-MoE-A2.7B-Chat", cut(2)), ("baidu__ERNIE-4.5-21B-A3B-PT", cut(3)),
]
ENCODERS = [(dict(BERT), cut(6)), (dict(ROBERTA), cut(6)), (dict(DEBERTA), cut(6)), (dict(MODERN), cut(9)), (dict(DISTIL), {"n_layers": 6}), (dict(ELECTRA), cut(12)), (dict(CAMEMBERT), cut(4)),
            ("google-bert__bert-large-uncased", cut(6)), (dict(MODERN, hidden_size=1024, intermediate_size=2624, num_attention_heads=16), cut(7))]
QKVO = ["q_proj", "k_proj", "v_proj", "o_proj"]
GATED = [x for x in DENSE if x[0].split("__")[1].split("-")[0] in ("Qwen3", "Qwen2", "Qwen2.5", "Llama", "Meta", "TinyLlama", "Mistral", "SmolLM2")]


def precision(r):
    return r.choice([{}, {}, {"precision": "bf16-mixed"}, {"precision": "fp16-mixed"}, {"precision": "fp32"}])


def adapters(r, targets="all-linear", half=0.3):
    lora = {"rank": r.choice([4, 8, 16, 32, 64]), "alpha": 16, "dropout": r.choice([0.0, 0.0, 0.05, 0.1]), "target_modules": targets, "dtype": "fp32"}
    out = dict(tuning="lora", lora=lora, **r.choice([{}, dict(precision="bf16-mixed", weights_dtype="bf16")]))
    if not out.get("weights_dtype") and r.random() < half:
        lora["dtype"] = "bf16"
    return out


def shape(r, mean=900, tokens=4096, least=16):
    """Lengths of a normal distribution, rows that fill what is left."""
    s = max(least, min(tokens, int(r.gauss(mean, mean / 2))))
    return {"seq_len": s, "micro_batch_size": max(1, min(16, r.randint(1, max(1, tokens // s))))}


def checkpoints(r):
    return r.choice([{}, {}, {"gradient_checkpointing": True}, {"gradient_checkpointing": True, "use_reentrant": True}])


def batch(r):
    return r.choice([{}, {}, {}, {"padded": True}, {"attention_mask": False}, {"gradient_accumulation_steps": 2}])


def attention(r):
    return r.choice([{}, {}, {}, {"attention": "eager"}])


def dense(r):
    c, over = r.choice(DENSE)
    return c, over, {**shape(r), **checkpoints(r), **batch(r), **attention(r), **r.choice([precision, adapters])(r)}


def scans(r):
    c, over = r.choice(SCANS)
    return c, over, {**shape(r, 500, 1024), **checkpoints(r), **r.choice([{}, {"padded": True}]), **r.choice([precision, lambda r: adapters(r, ["in_proj", "q_proj", "in_proj_qkv", "in_proj_qkvz"])])(r)}


def mixtures(r):
    c, over = r.choice(MIXTURES)
    eager = {"attention": "eager"} if "gpt-oss" in c else {}
    targets = ["q_b_proj", "o_proj"] if "DeepSeek" in c else QKVO[:2]
    how = r.choice([lambda r: {}, adapters, lambda r: adapters(r, targets), lambda r: {"precision": "bf16-mixed"}])(r)
    if how.get("lora", {}).get("target_modules") == "all-linear":
        how["lora"]["dropout"] = 0.0   # of experts peft adapts without alone
    if not how and r.random() < 0.5:
        how = {"optimizer": "adamw_bnb_8bit"}
    return c, over, {**shape(r, 600, 1500), **checkpoints(r), **batch(r), **eager, **how}


def encoders(r):
    c, over = r.choice(ENCODERS)
    kind = "roberta" if isinstance(c, str) else c["model_type"]
    head = r.choice(["classification", "classification", "masked_lm", "token_classification"])
    eager = {"attention": "eager"} if kind == "deberta-v2" else attention(r)
    how = precision(r)
    if head == "classification" and r.random() < 0.3:
        targets = {"deberta-v2": ["query_proj", "value_proj"], "modernbert": ["Wqkv", "Wo"], "distilbert": ["q_lin", "v_lin"]}.get(kind, ["query", "value"])
        how = adapters(r, targets, 0)
    return c, dict(over, num_labels=r.choice([2, 3, 7])), {**shape(r, 220, 4096), "head": head, **r.choice([{}, {"padded": True}, {"gradient_checkpointing": True}]), **eager, **how}


def stages(r):
    c, over = r.choice(DENSE[:6])
    stage = r.choice(["dpo", "dpo", "kto", "orpo", "simpo", "reward", "distillation"])
    how = r.choice([lambda r: {}, lambda r: {"precision": "bf16-mixed"}, lambda r: adapters(r, QKVO[::2], 0)])(r)
    more = {"reference": "precomputed"} if stage in ("dpo",) and how.get("tuning") is None and r.random() < 0.4 else {}
    size = shape(r, 500, 2048)
    if stage == "kto":
        size["micro_batch_size"] = max(2, size["micro_batch_size"] // 2 * 2)
    return c, over, {**size, **r.choice([{}, {"gradient_checkpointing": True}]), "stage": stage, **more, **how}


def packing(r):
    c, over = r.choice(DENSE[:9])
    size = shape(r, 1000, 4096, 128)
    tokens = size["seq_len"] * size["micro_batch_size"]
    return c, over, {**size, "sequences": r.randint(1, max(1, tokens // 100)), "attention": r.choice(["sdpa", "sdpa", "eager" if tokens < 1500 else "sdpa"]),
                     **checkpoints(r), **r.choice([lambda r: {}, adapters])(r)}


def axolotl(r):
    c, over = r.choice(GATED)
    how = dict(adapters(r, half=0), precision="bf16-mixed", weights_dtype="bf16", kernels=r.choice([["qkv", "o", "mlp"], ["qkv", "o", "mlp"], ["mlp"], ["qkv", "o"]]))
    if r.random() < 0.3:
        how.update(quantization=r.choice(["nf4", "nf4-dq"]), prepare_kbit=False)
    return c, over, {**shape(r), **checkpoints(r), **how}


def liger(r):
    c, over = r.choice(DENSE[:9] + DENSE[11:13] + MIXTURES[:3])
    gated = "geglu" if "gemma" in c else "swiglu"
    names = r.choice([["rope", "rms_norm", gated, "fused_linear_cross_entropy"]] * 3 + [["rms_norm", gated], ["rope", "cross_entropy"], ["rope", "rms_norm", gated, "cross_entropy"]])
    if "granite" in c and "fused_linear_cross_entropy" in names:
        names = names[:3] + ["cross_entropy"]
    return c, over, {**shape(r), **checkpoints(r), "liger": names, **({"attention": "eager"} if "gpt-oss" in c else {}), **r.choice([precision, lambda r: adapters(r, QKVO)])(r)}


def quantised(r):
    c, over = r.choice(DENSE[:14] + DENSE[15:])
    kind = r.choice(["nf4", "nf4-dq", "int8", "torchao-int8", "torchao-nf4"])
    how = adapters(r, half=0)
    how.update(tuning="qlora", quantization=kind, weights_dtype="bf16", prepare_kbit=False if kind.startswith("torchao") else r.choice([False, True]),
               precision=r.choice(["bf16-mixed", "bf16-mixed", "bf16"]))
    return c, over, {**shape(r), **checkpoints(r), **how, **r.choice([{}, {"optimizer": "paged_adamw_8bit"}])}


def optimizers(r):
    c, over = r.choice(DENSE)
    name = r.choice(["adamw_bnb_8bit", "paged_adamw_8bit", "paged_adamw_32bit", "adafactor", "muon", "sgd", "lion_8bit", "lion_32bit", "adagrad", "rmsprop", "ademamix_8bit",
                     "schedule_free_adamw", "adamw_torch_fused"])
    return c, over, {**shape(r, 600, 1500), **checkpoints(r), "optimizer": name, **r.choice([{}, {"precision": "bf16-mixed"}])}


def switches(r):
    c, over = r.choice(DENSE[:12])
    what = r.choice([{"word": "every_2nd_layer", "gradient_checkpointing": True}, {"word": "selective_op", "gradient_checkpointing": True}, {"in_backward": True, "max_grad_norm": 0},
                     {"offload": "activations"}, {"offload": "activations", "gradient_checkpointing": True}])
    return c, over, {**shape(r), **what, **({} if "in_backward" in what else r.choice([lambda r: {}, lambda r: {"precision": "bf16-mixed"}, adapters])(r))}


def rarer(r):
    """LoRA's own switches."""
    c, over = r.choice(GATED)
    how = adapters(r, half=0)
    how["peft"] = r.choice([{"use_dora": True}, {"use_dora": True}, {"use_rslora": True}, {"modules_to_save": ["embed_tokens", "lm_head"]}, {"modules_to_save": ["lm_head"]},
                            {"layers_to_transform": [0]}, {"bias": "lora_only"}])
    if "modules_to_save" in how["peft"] or "layers_to_transform" in how["peft"]:
        how["lora"]["target_modules"] = QKVO
    return c, over, {**shape(r), **checkpoints(r), **how}


KINDS = dict(dense=(dense, 14), scans=(scans, 14), mixtures=(mixtures, 14), encoders=(encoders, 12), stages=(stages, 10), packing=(packing, 8), axolotl=(axolotl, 7), liger=(liger, 9),
             quantised=(quantised, 10), optimizers=(optimizers, 7), switches=(switches, 7), rarer=(rarer, 6))


def draw(seed=SEED, times=1):
    """name: config, options"""
    out = {}
    for kind, (make, n) in KINDS.items():
        for i in range(n * times):
            name = "%s-%d" % (kind, i)
            config, over, options = make(random.Random("%d %s" % (seed, name)))
            out[name] = (config, dict(options, model_config=over))
    return out


# ------------------------------------------------------------------------------------------------------------------ on the loop
def switch(step, o, oracle, packages, real):
    """Takes what step.py has no word for out of the options and lays it over its functions; `real`: on a GPU, with values."""
    sys.argv[1:] = [oracle, "", packages, ""]
    o = dict(o)
    more = {k: o.pop(k) for k in ("peft", "kernels", "liger", "word", "in_backward", "offload", "head", "stage", "reference", "sequences") if k in o}
    import make_kernels
    if "peft" in more:
        import peft
        lora = peft.LoraConfig
        peft.LoraConfig = lambda **k: lora(**dict(k, **more["peft"]))
    if o.get("tuning") == "lora" and o.get("quantization", "none") != "none":
        o["tuning"] = "qlora"
    if o.get("quantization", "").startswith("torchao"):
        import make_quantisers
        from one_gpu import report
        make_quantisers.switch(step, report, o["quantization"])
    if "kernels" in more:
        import make_lora_kernels
        make_lora_kernels.with_kernels(step, packages)
        o["kernels"] = more["kernels"]
    if "liger" in more:
        make_kernels.with_liger(step)
        o["liger"] = more["liger"]
    if "word" in more or "in_backward" in more:
        import make_options
        make_options.switch(step, packages)
        o.update((k, more[k]) for k in ("word", "in_backward") if k in more)
    if "offload" in more:
        import make_offload
        training_step = step.Run.training_step

        def within(run, batch, items):
            if not hasattr(run, "offloading"):
                run.offloading = make_offload.contexts(packages)(model=run.model)
            with run.offloading:
                return training_step(run, batch, items)
        step.Run.training_step = within
    if o.get("optimizer", "").split("_")[0] in ("muon", "adagrad", "rmsprop", "schedule", "ademamix", "paged"):
        import make_optimizers
        make_optimizers.make(step, packages)
    if "head" in more:
        import make_heads
        make_heads.patch(more["head"])
    if "stage" in more:
        import make_stages
        sys.path.insert(0, packages)
        sys.meta_path.append(make_stages.Finder)
        nonzero = step.torch.nonzero
        make_stages.patch({"stage": more["stage"], "reference": more.get("reference")}) if not real else with_real_kernels(make_stages, more)
        if real:
            prepare = make_stages.Kto.prepare

            def prepared(run, stage):
                made = prepare(run, stage)
                step.torch.nonzero = nonzero
                return made
            make_stages.Kto.prepare = staticmethod(prepared)
    if "sequences" in more:
        import make_packing
        make_packing.patch(more["sequences"])
    if real:
        with_ids(step, more.get("sequences", 0), more.get("head") in ("classification", "token_classification"))
    return o


def with_real_kernels(make_stages, more):
    import trl.kernels.chunked_logprob as chunked
    import trl.kernels.logprob_entropy as entropy
    import trl.trainer.utils as utils
    kept = [(m, n, getattr(m, n)) for m, n in ((chunked, "_forward_kernel"), (chunked, "_backward_kernel"), (chunked, "_use_triton"), (entropy, "_forward_kernel"), (entropy, "_backward_kernel"),
                                               (utils, "_use_triton"), (utils, "_supports_trl_loss_kernel"))]
    make_stages.patch({"stage": more["stage"], "reference": more.get("reference")})
    for m, n, value in kept:
        setattr(m, n, value)


def with_ids(step, sequences, classes):
    """Fills what a batch's tensors are made of, where they lie."""
    make = step.make_batch

    def make_batch(config, o):
        text = config.get_text_config() if hasattr(config, "get_text_config") else config
        made = make(config, o)
        for name, t in made.items():
            if "mask" in name:
                t.fill_(1)
                if o["padded"] and name.endswith("attention_mask"):
                    t[:, o["seq_len"] - o["pad_per_row"]:] = 0
            elif name == "position_ids":
                n, total = max(sequences, 1), t.shape[-1]
                each = -(-total // n)
                for at in range(0, total, each):
                    stop = min(at + each, total)
                    step.torch.arange(stop - at, out=t[0, at:stop])
            elif name == "label":
                t.fill_(False)
                t[::2] = True
            elif t.is_floating_point():
                t.fill_(0.5)
            elif name in ("token_type_ids", "next_sentence_label"):
                t.zero_()
            elif name == "labels" and classes:
                t.random_(0, config.num_labels)
            else:
                t.random_(1, text.vocab_size - 1)
        return made
    step.make_batch = make_batch
