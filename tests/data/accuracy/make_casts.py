#!/usr/bin/env python3
"""Makes casts.jsonl of this folder: steps of models that nothing packs, after axolotl's loader has cast what it casts, by its own functions.

    make_casts.py ORACLE CONFIGS PYTHON AXOLOTL [--only TEXT]

ORACLE holds trace.py and dist_trace.py; PYTHON is that of its environment (torch 2.15, transformers 5.23, peft 0.21); AXOLOTL is the src folder of axolotl 0.19.0, of which
loaders/model.py _configure_embedding_dtypes and _convert_embedding_modules_dtype run.
"""
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import make_moe  # noqa: E402
import make_stages  # noqa: E402
from make_stages import QWEN3, TINY  # noqa: E402

STACK = {"torch": "2.15", "transformers": "5.23", "peft": "0.21", "framework": "transformers"}
CKPT = dict(gradient_checkpointing=True)
AMP = dict(precision="bf16-autocast", prepare_kbit="axolotl")
FUSED, FLASH = dict(optimizer="adamw_torch_fused"), dict(attention="flash_attention_2")
LORA = dict(tuning="lora", lora={"rank": 16, "dropout": 0.05, "target_modules": ["q_proj", "v_proj"]})

# name, method, ranks, config or type of make_moe.SMALL, layers (0: as they are), rows, tokens of a row, the rest of `training`
CASES = [
    ("full", "single", 1, QWEN3, 4, 2, 512, dict(**AMP)),
    ("full-ckpt", "single", 1, TINY, 6, 2, 512, dict(**AMP, **CKPT, **FUSED)),
    ("full-eager", "single", 1, TINY, 4, 1, 500, dict(attention="eager", checkpoint_reentrant=True, **AMP, **CKPT)),
    ("full-padded", "single", 1, QWEN3, 4, 2, 384, dict(padded=True, gradient_accumulation_steps=2, **AMP, **FUSED)),
    ("full-neox", "single", 1, "EleutherAI__pythia-1.4b", 4, 2, 512, dict(**AMP)),
    ("full-flash", "single", 1, QWEN3, 4, 2, 512, dict(**AMP, **FLASH)),
    ("full-experts", "single", 1, "qwen3_moe", 0, 1, 512, dict(**AMP, **CKPT)),
    ("full-experts-flash", "single", 1, "mixtral", 0, 1, 512, dict(**AMP, **FLASH, **FUSED)),
    ("lora-experts", "single", 1, "qwen2_moe", 0, 2, 384, dict(**AMP, **CKPT, **LORA)),
    ("lora-gates", "single", 1, "glm4_moe", 0, 1, 512, dict(**AMP, **LORA)),
    ("full-ddp", "ddp", 4, TINY, 4, 1, 512, dict(**AMP)),
    ("full-ddp-ckpt", "ddp", 2, QWEN3, 4, 2, 512, dict(**AMP, **CKPT, **FUSED)),
    ("full-ddp-experts", "ddp", 2, "mixtral", 0, 1, 384, dict(**AMP, **FLASH)),
    ("lora-ddp-experts", "ddp", 4, "qwen3_moe", 0, 1, 512, dict(**AMP, **LORA)),
    ("full-tp", "tp", 2, TINY, 4, 1, 512, dict(**AMP, **CKPT, **FUSED)),
]


def request_of(case, configs):
    name, method, ranks, config, layers, rows, tokens, training = case
    if config in make_moe.SMALL:
        import make_quantised_experts
        request = make_quantised_experts.request_of((name, config, rows, tokens, {}), configs)
        request["training"] = {"tuning": "full", "attention": "sdpa", "gradient_checkpointing": False, "optimizer": "adamw_torch", "micro_batch_size": rows, "seq_len": tokens, **training}
    else:
        request = make_stages.request_of((name, config, layers, rows, tokens, training), configs)
    request["cluster"].update(gpus_per_node=ranks)
    request["training"].update(methods=method)
    request["stack"] = STACK
    return request


def cast(axolotl, model, training):
    import make_quantised_experts
    return make_quantised_experts.configure(axolotl, model, False, None, adapter="lora" if training["tuning"] == "lora" else None,
                                            attn_needs_dtype_cast=training["attention"] not in ("sdpa", "eager"))


def trace(oracle, axolotl):
    sys.path[:0] = [oracle]
    sys.argv[0] = os.path.abspath(__file__)
    request = json.loads(os.environ["TRACED_REQUEST"])
    training = dict(request["training"])
    del training["prepare_kbit"]
    several = training["methods"] != "single"
    import environment
    environment.ensure(*([80, 0] if several else []))
    import ask
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(request["config"], f)
        f.flush()
        if several:
            import dist_trace
            from many_gpus import models
            build = models.build
            models.build = lambda *a: cast(axolotl, build(*a), training)
            o = dist_trace.resolve({**ask.for_many(request, training, []), "loop": "plain" if training["methods"] == "tp" else "trainer", "breakdown": False})
            out = dist_trace.trace_rank(f.name, o, 0)
        else:
            from one_gpu import emulate, report, step
            emulate.install_flash_attn()
            meta = step.model_on_meta

            def loaded(*a):
                model, attention = meta(*a)
                return cast(axolotl, model, training), attention
            step.model_on_meta = loaded
            out = report.trace(f.name, ask.for_one(request, training, []))
    print("\n" + json.dumps(out))
    sys.stdout.flush()
    os._exit(0)


def main():
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    oracle, configs, python, axolotl = sys.argv[1:5]
    import traced_rows
    traced_rows.remake("casts", "axolotl's casts", CASES, only, lambda case: request_of(case, configs), python, (oracle, axolotl))


if __name__ == "__main__":
    if sys.argv[1] == "--trace":
        trace(*sys.argv[2:4])
    else:
        main()
