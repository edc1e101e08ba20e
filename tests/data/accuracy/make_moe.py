#!/usr/bin/env python3
"""Makes moe.jsonl of this folder: steps of mixtures of experts.

    make_moe.py ORACLE_PYTHON ORACLE GROUNDTRUTH CONFIGS RELEASES

RELEASES holds a folder a release of transformers (pip download --no-deps, unzipped), which that Python imports in the place of its own. First the traces of GROUNDTRUTH/trace_dev.jsonl, then small models that the oracle traces. Experts get equal shares of the tokens. torch 2.15,
transformers 5.23, peft 0.21.
"""
import json
import os
import subprocess
import sys
import tempfile

TYPES = ("mixtral", "qwen2_moe", "qwen3_moe")
FIGURES = ("peak_allocated_bytes", "peak_reserved_bytes", "peak_reserved_expandable_bytes", "static_bytes", "peak_phase", "phase_peaks_bytes")
GROUP = "one GPU, mixtures of experts"
STACK = {"torch": "2.15", "transformers": "5.23", "peft": "0.21"}
DEEPSEEK = dict(num_hidden_layers=4, hidden_size=1024, intermediate_size=2816, moe_intermediate_size=512, n_routed_experts=16, num_attention_heads=8,
                num_key_value_heads=8, first_k_dense_replace=1, n_group=4, topk_group=2, q_lora_rank=384, kv_lora_rank=256)
SMALL = {  # type: (config file, what is put over it)
    "qwen3_moe": ("Qwen__Qwen3-30B-A3B", dict(num_hidden_layers=3, num_experts=16)),
    "mixtral": ("mistralai__Mixtral-8x7B-v0.1", dict(num_hidden_layers=2, hidden_size=1024, intermediate_size=3584, num_attention_heads=8,
                                                     num_key_value_heads=2)),
    "qwen2_moe": ("Qwen__Qwen1.5-MoE-A2.7B-Chat", dict(num_hidden_layers=3, num_experts=12)),
    "gpt_oss": ("openai__gpt-oss-120b", dict(num_hidden_layers=4, num_local_experts=8, layer_types=["sliding_attention", "full_attention"] * 2)),
    "olmoe": (None, dict(model_type="olmoe", architectures=["OlmoeForCausalLM"], hidden_size=2048, intermediate_size=1024, num_hidden_layers=3,
                         num_attention_heads=16, num_key_value_heads=16, num_experts=16, num_experts_per_tok=8, vocab_size=50304,
                         max_position_embeddings=4096, rope_theta=10000.0, norm_topk_prob=False, clip_qkv=None, torch_dtype="bfloat16")),
    "granitemoe": (None, dict(model_type="granitemoe", architectures=["GraniteMoeForCausalLM"], hidden_size=1024, intermediate_size=512,
                              num_hidden_layers=3, num_attention_heads=16, num_key_value_heads=8, num_local_experts=16, num_experts_per_tok=8,
                              vocab_size=49155, max_position_embeddings=4096, rope_theta=10000, embedding_multiplier=12.0, logits_scaling=6.0,
                              residual_multiplier=0.22, attention_multiplier=0.015625, tie_word_embeddings=True, torch_dtype="bfloat16")),
    "deepseek_v3": ("deepseek-ai__DeepSeek-V3", DEEPSEEK),
    "deepseek_v2": ("deepseek-ai__DeepSeek-V2", DEEPSEEK),
    "glm4_moe": ("zai-org__GLM-4.5", dict(num_hidden_layers=4, hidden_size=1024, intermediate_size=2816, moe_intermediate_size=512, n_routed_experts=16,
                                          num_attention_heads=16, num_key_value_heads=4, first_k_dense_replace=1)),
    "ernie4_5_moe": ("baidu__ERNIE-4.5-21B-A3B-PT", dict(num_hidden_layers=4, moe_num_experts=16)),
    "minimax_m2": ("MiniMaxAI__MiniMax-M2.7", dict(num_hidden_layers=3, hidden_size=1024, num_local_experts=16)),
}
LORA = dict(tuning="lora", lora={"rank": 16, "dropout": 0.1, "target_modules": ["q_proj", "v_proj"], "dtype": "fp32"})
OPTIONS = {
    "full": dict(seq_len=512, micro_batch_size=2),
    "mixed": dict(seq_len=640, micro_batch_size=1, precision="bf16-mixed", optimizer="adamw_torch_fused"),
    "mixed-ckpt-pad": dict(seq_len=500, micro_batch_size=2, precision="bf16-mixed", gradient_checkpointing=True, padded=True),
    "lora-amp": dict(seq_len=512, micro_batch_size=2, precision="bf16-mixed", weights_dtype="bf16", gradient_checkpointing=True, **LORA),
    "lora": dict(seq_len=512, micro_batch_size=2, padded=True, **LORA),
    "eager": dict(seq_len=512, micro_batch_size=1, attention="eager"),
    "fa2": dict(seq_len=512, micro_batch_size=2, attention="flash_attention_2"),
    "aux": dict(seq_len=512, micro_batch_size=2, output_router_logits=True),
    "aux-mixed-ckpt-pad": dict(seq_len=512, micro_batch_size=2, precision="bf16-mixed", gradient_checkpointing=True, padded=True,
                               output_router_logits=True),
    "long": dict(seq_len=5000, micro_batch_size=1, gradient_checkpointing=True),
    "half": dict(seq_len=512, micro_batch_size=2, precision="fp16-mixed"),
    "half-lora": dict(seq_len=512, micro_batch_size=2, precision="fp16-mixed", **LORA),
    "sgd-accum": dict(seq_len=512, micro_batch_size=2, optimizer="sgd", gradient_accumulation_steps=2),
}
FEW = ("full", "lora", "mixed-ckpt-pad")
CASES = {t: FEW for t in SMALL} | {"qwen3_moe": ("full", "lora-amp", "aux"), "mixtral": ("eager", "aux-mixed-ckpt-pad", "long"),
                                   "qwen2_moe": ("mixed", "fa2", "aux"), "ernie4_5_moe": ("full", "lora", "sgd-accum")}


EARLIER = {  # releases of transformers 5 in which experts' rows are ordered and masked otherwise
    "mixtral": {"full": ("5.6.2", "5.8.1", "5.17.0"), "lora-amp": ("5.7.0", "5.16.1"), "mixed-ckpt-pad": ("5.0.0", "5.3.0", "5.5.4")},
    "qwen2_moe": {"full": ("5.0.0", "5.5.4", "5.10.4")},
    "qwen3_moe": {"full": ("5.0.0", "5.10.4")},
    "gpt_oss": {"full": ("5.0.0", "5.8.1", "5.14.1")},
    "olmoe": {"full": ("5.0.0", "5.8.1")},
    "glm4_moe": {"full": ("5.0.0", "5.10.4")},
    "deepseek_v3": {"lora": ("5.14.1",)},
    "granitemoe": {"full": ("5.14.1",)},
    "ernie4_5_moe": {"full": ("5.10.4",)},
}


TURING = ("qwen3_moe/half", "qwen3_moe/half-lora", "mixtral/half-lora", "gpt_oss/half")  # grouped products are a loop there
T4 = {"NULLCUDA_CC": "75", "NULLCUDA_SMS": "40", "NULLCUDA_TPM": "1024", "NULLCUDA_BPM": "16"}


def config_of(configs, name, over):
    made = {}
    if name:
        with open(os.path.join(configs, name + ".json"), encoding="utf-8") as f:
            made = {k: v for k, v in json.load(f).items() if not k.startswith("_") and k not in ("quantization_config", "auto_map")}
    return {**made, **over}


def small(kind, which, configs):
    """The model's config, the oracle's options."""
    options = {"tuning": "full", "precision": "bf16", **OPTIONS[which]}
    over = {"output_router_logits": True} if options.pop("output_router_logits", False) else {}
    if kind.startswith("deepseek") and "lora" in options:
        options["lora"] = {**options["lora"], "target_modules": ["q_a_proj", "kv_b_proj"]}
    return config_of(configs, SMALL[kind][0], {**SMALL[kind][1], **over}), options


def request_of(config, options, used, release=None, gpu="A100-80GB"):
    precision = "bf16-autocast" if options.get("weights_dtype") == "bf16" else options["precision"]
    training = {"methods": "single", "optimizer": "adamw_torch", "gradient_checkpointing": False, "loss": "hf", "padded": False,
                **{k: v for k, v in options.items() if k != "weights_dtype"}, "precision": precision, "attention": used}
    return {"cluster": {"gpu": gpu}, "training": training, "stack": STACK | ({"transformers": release} if release else {}), "config": config}


def row_of(name, request, result):
    last = result["resting_bytes"][-1]
    return {"id": name, "group": GROUP, "body": json.dumps(request, separators=(",", ":")), "resting_bytes": last,
            **{k: result[k] for k in FIGURES if k in result}}


def row_text(kind, which, release, config, options, result, gpu="A100-80GB"):
    request = request_of(config, options, result.get("attention_used") or options.get("attention", "sdpa"), release and release.rsplit(".", 1)[0], gpu)
    name = "moe/%s/%s" % (kind, which) + ("/" + release if release else "") + ("/" + gpu if gpu == "T4" else "")
    return json.dumps(row_of(name, request, result), separators=(",", ":")) + "\n"


def trace(python, oracle, config, options, package=None, device={}):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(config, f)
        f.flush()
        told = subprocess.run([python, "trace.py", "--config", f.name, "--options", json.dumps(options)], cwd=oracle, stdout=subprocess.PIPE, check=True,
                              env=os.environ | ({"PYTHONPATH": package} if package else {}) | device)
    return json.loads(told.stdout[told.stdout.index(b"{"):])


def main():
    python, oracle, truth, configs, releases = sys.argv[1:6]
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "moe.jsonl"), "w", encoding="utf-8") as out:
        for line in open(os.path.join(truth, "trace_dev.jsonl"), encoding="utf-8"):
            case = json.loads(line)
            config = config_of(configs, case["config_file"][:-5], {})
            if config.get("model_type") in TYPES:
                out.write(json.dumps(row_of("moe/" + case["id"], {**case["request"], "config": config}, case["result"]), separators=(",", ":")) + "\n")
        rows = [(kind, which, None) for kind, names in CASES.items() for which in names]
        rows += [(kind, which, release) for kind, cases in EARLIER.items() for which, those in cases.items() for release in those]
        for kind, which, release in rows:
            config, options = small(kind, which, configs)
            result = trace(python, oracle, config, options, release and os.path.join(releases, release))
            out.write(row_text(kind, which, release, config, options, result))
        for kind, which in (name.split("/") for name in TURING):
            config, options = small(kind, which, configs)
            out.write(row_text(kind, which, None, config, options, trace(python, oracle, config, options, device=T4), "T4"))


if __name__ == "__main__":
    main()
