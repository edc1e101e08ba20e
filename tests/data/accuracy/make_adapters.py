#!/usr/bin/env python3
"""Makes adapters.jsonl of this folder: peft's adapters beyond a pair of matrices beside each linear.

    make_adapters.py ORACLE CONFIGS PYTHON [--only TEXT]

ORACLE holds trace.py and dist_trace.py; PYTHON is that of its environment (torch 2.15, transformers 5.23, peft 0.21.2, deepspeed 0.19.8). A case with "peft" in its stack
wants PEFT_<release> in the environment: a folder with that release, unpacked; TRANSFORMERS_<release> likewise.
"""
import json
import os
import subprocess
import sys

from make_freeze import request_of as request_in
from make_stages import FIGURES, GPT2, HERE, QWEN2, QWEN3, TINY

OF_PEFT = ("modules_to_save", "target_parameters", "use_dora", "layers_to_transform", "layers_pattern", "exclude_modules", "rank_pattern",
           "alpha_pattern", "bias")  # members of LoraConfig that the tracers have no option for
CKPT = dict(gradient_checkpointing=True)
FSDP2 = dict(fsdp={"wrap": "accelerate"}, reduce_dtype="bf16")
OPT = "facebook__opt-350m"
EXPERTS = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]

SMALL = {"hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 1000, "max_position_embeddings": 1024,
         "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
MIXTRAL = {"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], **SMALL, "intermediate_size": 384, "num_hidden_layers": 4, "num_local_experts": 4,
           "num_experts_per_tok": 2}
QWEN3_MOE = {"model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], **SMALL, "intermediate_size": 512, "moe_intermediate_size": 192,
             "num_hidden_layers": 4, "num_experts": 8, "num_experts_per_tok": 2, "norm_topk_prob": True}
GPT_OSS = {"model_type": "gpt_oss", "architectures": ["GptOssForCausalLM"], **SMALL, "intermediate_size": 256, "num_hidden_layers": 4, "num_local_experts": 4,
           "num_experts_per_tok": 2, "sliding_window": 128, "layer_types": ["sliding_attention", "full_attention"] * 2}
DEEPSEEK = {"model_type": "deepseek_v2", "architectures": ["DeepseekV2ForCausalLM"], **SMALL, "num_key_value_heads": 4, "head_dim": 32, "intermediate_size": 512,
            "moe_intermediate_size": 128, "num_hidden_layers": 4, "n_routed_experts": 8, "n_shared_experts": 2, "num_experts_per_tok": 2, "first_k_dense_replace": 1,
            "q_lora_rank": 96, "kv_lora_rank": 64, "qk_nope_head_dim": 32, "qk_rope_head_dim": 32, "v_head_dim": 32, "n_group": 2, "topk_group": 1,
            "topk_method": "group_limited_greedy", "routed_scaling_factor": 16.0}
FLEX_OLMO = {"model_type": "flex_olmo", "architectures": ["FlexOlmoForCausalLM"], **SMALL, "intermediate_size": 256, "num_hidden_layers": 4, "num_experts": 4,
             "num_experts_per_tok": 2, "pad_token_id": 0}
HUNYUAN = {"model_type": "hunyuan_v1_moe", "architectures": ["HunYuanMoEV1ForCausalLM"], **SMALL, "intermediate_size": 256, "num_hidden_layers": 4,
           "num_experts": 4, "moe_topk": 2, "pad_token_id": 0}
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], **SMALL, "intermediate_size": 768, "num_hidden_layers": 4, "num_attention_heads": 8,
         "num_key_value_heads": 4, "head_dim": 32, "vocab_size": 2000}
PLAIN = {"framework": "torch"}
PLANS = {"framework": "torch", "transformers": "5.20"}  # from 5.21 on adapters of what is cut by rows raise


def lora(targets="all-linear", **more):
    return dict(tuning="lora", lora={"rank": 8, "alpha": 16, "target_modules": targets, **more})


SAVED = lora(["q_proj", "v_proj"], modules_to_save=["embed_tokens", "lm_head"])
HEAD = lora(["q_proj", "v_proj"], modules_to_save=["lm_head"])

NF4 = dict(lora(["q_proj", "v_proj"]), tuning="qlora")
DORA = lora(["q_proj", "v_proj"], use_dora=True)
FLAT = dict(fsdp={"backward_prefetch": "pre", "use_orig_params": False}, reduce_dtype="bf16")
NEAR = {"max_live_elems": 3000000, "reuse_elems": 1000000, "persistence_elems": 5000}  # what is read again has to be gathered again

# name, method, ranks, config, layers (None: as it stands), rows, tokens of a row, the rest of `training`, the rest of `stack`
CASES = [
    ("experts", "single", 1, MIXTRAL, None, 2, 128, dict(precision="bf16", **lora())),
    ("experts-ckpt", "single", 1, MIXTRAL, None, 2, 128, dict(precision="bf16-autocast", **CKPT, **lora())),
    ("experts-reentrant", "single", 1, MIXTRAL, None, 2, 128, dict(precision="bf16", checkpoint_reentrant=True, **CKPT, **lora(dtype="bf16"))),
    ("experts-names", "single", 1, MIXTRAL, None, 2, 128, dict(precision="fp32", **lora(["w1", "w2", "w3", "q_proj"], alpha=8))),
    ("experts-mixed", "single", 1, MIXTRAL, None, 2, 128, dict(precision="bf16-mixed", **lora())),
    ("experts-padded", "single", 1, QWEN3_MOE, None, 2, 128, dict(precision="bf16", padded=True, **CKPT, **lora())),
    ("experts-router", "single", 1, QWEN3_MOE, None, 2, 128, dict(precision="bf16-autocast", **lora(["gate", "down_proj"]))),
    ("experts-nf4", "single", 1, QWEN3_MOE, None, 2, 128,
     dict(precision="bf16-autocast", quantization="nf4", prepare_kbit="peft", **CKPT, **dict(lora(), tuning="qlora"))),
    ("experts-shared", "single", 1, DEEPSEEK, None, 2, 128, dict(precision="bf16", **CKPT, **lora())),
    ("experts-flex_olmo", "single", 1, FLEX_OLMO, None, 2, 128, dict(precision="bf16-autocast", **CKPT, **lora())),
    ("experts-hunyuan", "single", 1, HUNYUAN, None, 2, 128, dict(precision="bf16-mixed", **lora())),
    ("experts-0.20", "single", 1, MIXTRAL, None, 2, 128, dict(precision="bf16-autocast", **CKPT, **lora()), {"peft": "0.20"}),
    ("experts-transposed", "single", 1, GPT_OSS, None, 2, 128, dict(precision="bf16", attention="eager", **lora(target_parameters=EXPERTS))),
    ("experts-one-layer", "single", 1, GPT_OSS, None, 2, 128,
     dict(precision="bf16", attention="eager", **CKPT, **lora(["q_proj"], target_parameters=["1." + e for e in EXPERTS]))),
    ("experts-transposed-0.18", "single", 1, GPT_OSS, None, 2, 128, dict(precision="bf16", attention="eager", **lora(target_parameters=EXPERTS)), {"peft": "0.18"}),
    ("experts-alone", "single", 1, MIXTRAL, None, 2, 128, dict(precision="bf16", **lora([], target_parameters=EXPERTS[:1]))),
    ("experts-ddp", "ddp", 4, MIXTRAL, None, 2, 128, dict(precision="bf16-autocast", **lora())),
    ("experts-fsdp2", "fsdp2", 4, MIXTRAL, None, 2, 128, dict(precision="bf16-mixed", **lora(), **FSDP2)),
    ("dora", "single", 1, TINY, 4, 2, 256, dict(precision="bf16", **lora(["q_proj", "down_proj"], use_dora=True))),
    ("dora-ckpt", "single", 1, QWEN2, 4, 2, 256, dict(precision="bf16-autocast", **CKPT, **lora(use_dora=True))),
    ("dora-dropout", "single", 1, TINY, 4, 2, 256, dict(precision="bf16-mixed", **lora(["q_proj", "v_proj"], use_dora=True, dropout=0.1))),
    ("dora-bf16", "single", 1, QWEN3, 4, 2, 256, dict(precision="bf16", checkpoint_reentrant=True, **CKPT, **lora(["q_proj", "o_proj"], use_dora=True, dtype="bf16"))),
    ("dora-conv1d", "single", 1, GPT2, 4, 2, 256, dict(precision="bf16", **lora(["c_attn", "c_proj"], use_dora=True))),
    ("dora-nf4-dq", "single", 1, TINY, 4, 2, 256,
     dict(precision="bf16-autocast", quantization="nf4-dq", prepare_kbit="peft", **CKPT, **dict(lora(["q_proj", "v_proj"], use_dora=True), tuning="qlora"))),
    ("dora-nf4", "single", 1, TINY, 4, 2, 256, dict(precision="bf16", quantization="nf4", prepare_kbit="none", **dict(lora(["q_proj"], use_dora=True), tuning="qlora"))),
    ("dora-0.13", "single", 1, QWEN2, 4, 2, 256, dict(precision="bf16", **lora(["q_proj", "down_proj"], use_dora=True)), {"peft": "0.13"}),
    ("dora-ddp", "ddp", 4, TINY, 4, 2, 256, dict(precision="bf16-autocast", **lora(["q_proj", "v_proj"], use_dora=True))),
    ("dora-zero0", "zero0", 2, TINY, 4, 2, 256, dict(precision="bf16", optimizer="adamw_torch_fused", **DORA)),
    ("dora-zero1", "zero1", 4, TINY, 4, 2, 256, dict(precision="bf16", **DORA)),
    ("dora-zero1-offload", "zero1", 2, TINY, 4, 2, 256, dict(precision="bf16", offload="optimizer", **lora(["q_proj", "v_proj"], use_dora=True, dropout=0.1))),
    ("dora-zero2", "zero2", 4, QWEN2, 4, 2, 256, dict(precision="bf16", **CKPT, **lora(use_dora=True))),
    ("dora-zero3", "zero3", 4, TINY, 4, 2, 256, dict(precision="bf16", **DORA)),
    ("dora-zero3-far", "zero3", 4, TINY, 4, 2, 256, dict(precision="bf16", buckets=NEAR, **lora(use_dora=True))),
    ("dora-zero3-ckpt", "zero3", 4, QWEN2, 4, 2, 256, dict(precision="bf16", buckets=NEAR, **CKPT, **lora(use_dora=True, dropout=0.1))),
    ("dora-zero3-offload", "zero3", 4, GPT2, 4, 2, 256,
     dict(precision="bf16", offload="optimizer+params", buckets=dict(NEAR, max_live_elems=0, reuse_elems=0), **lora(["c_attn", "c_proj"], use_dora=True))),
    ("dora-fsdp2", "fsdp2", 4, TINY, 4, 2, 256, dict(precision="bf16-mixed", **DORA, **FSDP2)),
    ("dora-fsdp2-ckpt", "fsdp2", 2, QWEN2, 4, 2, 256, dict(precision="bf16-autocast", **CKPT, **lora(use_dora=True), **FSDP2)),
    ("dora-fsdp2-offload", "fsdp2", 4, TINY, 4, 2, 256, dict(precision="bf16-mixed", offload="optimizer+params", **DORA, **FSDP2)),
    ("dora-hsdp2", "hsdp2", 4, TINY, 4, 2, 256, dict(precision="bf16-mixed", shard_group=2, **DORA, **FSDP2)),
    ("dora-fsdp-flat", "fsdp", 4, TINY, 4, 2, 256, dict(precision="bf16", **FLAT, **lora(["q_proj", "v_proj"], use_dora=True, dtype="bf16"))),
    ("dora-fsdp-flat-ckpt", "fsdp", 4, TINY, 4, 2, 256, dict(precision="bf16", **CKPT, **FLAT, **lora(use_dora=True, dtype="bf16"))),
    ("dora-fsdp-grad-op-flat", "fsdp_grad_op", 4, TINY, 4, 2, 256, dict(precision="bf16", **FLAT, **lora(use_dora=True))),
    ("dora-hsdp-flat", "hsdp", 4, TINY, 4, 2, 256, dict(precision="fp32", shard_group=2, **dict(FLAT, reduce_dtype="fp32"), **lora(use_dora=True))),
    ("dora-fsdp-no-shard", "fsdp_no_shard", 4, TINY, 4, 2, 256, dict(precision="bf16", fsdp={"backward_prefetch": "pre"}, reduce_dtype="bf16", **DORA)),
    ("tp", "tp", 4, LLAMA, None, 2, 256, dict(precision="bf16", tensor_parallel=4, **lora()), PLANS),
    ("tp-dropout", "tp", 2, LLAMA, None, 2, 256, dict(precision="bf16-mixed", tensor_parallel=2, **lora(["q_proj", "o_proj", "down_proj"], dropout=0.1)), PLANS),
    ("tp-columns", "tp", 2, LLAMA, None, 2, 256, dict(precision="bf16-mixed", tensor_parallel=2, **CKPT, **lora(["q_proj", "v_proj", "up_proj"], dropout=0.1)), PLAIN),
    ("tp-narrow", "tp", 2, LLAMA, None, 2, 256, dict(precision="bf16", tensor_parallel=2, **lora()), dict(PLAIN, peft="0.20")),
    ("tp-fsdp2-columns", "tp+fsdp2", 8, LLAMA, None, 1, 256, dict(precision="bf16", tensor_parallel=4, **lora(["q_proj", "v_proj"]), fsdp={"wrap": "layers"}), PLAIN),
    ("tp-fsdp2", "tp+fsdp2", 8, LLAMA, None, 2, 256, dict(precision="bf16-mixed", tensor_parallel=2, **lora(), fsdp={"wrap": "layers"}), PLANS),
    ("tp-fsdp2-ckpt", "tp+fsdp2", 8, LLAMA, None, 2, 256, dict(precision="bf16-mixed", tensor_parallel=2, **CKPT, **lora(), fsdp={"wrap": "layers"}), PLANS),
    ("zero3-nf4", "zero3", 4, TINY, 4, 1, 256, dict(precision="bf16", prepare_kbit="none", quantization="nf4", **NF4)),
    ("zero3-nf4-dq-ckpt", "zero3", 8, QWEN2, 4, 1, 256, dict(precision="bf16", prepare_kbit="none", quantization="nf4-dq", **CKPT, **NF4)),
    ("zero3-nf4-prepared", "zero3", 4, TINY, 4, 1, 256, dict(precision="bf16", prepare_kbit="peft", quantization="nf4", **CKPT, **NF4)),
    ("saved-tied", "single", 1, QWEN3, 4, 1, 256, dict(precision="bf16-autocast", **SAVED)),
    ("saved-tied-head", "single", 1, QWEN2, 4, 1, 256, dict(precision="bf16", **HEAD)),
    ("saved-tied-embedding", "single", 1, QWEN2, 4, 1, 256, dict(precision="bf16-autocast", **lora(modules_to_save=["embed_tokens"]))),
    ("experts-fsdp2-ckpt", "fsdp2", 4, QWEN3_MOE, None, 2, 128, dict(precision="bf16-mixed", **CKPT, **lora(), **FSDP2)),
    ("layers", "single", 1, LLAMA, None, 2, 256, dict(precision="bf16-autocast", **lora(["q_proj", "v_proj"], layers_to_transform=[0, 2]))),
    ("layers-pattern", "single", 1, GPT2, 4, 2, 256, dict(precision="bf16", **CKPT, **lora(["c_attn", "c_proj"], layers_to_transform=3, layers_pattern=["h"]))),
    ("layers-nf4", "single", 1, QWEN2, 4, 2, 256,
     dict(precision="bf16-autocast", quantization="nf4", prepare_kbit="peft", **CKPT, **dict(lora(["q_proj", "down_proj"], layers_to_transform=[1, 3]), tuning="qlora"))),
    ("excluded", "single", 1, LLAMA, None, 2, 256, dict(precision="bf16", **lora(exclude_modules=["layers.0.self_attn.q_proj", "down_proj"]))),
    ("excluded-pattern", "single", 1, QWEN3, 4, 2, 256, dict(precision="bf16-mixed", **lora(exclude_modules=r".*layers\.(0|1)\.mlp.*"))),
    ("ranks", "single", 1, LLAMA, None, 2, 256,
     dict(precision="bf16", **lora(rank_pattern={"q_proj": 16, r"layers\.[12]\.mlp\.(up|down)_proj": 4, "^model.layers.3.self_attn.v_proj": 64}, alpha_pattern={"q_proj": 4}))),
    ("ranks-ckpt", "single", 1, TINY, 4, 2, 256, dict(precision="bf16-mixed", **CKPT, **lora(["q_proj", "k_proj"], dropout=0.1, rank_pattern={"k_proj": 32}))),
    ("ranks-experts", "single", 1, MIXTRAL, None, 2, 128,
     dict(precision="bf16", **lora(["q_proj"], target_parameters=EXPERTS, rank_pattern={"experts.gate_up_proj": 4}, alpha_pattern={"experts.gate_up_proj": 4}))),
    ("ranks-experts-names", "single", 1, MIXTRAL, None, 2, 128,
     dict(precision="bf16-autocast", **CKPT, **lora(rank_pattern={"down_proj": 2, "1.mlp.experts.gate_up_proj": 3}))),
    ("saved-beneath", "single", 1, LLAMA, None, 2, 256, dict(precision="bf16", **lora(exclude_modules=["k_proj"], modules_to_save=["lm_head", "layers.1.mlp"]))),
    ("bias-all", "single", 1, QWEN2, 4, 2, 256, dict(precision="bf16", **lora(["q_proj", "down_proj"], bias="all"))),
    ("bias-all-norms", "single", 1, GPT2, 4, 2, 256, dict(precision="bf16-mixed", **CKPT, **lora(["c_attn"], bias="all"))),
    ("bias-only", "single", 1, QWEN2, 4, 2, 256, dict(precision="bf16-autocast", **CKPT, **lora(bias="lora_only"))),
    ("bias-only-fp32", "single", 1, OPT, 4, 2, 256, dict(precision="fp32", **lora(["q_proj", "fc1"], dropout=0.1, bias="lora_only"))),
    ("bias-saved", "single", 1, GPT2, 4, 2, 256, dict(precision="bf16", **lora(["c_attn"], bias="all", modules_to_save=["h.1.mlp"]))),
    ("bias-ddp", "ddp", 4, QWEN2, 4, 2, 256, dict(precision="bf16-autocast", **lora(["q_proj", "v_proj"], bias="all"))),
    ("bias-nf4", "single", 1, QWEN2, 4, 2, 256,
     dict(precision="bf16-autocast", quantization="nf4", prepare_kbit="none", **dict(lora(["q_proj", "v_proj"], bias="all"), tuning="qlora"))),
    ("bias-nf4-ckpt", "single", 1, QWEN2, 4, 2, 256,
     dict(precision="bf16-autocast", quantization="nf4-dq", prepare_kbit="none", **CKPT, **dict(lora(bias="lora_only"), tuning="qlora"))),
    ("bias-nf4-one-row", "single", 1, OPT, 4, 1, 300,
     dict(precision="bf16", quantization="nf4", prepare_kbit="none", **dict(lora(["q_proj", "fc1"], dropout=0.1, bias="all"), tuning="qlora"))),
    ("layers-ddp", "ddp", 4, LLAMA, None, 2, 256, dict(precision="bf16-autocast", **lora(["q_proj", "v_proj"], layers_to_transform=[0, 2], rank_pattern={"v_proj": 16}))),
    ("layers-fsdp2", "fsdp2", 4, LLAMA, None, 2, 256,
     dict(precision="bf16-mixed", **lora(["q_proj", "v_proj"], layers_to_transform=[0, 2], rank_pattern={"v_proj": 16}), **FSDP2)),
    ("layers-zero3", "zero3", 4, TINY, 4, 1, 256, dict(precision="bf16", **lora(["q_proj", "v_proj"], layers_to_transform=[0, 2], rank_pattern={"v_proj": 16}))),
]


def cut_before(training):
    """from_pretrained() with a plan cuts the model; peft cuts its adapters as it adds them (tuners/lora/model.py); fully_shard comes last."""
    import dist_trace
    from many_gpus import models, parallel
    from torch.distributed.device_mesh import init_device_mesh
    from transformers.distributed import DistributedConfig
    from transformers.distributed.tensor_parallel import apply_tensor_parallelism
    newest, add, make = parallel.apply_tp, models.add_lora, dist_trace.make_model

    def cut(model, mesh):  # before 5.21 it reads the model's plan itself
        return newest(model, mesh) if hasattr(model, "_expand_parallel_plan") else apply_tensor_parallelism(model, mesh)

    def make_model(cfg, o, device):
        def add_to_cut(model, lora):
            mesh = parallel.data_mesh(o) if "+" in o["method"] else init_device_mesh("cuda", (o["world_size"],), mesh_dim_names=("tp",))
            cut(model, mesh["tp"])
            model._device_mesh, model.config.distributed_config = mesh["tp"], DistributedConfig(tp_size=o["tensor_parallel"])
            return add(model, lora)
        models.add_lora = add_to_cut
        return make(cfg, o, device)
    dist_trace.make_model, parallel.apply_tp = make_model, lambda model, mesh: None


def trace(oracle):
    sys.path[:0] = [oracle]
    sys.argv[0] = os.path.abspath(__file__)
    request = json.loads(os.environ["ADAPTERS_REQUEST"])
    training = dict(request["training"])
    several = training["methods"] != "single"
    import environment
    environment.ensure(*([80, 0] if several else []))
    import tempfile
    import ask
    import peft
    training["lora"], real = dict(training["lora"]), peft.LoraConfig
    more = {k: training["lora"].pop(k) for k in OF_PEFT if k in training["lora"]}
    if more or training["lora"]["target_modules"] == []:
        peft.LoraConfig = lambda **k: real(**dict(k, **more))
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(request["config"], f)
        f.flush()
        if several:
            import dist_trace
            if training["methods"].startswith("zero"):
                import deepspeed  # noqa: F401
            if training["methods"].startswith("tp"):
                cut_before(training)
            if training["methods"] == "zero3" and training["tuning"] == "qlora":  # as FSDP's: what ask.py does not ask
                kind, prepare = training["quantization"], training["prepare_kbit"]
                training.update(tuning="lora", quantization="none")
                resolve = dist_trace.resolve
                dist_trace.resolve = lambda o: resolve({**o, "quantization": kind, "quant_storage": "bf16", "prepare_kbit": prepare})
            o = dist_trace.resolve({**ask.for_many(request, training, []), "loop": "plain" if training["methods"].startswith("tp") else "trainer", "breakdown": False})
            out = dist_trace.trace_rank(f.name, o, int(os.environ.get("ADAPTERS_RANK", "0")))
        else:
            from one_gpu import report
            out = report.trace(f.name, ask.for_one(request, training, []), events=os.environ.get("ADAPTERS_EVENTS"))
    print("\n" + json.dumps(out))
    sys.stdout.flush()
    os._exit(0)


def request_of(case, configs):
    name, method, ranks, config, layers, rows, tokens, training = case[:8]
    one = request_in((name, method, ranks, QWEN3 if isinstance(config, dict) else config, layers, rows, tokens, training), configs)
    if isinstance(config, dict):
        one["config"] = config
    one["stack"].update(case[8] if len(case) > 8 else {})
    return one


def main():
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    oracle, configs, python = sys.argv[1:4]
    path = os.path.join(HERE, "adapters.jsonl")
    rows = {}
    if os.path.exists(path):
        rows = {row["id"]: row for row in map(json.loads, open(path, encoding="utf-8"))}
    for case in CASES:
        if only not in case[0]:
            continue
        request, worst = request_of(case, configs), None
        env = dict(os.environ, ADAPTERS_REQUEST=json.dumps(request))
        places = [os.environ.get("%s_%s" % (name.upper(), request["stack"][name])) for name in ("peft", "transformers")]
        env["PYTHONPATH"] = os.pathsep.join([p for p in places if p] + [env.get("PYTHONPATH", "")])
        for rank in range(case[2]) if case[1] in ("zero1", "zero2") else [0]:
            told = subprocess.run([python, os.path.abspath(__file__), "--trace", oracle], env=dict(env, ADAPTERS_RANK=str(rank)), stdout=subprocess.PIPE).stdout
            if b"\n{" not in told:
                print("no figures: " + case[0], file=sys.stderr)
                break
            result = json.loads(told[told.rindex(b"\n{"):])
            worst = result if not worst or result["peak_allocated_bytes"] > worst["peak_allocated_bytes"] else worst
        else:
            from make_stages_dist import figures
            made = {k: worst[k] for k in FIGURES if k in worst} if case[1] == "single" else figures(worst, case[1] == "zero3")
            if case[1] == "zero3":  # the tracer packs weights in the order of modules, not of a loader: blocks are left otherwise
                made.pop("active_between")
            group = "one GPU, adapters" if case[1] == "single" else "several GPUs, adapters"
            row = {"id": "adapters/" + case[0], "group": group, "body": json.dumps(request, separators=(",", ":")), **made}
            rows[row["id"]] = row
            with open(path, "w", encoding="utf-8") as out:
                out.writelines(json.dumps(rows[k], separators=(",", ":")) + "\n" for k in ["adapters/" + c[0] for c in CASES] if k in rows)


if __name__ == "__main__":
    if sys.argv[1] == "--trace":
        trace(sys.argv[2])
    else:
        main()
