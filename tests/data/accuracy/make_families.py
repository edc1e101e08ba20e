#!/usr/bin/env python3
"""Makes families.jsonl of this folder: steps of families that the other files lack, on the newest release and, where named, on earlier ones.

    make_families.py ORACLE_PYTHON ORACLE CONFIGS RELEASES [TYPE[/OPTIONS[/RELEASE]]..]

RELEASES holds a folder a release of transformers, as make_moe.py has it. torch 2.15, transformers 5.23, peft 0.21. With names: their rows alone are made anew; TYPE/OPTIONS/ is the newest release alone.
"""
import json
import os
import subprocess
import sys
import tempfile

from make_moe import config_of, request_of, row_of, trace

HERE = os.path.dirname(os.path.abspath(__file__))
GROUP = "one GPU, other families"
LLAMA4 = dict(num_hidden_layers=4, hidden_size=1024, intermediate_size=1024, intermediate_size_mlp=2048, num_attention_heads=8, num_key_value_heads=2,
              num_local_experts=4)
KINDS = ["sliding_attention", "sliding_attention", "full_attention"]
GEMMA4 = dict(num_hidden_layers=3, hidden_size=1024, intermediate_size=1024, num_attention_heads=8, num_key_value_heads=4, num_global_key_value_heads=2,
              num_experts=8, top_k_experts=4, moe_intermediate_size=256, vocab_size=65536, layer_types=KINDS)
GEMMA4_ROWS = GEMMA4 | dict(num_hidden_layers=6, layer_types=KINDS * 2, enable_moe_block=False, num_experts=None, hidden_size_per_layer_input=128,
                            vocab_size_per_layer_input=65536, attention_k_eq_v=False, num_global_key_value_heads=None, num_kv_shared_layers=3,
                            use_double_wide_mlp=True)
DENSE = dict(num_hidden_layers=3, hidden_size=1024, intermediate_size=2816, num_attention_heads=16, num_key_value_heads=4, vocab_size=32000,
             max_position_embeddings=8192)
SPARSE = DENSE | dict(moe_intermediate_size=512, num_experts_per_tok=4)
LATENT = SPARSE | dict(num_key_value_heads=16, kv_lora_rank=256, q_lora_rank=384, n_routed_experts=16)
HALVES = ["sliding_attention", "full_attention"] * 2
PLAIN = {  # model_type: what differs from the defaults of its config class
    "glm4_moe_lite": LATENT, "youtu": {k: v for k, v in LATENT.items() if "expert" not in k},
    "solar_open": SPARSE | dict(n_routed_experts=16, head_dim=64), "dots1": SPARSE | dict(n_routed_experts=16, n_shared_experts=2, layer_types=HALVES[:3]),
    "exaone_moe": SPARSE | dict(num_hidden_layers=4, num_experts=16, sliding_window=256), "hy_v3": SPARSE | dict(num_experts=16, head_dim=64),
    "flex_olmo": DENSE | dict(num_key_value_heads=16, intermediate_size=1024, num_experts=8, num_experts_per_tok=2, pad_token_id=0),
    "hunyuan_v1_dense": DENSE | dict(head_dim=64, rope_parameters=dict(rope_type="dynamic", alpha=1000.0, factor=1.0, rope_theta=10000.0)),
    "nanochat": DENSE | dict(num_key_value_heads=8),
    "hunyuan_v1_moe": DENSE | dict(intermediate_size=1024, num_experts=8, moe_topk=2, head_dim=64),
    "ministral": DENSE | dict(num_hidden_layers=4, head_dim=64, sliding_window=256, layer_types=HALVES), "internlm3": DENSE | dict(head_dim=64),
    "cwm": DENSE | dict(num_hidden_layers=4, head_dim=64, sliding_window=256), "vaultgemma": DENSE | dict(num_hidden_layers=4, head_dim=64, sliding_window=256),
    "granitemoeshared": DENSE | dict(intermediate_size=512, num_local_experts=16, num_experts_per_tok=8, shared_intermediate_size=1024),
    "openai-gpt": dict(vocab_size=8000, n_positions=1024, n_embd=512, n_layer=3, n_head=8),
    "persimmon": {k: v for k, v in DENSE.items() if k != "num_key_value_heads"}, "fuyu": {k: v for k, v in DENSE.items() if k != "num_key_value_heads"},
    "dbrx": dict(d_model=1024, n_heads=16, n_layers=3, max_seq_len=8192, vocab_size=32000, attn_config=dict(kv_n_heads=4, clip_qkv=8, rope_theta=500000),
                 ffn_config=dict(ffn_hidden_size=512, moe_num_experts=8, moe_top_k=2, moe_jitter_eps=0.01), num_experts=8, num_experts_per_tok=2),
    "minicpm3": DENSE | dict(num_key_value_heads=16, kv_lora_rank=256, q_lora_rank=384, v_head_dim=64, pad_token_id=0),
    "olmo_hybrid": DENSE | dict(num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=8, linear_num_key_heads=4, linear_num_value_heads=8,
                                linear_key_head_dim=64, linear_value_head_dim=128, layer_types=["linear_attention", "full_attention"] * 2, pad_token_id=1),
    "hyperclovax": DENSE | dict(pad_token_id=0), "bitnet": DENSE | dict(pad_token_id=0), "iquestcoder": DENSE | dict(head_dim=64, pad_token_id=0),
    "diffllama": DENSE | dict(pad_token_id=0), "falcon_mamba": dict(num_hidden_layers=3, hidden_size=512, vocab_size=32000, pad_token_id=0),
    "afmoe": SPARSE | dict(num_hidden_layers=4, num_experts=16, head_dim=64, sliding_window=256, mup_enabled=True),
    "mellum": SPARSE | dict(num_hidden_layers=4, num_experts=16, head_dim=64, sliding_window=256, layer_types=HALVES, pad_token_id=0),
    "cohere2_moe": DENSE | dict(num_hidden_layers=4, intermediate_size=512, prefix_dense_intermediate_size=2816, first_k_dense_replace=1, num_experts=16,
                                num_experts_per_tok=4, num_shared_experts=1, head_dim=64, sliding_window=256, pad_token_id=0),
    "jetmoe": dict(num_hidden_layers=3, hidden_size=1024, num_key_value_heads=8, kv_channels=64, intermediate_size=1408, num_local_experts=8,
                   num_experts_per_tok=2, vocab_size=32000, output_router_logits=True, pad_token_id=0),
    "granite_swa": DENSE | dict(num_hidden_layers=4, pad_token_id=0, layer_rope_theta=[10000.0, 0, 10000.0, 500000.0]),
    "granitemoe_swa": DENSE | dict(num_hidden_layers=4, pad_token_id=0, intermediate_size=512, num_local_experts=16, num_experts_per_tok=4,
                                   shared_intermediate_size=1024),
    "gemma3n_text": DENSE | dict(num_hidden_layers=5, num_attention_heads=8, head_dim=64, vocab_size_per_layer_input=32000, hidden_size_per_layer_input=64,
                                 sliding_window=256, num_kv_shared_layers=2, layer_types=HALVES + HALVES[:1], activation_sparsity_pattern=[0.95, 0.95, 0.0, 0.0, 0.0]),
    "recurrent_gemma": dict(num_hidden_layers=3, hidden_size=512, num_attention_heads=8, num_key_value_heads=1, intermediate_size=2816, vocab_size=32000,
                            attention_window_size=256),
    "zamba2": dict(num_hidden_layers=6, hidden_size=512, num_attention_heads=8, intermediate_size=1408, vocab_size=32000, adapter_rank=32, num_mem_blocks=2,
                   use_mem_rope=True, use_shared_attention_adapter=True, layers_block_type=["hybrid", "mamba", "hybrid", "hybrid", "mamba", "mamba"]),
    "minimax": DENSE | dict(num_hidden_layers=4, head_dim=64, intermediate_size=512, num_local_experts=8, pad_token_id=0),
    "modernbert-decoder": dict(num_hidden_layers=4, hidden_size=768, num_attention_heads=12, intermediate_size=1152, vocab_size=32000, pad_token_id=0),
    "laguna": SPARSE | dict(num_hidden_layers=4, head_dim=64, num_experts=16, shared_expert_intermediate_size=512, sliding_window=256, layer_types=HALVES,
                            num_attention_heads_per_layer=[8, 16, 8, 16], pad_token_id=0),
    "axk1": LATENT | dict(n_group=4, topk_group=2), "lfm3": DENSE | dict(num_hidden_layers=5, head_dim=64, pad_token_id=0),
    "kimi_linear": SPARSE | dict(num_hidden_layers=4, num_key_value_heads=16, kv_lora_rank=256, num_local_experts=16, linear_head_dim=64, linear_num_heads=8,
                                 layer_types=["linear_attention", "linear_attention", "full_attention", "linear_attention"], pad_token_id=0),
}
SIGHTED = {  # their text
    **{kind: DENSE | dict(num_attention_heads=8, rope_parameters=dict(rope_type="default", rope_theta=1e6, mrope_section=[16, 24, 24]))
       for kind in ("qwen2_vl", "qwen2_5_vl")},
    "qwen3_vl": DENSE | dict(head_dim=128), "qwen3_vl_moe": SPARSE | dict(num_experts=8, head_dim=128, pad_token_id=0)}
SMALL = {  # type: (config file, what is put over its text)
    "gpt_oss": ("openai__gpt-oss-120b", dict(num_hidden_layers=4, hidden_size=1024, intermediate_size=1024, num_local_experts=8, layer_types=HALVES)),
    **{kind: (None, dict(model_type=kind, torch_dtype="bfloat16") | over) for kind, over in PLAIN.items()},
    "dbrx-router": (None, dict(PLAIN["dbrx"], model_type="dbrx", torch_dtype="bfloat16", output_router_logits=True)),
    **{kind: (None, over) for kind, over in SIGHTED.items()},
    "llama4_text": ("meta-llama__Llama-4-Scout-17B-16E-Instruct", LLAMA4),
    "llama4_text-dense": ("meta-llama__Llama-4-Maverick-17B-128E-Instruct", LLAMA4 | dict(use_qk_norm=False, attention_chunk_size=256, moe_layers=None,
                                                                                              no_rope_layers=None, layer_types=None)),
    "llama4": ("meta-llama__Llama-4-Scout-17B-16E-Instruct", LLAMA4),
    "mistral3": (None, DENSE | dict(model_type="mistral", head_dim=64, sliding_window=None)), "mistral3-scaled": (None, DENSE | dict(model_type="ministral3", head_dim=64)),
    "phimoe": ("microsoft__Phi-mini-MoE-instruct", dict(num_hidden_layers=3, hidden_size=1024, num_attention_heads=8, num_key_value_heads=2,
                                                         intermediate_size=1024)),
    "gemma4_text": ("nvidia__Gemma-4-26B-A4B-NVFP4", GEMMA4),
    "gemma4_text-rows": ("nvidia__Gemma-4-26B-A4B-NVFP4", GEMMA4_ROWS),
    "gemma4": ("nvidia__Gemma-4-26B-A4B-NVFP4", GEMMA4),
    "gemma4-rows": ("nvidia__Gemma-4-26B-A4B-NVFP4", GEMMA4_ROWS),
}
WHOLE = ("llama4", "gemma4", "mistral3", "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe")  # types that are traced with their towers
TOWERS = {"llama4": dict(vision_config=dict(num_hidden_layers=2, intermediate_size=1024)), "gemma4": dict(vision_config=dict(num_hidden_layers=2)),
          "mistral3": dict(tie_word_embeddings=False, vision_config=dict(num_hidden_layers=2, hidden_size=320, intermediate_size=640, num_attention_heads=5)),
          "qwen2_vl": dict(vision_config=dict(depth=2, embed_dim=320, hidden_size=1024, num_heads=8)),
          "qwen2_5_vl": dict(vision_config=dict(depth=2, hidden_size=320, intermediate_size=640, out_hidden_size=1024, num_heads=8)),
          **{kind: dict(vision_config=dict(depth=2, hidden_size=320, intermediate_size=640, out_hidden_size=1024, num_heads=8,
                                           deepstack_visual_indexes=[0, 1])) for kind in ("qwen3_vl", "qwen3_vl_moe")}}
OPTIONS = {
    "full": dict(seq_len=512, micro_batch_size=2),
    "mixed": dict(seq_len=640, micro_batch_size=1, precision="bf16-mixed", optimizer="adamw_torch_fused"),
    "mixed-ckpt-pad": dict(seq_len=500, micro_batch_size=2, precision="bf16-mixed", gradient_checkpointing=True, padded=True),
    "lora-amp": dict(seq_len=300, micro_batch_size=2, precision="bf16-mixed", weights_dtype="bf16", gradient_checkpointing=True, tuning="lora"),
    "lora-pad": dict(seq_len=512, micro_batch_size=2, padded=True, tuning="lora"),
    "eager": dict(seq_len=200, micro_batch_size=1, attention="eager"),
    "eager-ckpt": dict(seq_len=512, micro_batch_size=2, attention="eager", gradient_checkpointing=True, padded=True),
    "fa2": dict(seq_len=257, micro_batch_size=2, attention="flash_attention_2"),
    "fa2-lora": dict(seq_len=512, micro_batch_size=2, attention="flash_attention_2", padded=True, tuning="lora", gradient_checkpointing=True),
    "long": dict(seq_len=5000, micro_batch_size=1, gradient_checkpointing=True),
    "sgd-accum": dict(seq_len=256, micro_batch_size=2, optimizer="sgd", gradient_accumulation_steps=2),
}
FEW = ("full", "mixed-ckpt-pad", "lora-amp")
CASES = {kind: FEW + ("fa2" if i % 2 else "eager-ckpt",) for i, kind in enumerate(PLAIN)} | {"llama4_text": FEW + ("eager", "lora-pad", "mixed", "sgd-accum"), "llama4_text-dense": FEW + ("eager-ckpt",),
         "gemma4_text": FEW + ("eager", "lora-pad", "mixed", "sgd-accum"), "gemma4_text-rows": FEW + ("eager-ckpt", "lora-pad", "long"), "gemma4": FEW[:2],
         "gemma4-rows": FEW[:2], "llama4": FEW, **{kind: FEW + ("eager-ckpt", "fa2") for kind in (*SIGHTED, "mistral3", "mistral3-scaled")}, "phimoe": FEW + ("eager", "fa2", "lora-pad", "sgd-accum"),
         "openai-gpt": ("full", "lora-pad", "eager"), "dbrx": ("full", "mixed-ckpt-pad", "eager-ckpt"), "dbrx-router": ("full",), "falcon_mamba": ("full", "mixed-ckpt-pad", "lora-pad"), "jetmoe": ("full", "lora-pad", "eager", "sgd-accum"),
         **{kind: FEW + ("eager-ckpt",) for kind in ("granite_swa", "granitemoe_swa")}, "recurrent_gemma": ("full", "mixed-ckpt-pad", "lora-pad")}
# dbrx: with range(num_experts) in the place of expert_hit, which the oracle cannot tell; gpt_oss 4.57 too
EARLIER = {r: {"llama4_text": ("full",), "phimoe": ("full",), "gemma4_text": ("full",), "gemma4-rows": ("full",)} for r in ("5.10.4", "5.22.2")}  # release: {type: options}
for kind, oldest, later in (  # "full" by the first that is answered, "mixed-ckpt-pad" by another
        ("glm4_moe_lite", "5.14.1", "5.17.0"), ("youtu", "5.14.1", "5.17.0"), ("solar_open", "5.0.0", "5.22.0"), ("dots1", "4.53.3", "4.57.3"),
        ("exaone_moe", "5.2.0", "5.10.4"), ("hy_v3", "5.10.4", "5.17.0"), ("flex_olmo", "4.57.3", "5.0.0"), ("hunyuan_v1_dense", "4.57.3", "5.10.0"),
        ("hunyuan_v1_moe", "5.14.1", "5.17.0"), ("ministral", "4.57.3", "5.0.0"), ("cwm", "5.0.0", "5.17.0"), ("vaultgemma", "4.57.3", "5.2.0"),
        ("granitemoeshared", "5.14.1", "5.17.0"), ("minicpm3", "5.14.1", "5.17.0"), ("gpt_oss", "4.57.3", "5.17.0"),
        ("persimmon", "5.2.0", "5.17.0"), ("nanochat", "5.17.0", "5.22.2"), ("fuyu", "5.10.4", "5.17.0"), ("dbrx", "5.17.0", "5.22.0"),
        ("qwen2_vl", "5.2.0", "5.14.1"), ("qwen2_5_vl", "5.2.0", "5.17.0"), ("qwen3_vl", "5.2.0", "5.14.1"), ("qwen3_vl_moe", "5.2.0", "5.17.0"), ("olmo_hybrid", "5.16.1", "5.22.2"), ("hyperclovax", "5.10.4", "5.17.0"),
        ("mellum", "5.10.4", "5.17.0"), ("afmoe", "5.10.4", "5.17.0"), ("cohere2_moe", "5.10.4", "5.17.0"), ("bitnet", "4.53.3", "5.0.0"),
        ("falcon_mamba", "4.53.3", "5.10.4"), ("diffllama", "5.14.1", "5.17.0")):
    EARLIER.setdefault(oldest, {})[kind] = ("full",)
    EARLIER.setdefault(later, {})[kind] = ("mixed-ckpt-pad",)
EARLIER["5.10.4"]["jetmoe"] = ("full",)  # its class takes no checkpoints
TARGETS = ["q_proj", "v_proj", "q_a_proj", "kv_b_proj"]
TARGETS_OF = {"openai-gpt": ["c_attn"], "persimmon": ["query_key_value"], "fuyu": ["query_key_value"], "dbrx": ["Wqkv", "out_proj"], "falcon_mamba": ["x_proj", "in_proj"],
              "jetmoe": ["kv_proj"]}


def case(kind, which, configs):
    """The model's config, the oracle's options."""
    options = {"tuning": "full", "precision": "bf16", **OPTIONS[which]}
    if options["tuning"] == "lora":
        options["lora"] = {"rank": 16, "dropout": 0.1, "target_modules": TARGETS_OF.get(kind, TARGETS), "dtype": "fp32"}
    name, over = SMALL[kind]
    config = config_of(configs, name, {}) if name else {}
    if kind.split("-")[0] in WHOLE:
        config = config or {"model_type": kind.split("-")[0], "torch_dtype": "bfloat16"}
        return {**config, "text_config": {**config.get("text_config", {}), **over}, **TOWERS[kind.split("-")[0]]}, options
    return {**config.get("text_config", config), **over}, options


def traced(tracer, python, oracle, cases):
    with tempfile.TemporaryDirectory() as folder:
        asked = []
        for i, (name, (config, options)) in enumerate(cases.items()):
            path = os.path.join(folder, "%d.json" % i)
            with open(path, "w", encoding="utf-8") as f:
                json.dump(config, f)
            asked.append(json.dumps({"id": name, "config": path, "options": options}))
        told = subprocess.run([python, *tracer, "--batch", "-"], cwd=oracle, input="\n".join(asked).encode(), stdout=subprocess.PIPE, check=True)
    rows = [json.loads(line) for line in told.stdout.splitlines()]
    for row in rows:
        if "error" in row:
            print("%s: %s" % (row["id"], row["traceback"]), file=sys.stderr)
    return {row["id"]: row["result"] for row in rows if "result" in row}


def main():
    python, oracle, configs, releases = sys.argv[1:5]
    os.environ["PYTHONHASHSEED"] = "0"  # the kinds of layers are a set of strings, whose order says which mask is made first
    path, wanted, rows = os.path.join(HERE, "families.jsonl"), sys.argv[5:], {}
    if os.path.exists(path):
        rows = {json.loads(line)["id"]: line for line in open(path, encoding="utf-8")}
    asked = {}  # (whole, release): cases
    for release, kinds in {None: CASES, **EARLIER}.items():
        for kind, names in kinds.items():
            for which in names:
                name = "/".join([kind, which] + ([release] if release else []))
                if not wanted or any(name + "/" == w or (name + "/").startswith(w + "/") for w in wanted):
                    asked.setdefault((kind.split("-")[0] in WHOLE, release), {})["families/" + name] = case(kind, which, configs)
    for (whole, release), cases in asked.items():
        tracer = [os.path.join(HERE, "composite.py"), "trace.py"] if whole else ["trace.py"]
        own = os.environ.get("PYTHONPATH", "")  # packages that an earlier release wants: tokenizers 0.22, huggingface_hub 1.x, httpx for 5.10
        if release:  # peft, which batches import, is made for the newest
            told = {name: trace(python, oracle, *of, os.pathsep.join([os.path.join(releases, release), own])) for name, of in cases.items()}
        else:
            told = traced(tracer, python, oracle, cases)
        for name, result in told.items():
            config, options = cases[name]
            request = request_of(config, options, result.get("attention_used") or options.get("attention", "sdpa"), release and release.rsplit(".", 1)[0])
            rows[name] = json.dumps({**row_of(name, request, result), "group": GROUP}, separators=(",", ":")) + "\n"
    with open(path, "w", encoding="utf-8") as out:
        out.writelines(rows.values())


if __name__ == "__main__":
    main()
