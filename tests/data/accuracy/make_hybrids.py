#!/usr/bin/env python3
"""Makes hybrids.jsonl of this folder: steps of models whose layers are not attention alone, in PyTorch's own operators (no mamba-ssm, causal-conv1d, fla).

    make_hybrids.py ORACLE_PYTHON ORACLE CONFIGS [TYPE..]

Small models that the oracle traces; torch 2.15, transformers 5.23, peft 0.21. With types: their rows alone are made anew. Sequences are no multiple of the chunks too.
"""
import json
import os
import subprocess
import sys
import tempfile

from make_moe import config_of, request_of, row_of

GROUP = "one GPU, state spaces"
NARROW = dict(hidden_size=1024, mamba_num_heads=32, num_attention_heads=8, num_key_value_heads=2)
DELTA = dict(num_hidden_layers=4, layer_types=["linear_attention"] * 3 + ["full_attention"], hidden_size=1024, num_attention_heads=8, linear_num_key_heads=8,
             linear_num_value_heads=16)
BAMBA = dict(model_type="bamba", architectures=["BambaForCausalLM"], vocab_size=64000, hidden_size=1024, intermediate_size=3584, num_hidden_layers=4,
             num_attention_heads=8, num_key_value_heads=2, mamba_n_heads=32, mamba_d_head="auto", mamba_d_state=128, mamba_expand=2, mamba_chunk_size=256,
             torch_dtype="bfloat16")
GRANITE = dict(model_type="granitemoehybrid", architectures=["GraniteMoeHybridForCausalLM"], vocab_size=50176, hidden_size=1024, num_hidden_layers=4,
               layer_types=["mamba", "mamba", "attention", "mamba"], num_attention_heads=8, num_key_value_heads=2, shared_intermediate_size=1024,
               mamba_n_heads=32, mamba_d_head=64, mamba_d_state=128, mamba_expand=2, mamba_chunk_size=256, embedding_multiplier=12, logits_scaling=6,
               residual_multiplier=0.22, attention_multiplier=0.0078125, tie_word_embeddings=True, torch_dtype="bfloat16")
SMALL = {  # type: (config file, what is put over it)
    "falcon_h1": ("tiiuae__Falcon-H1-0.5B-Base", dict(num_hidden_layers=3)),
    "falcon_h1-norm": ("tiiuae__Falcon-H1-0.5B-Base", dict(num_hidden_layers=2, mamba_rms_norm=True, mamba_n_groups=2)),
    "nemotron_h": ("nvidia__Nemotron-H-56B-Base-8K", dict(hybrid_override_pattern="M-M*-", num_hidden_layers=5, head_dim=128, intermediate_size=4096, **NARROW)),
    "nemotron_h-moe": ("nvidia__NVIDIA-Nemotron-3-Super-120B-A12B-FP8",
                       dict(hybrid_override_pattern="MEM*E", num_hidden_layers=5, n_routed_experts=16, num_experts_per_tok=4, moe_latent_size=256,
                            moe_intermediate_size=512, moe_shared_expert_intermediate_size=1024, **NARROW)),
    "qwen3_next": ("Qwen__Qwen3-Next-80B-A3B-Instruct", dict(num_hidden_layers=4, num_experts=16, num_experts_per_tok=4, hidden_size=1024, num_attention_heads=8,
                                                             linear_num_key_heads=8, linear_num_value_heads=16)),
    "qwen3_5_text": ("Qwen__Qwen3.5-27B", dict(intermediate_size=2816, **DELTA)),
    "lfm2": (None, dict(model_type="lfm2", architectures=["Lfm2ForCausalLM"], vocab_size=65536, hidden_size=1024, block_ff_dim=4608, num_hidden_layers=4,
                        num_attention_heads=16, num_key_value_heads=8, full_attn_idxs=[2], conv_L_cache=3, max_position_embeddings=4096, tie_embedding=True,
                        torch_dtype="bfloat16")),
    "lfm2_moe": (None, dict(model_type="lfm2_moe", architectures=["Lfm2MoeForCausalLM"], vocab_size=65536, hidden_size=1024, intermediate_size=3584,
                            moe_intermediate_size=896, num_hidden_layers=4, num_dense_layers=1, num_attention_heads=16, num_key_value_heads=8, num_experts=16,
                            num_experts_per_tok=4, layer_types=["conv", "conv", "full_attention", "conv"], conv_L_cache=3, max_position_embeddings=4096,
                            tie_word_embeddings=True, norm_eps=1e-5, torch_dtype="bfloat16")),
    "bamba": (None, dict(BAMBA, attn_layer_indices=[2])),
    "bamba-groups": (None, dict(BAMBA, num_hidden_layers=2, attn_layer_indices=[1], mamba_n_groups=2, z_loss_coefficient=1e-4)),
    "granitemoehybrid": (None, dict(GRANITE, num_local_experts=16, num_experts_per_tok=6, intermediate_size=512)),
    "granitemoehybrid-dense": (None, dict(GRANITE, num_local_experts=0, num_experts_per_tok=0, intermediate_size=4096, position_embedding_type="rope")),
    "mamba2": (None, dict(model_type="mamba2", architectures=["Mamba2ForCausalLM"], vocab_size=32768, hidden_size=1024, num_heads=32, head_dim=64, state_size=128,
                          n_groups=8, num_hidden_layers=3, chunk_size=256, torch_dtype="bfloat16")),
    "mamba": ("state-spaces__mamba-790m-hf", dict(num_hidden_layers=2, hidden_size=512, intermediate_size=1024, time_step_rank=32, vocab_size=32768)),
    "jamba": (None, dict(model_type="jamba", architectures=["JambaForCausalLM"], vocab_size=65536, hidden_size=512, intermediate_size=1024, num_hidden_layers=4,
                         num_attention_heads=8, num_key_value_heads=2, num_experts=8, num_experts_per_tok=2, attn_layer_period=4, attn_layer_offset=2,
                         expert_layer_period=2, expert_layer_offset=1, mamba_d_state=16, torch_dtype="bfloat16")),
    "qwen3_5": ("Qwen__Qwen3.5-27B", dict(intermediate_size=2816, **DELTA)),
    "qwen3_5_moe": ("Qwen__Qwen3.5-397B-A17B", dict(num_experts=16, num_experts_per_tok=4, **DELTA)),
    "qwen3_5_moe_text": ("Qwen__Qwen3.5-397B-A17B", dict(num_experts=16, num_experts_per_tok=4, **DELTA)),
}
PARTS = ("qwen3_5", "qwen3_5_moe")  # whole, with their towers
TOWER = dict(depth=2, hidden_size=512, num_heads=8, intermediate_size=1024, out_hidden_size=1024)
COMPOSITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "composite.py")
OPTIONS = {
    "full": dict(seq_len=512, micro_batch_size=2),
    "one-chunk": dict(seq_len=64, micro_batch_size=2),
    "mixed": dict(seq_len=640, micro_batch_size=1, precision="bf16-mixed", optimizer="adamw_torch_fused"),
    "mixed-ckpt-pad": dict(seq_len=500, micro_batch_size=2, precision="bf16-mixed", gradient_checkpointing=True, padded=True),
    "lora-amp": dict(seq_len=300, micro_batch_size=2, precision="bf16-mixed", weights_dtype="bf16", gradient_checkpointing=True, tuning="lora"),
    "lora-pad": dict(seq_len=512, micro_batch_size=2, padded=True, tuning="lora"),
    "eager": dict(seq_len=200, micro_batch_size=1, attention="eager"),
    "fa2": dict(seq_len=257, micro_batch_size=2, attention="flash_attention_2"),
    "long": dict(seq_len=2048, micro_batch_size=1, gradient_checkpointing=True),
    "sgd-accum": dict(seq_len=256, micro_batch_size=2, optimizer="sgd", gradient_accumulation_steps=2),
}
ALL = tuple(OPTIONS)
FEW = ("full", "lora-amp", "mixed-ckpt-pad")
CASES = {"falcon_h1": ALL, "falcon_h1-norm": FEW, "nemotron_h": FEW + ("eager", "one-chunk"), "nemotron_h-moe": FEW + ("sgd-accum",),
         "qwen3_next": FEW + ("eager", "one-chunk", "sgd-accum"), "qwen3_5_text": FEW + ("fa2", "one-chunk", "eager"), "qwen3_5_moe_text": FEW,
         "lfm2": FEW + ("eager", "sgd-accum"), "lfm2_moe": FEW, "bamba": FEW + ("eager", "long"), "bamba-groups": FEW,
         "granitemoehybrid": FEW + ("eager", "sgd-accum", "mixed"), "granitemoehybrid-dense": FEW + ("fa2",), "mamba2": FEW + ("one-chunk", "long", "sgd-accum"),
         "mamba": FEW + ("lora-pad", "sgd-accum"), "jamba": FEW + ("eager",),
         "qwen3_5": FEW + ("sgd-accum",), "qwen3_5_moe": FEW}
TARGETS = ["in_proj", "in_proj_qkvz", "in_proj_qkv", "q_proj"]


def case(kind, which, configs):
    """The model's config, the oracle's options."""
    options = {"tuning": "full", "precision": "bf16", **OPTIONS[which]}
    if options["tuning"] == "lora":
        options["lora"] = {"rank": 16, "dropout": 0.1, "target_modules": TARGETS, "dtype": "fp32"}
    config = config_of(configs, SMALL[kind][0], {})
    if kind.split("-")[0] in PARTS:
        return {**config, "text_config": {**config["text_config"], **SMALL[kind][1]}, "vision_config": {**config["vision_config"], **TOWER}}, options
    return {**config.get("text_config", config), **SMALL[kind][1]}, options


def traced(python, oracle, cases):
    parts = {name: case for name, case in cases.items() if "text_config" in case[0]}
    told = traced_by(["trace.py"], python, oracle, {name: case for name, case in cases.items() if name not in parts})
    return {**told, **(traced_by([COMPOSITE, "trace.py"], python, oracle, parts) if parts else {})}


def traced_by(tracer, python, oracle, cases):
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
            raise SystemExit("%s: %s" % (row["id"], row["traceback"]))
    return {row["id"]: row["result"] for row in rows}


def main():
    python, oracle, configs = sys.argv[1:4]
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hybrids.jsonl")
    types, kept = sys.argv[4:] or [kind.split("-")[0] for kind in SMALL], []
    if os.path.exists(path):
        kept = [line for line in open(path, encoding="utf-8") if json.loads(line)["id"].split("/")[1].split("-")[0] not in types]
    cases = {"hybrids/%s/%s" % (kind, which): case(kind, which, configs)
             for kind, names in CASES.items() if kind.split("-")[0] in types for which in names}
    told = traced(python, oracle, cases)
    with open(path, "w", encoding="utf-8") as out:
        out.writelines(kept)
        for name, (config, options) in cases.items():
            request = request_of(config, options, told[name].get("attention_used") or options.get("attention", "sdpa"))
            out.write(json.dumps({**row_of(name, request, told[name]), "group": GROUP}, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
