"""What compare-random --shapes draws: the small config of a type in tests/data/families.jsonl with every size and flag drawn anew, by the key's meaning."""
import json
import os

BUILTIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "data", "families.jsonl")
DEPTH = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
HEADS = ("num_attention_heads", "n_head", "num_heads", "n_heads", "attention_heads")
WIDTH = ("hidden_size", "n_embd", "d_model")
ACTIVATIONS = ("silu", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "relu2")
KEPT = ("use_cache", "is_decoder", "add_cross_attention", "summary_use_proj", "summary_proj_to_labels", "is_encoder_decoder", "return_dict",
        "output_attentions",
        "output_hidden_states", "use_bidirectional_attention", "use_mamba_kernels", "use_mambapy", "use_associative_scan", "residual_in_fp32", "legacy",
        "slow_but_exact",
        "rescale_prenorm_residual", "deterministic_flash_attn", "sparse_prediction", "learned_pos_emb", "attention_k_eq_v", "tie_word_embeddings",
        "mamba_norm_before_gate", "relative_attention", "position_biased_input", "attn_temperature_tuning", "alibi", "_remove_final_layer_norm", "no_bias",
        "reorder_and_upcast_attn",
        "chunk_size_feed_forward", "enable_moe_block", "enable_moe_fp32_combine", "moe_shared_expert_overlap", "use_qk_norm", "new_decoder_architecture",
        "block_auto_adjust_ff_dim")
SIZES = {  # drawn of these where the type has the key
    "moe_intermediate_size": lambda r: 8 * r.randint(4, 60), "shared_expert_intermediate_size": lambda r: 8 * r.randint(4, 60),
    "shared_intermediate_size": lambda r: 8 * r.randint(4, 60), "intermediate_size_mlp": lambda r: 8 * r.randint(10, 120),
    "intermediate_size": lambda r: 8 * r.randint(8, 160) if r.random() < 0.8 else r.randint(50, 900), "ffn_dim": lambda r: 8 * r.randint(8, 160),
    "n_inner": lambda r: r.choice([None, 8 * r.randint(8, 160)]), "ffn_hidden_size": lambda r: 8 * r.randint(8, 160),
    "kv_lora_rank": lambda r: r.choice([16, 40, 64, 96]), "q_lora_rank": lambda r: r.choice([24, 64, 96, 128]),
    "qk_nope_head_dim": lambda r: r.choice([16, 32, 48, 64]), "qk_rope_head_dim": lambda r: r.choice([8, 16, 32, 64]), "v_head_dim": lambda r: r.choice([16,
    32, 40, 64, 96]),
    "sliding_window": lambda r: r.choice([16, 64, 100, 256, 777, 4096]), "window_size": lambda r: r.choice([16, 100, 256]),
    "attention_chunk_size": lambda r: r.choice([64, 100, 256, 8192]),
    "first_k_dense_replace": lambda r: r.choice([0, 1, 1, 2]), "num_dense_layers": lambda r: r.choice([0, 1, 2]),
    "decoder_sparse_step": lambda r: r.choice([1, 1, 2]),
    "n_shared_experts": lambda r: r.choice([1, 1, 2, 3]), "num_shared_experts": lambda r: r.choice([1, 2]), "moe_num_shared_experts": lambda r: r.choice([0,
    1, 2]),
    "mlp_only_layers": lambda r: r.choice([[], [], [0], [1]]), "interleave_moe_layer_step": lambda r: r.choice([1, 1, 2]),
    "moe_layer_interval": lambda r: r.choice([1, 1, 2]),
    "moe_layer_start_index": lambda r: r.choice([0, 1]), "final_logit_softcapping": lambda r: r.choice([None, 15.0, 30.0]),
    "attn_logit_softcapping": lambda r: r.choice([None, 30.0, 50.0]), "clip_qkv": lambda r: r.choice([None, 8.0]), "swiglu_limit": lambda r: r.choice([7.0,
    10.0]),
    "router_jitter_noise": lambda r: r.choice([0.0, 0.01]), "index_topk": lambda r: r.choice([16, 100, 512]), "index_n_heads": lambda r: r.choice([2, 4, 5]),
    "linear_conv_kernel_dim": lambda r: r.choice([2, 4]), "conv_L_cache": lambda r: r.choice([3, 4]), "conv_kernel": lambda r: r.choice([3, 4]),
    "mamba_d_conv": lambda r: r.choice([3, 4]),
    "time_step_rank": lambda r: r.choice([8, 16, 24]), "mamba_dt_rank": lambda r: r.choice([8, 16, 24]), "mamba_d_state": lambda r: r.choice([16, 32, 64]),
    "mamba_chunk_size": lambda r: r.choice([32, 64, 256]),
    "chunk_size": lambda r: r.choice([32, 64, 256]), "ssm_state_size": lambda r: r.choice([16, 32, 64]), "mamba_conv_bias": lambda r: r.random() < 0.8,
    "logits_scaling": lambda r: r.choice([1.0, 6.0]),
    "logit_scale": lambda r: r.choice([1.0, 0.0625]), "hidden_size_per_layer_input": lambda r: r.choice([8, 16, 24]),
    "no_rope_layer_interval": lambda r: r.choice([2, 3, 4]),
    "moe_latent_size": lambda r: r.choice([None, None, 64]), "embedding_size": lambda r: r.choice([64, 128]), "qk_layernorm": lambda r: r.random() < 0.5,
}
EXPERTS = (("num_experts", "num_experts_per_tok"), ("num_local_experts", "num_experts_per_tok"), ("n_routed_experts", "num_experts_per_tok"),
        ("moe_num_experts", "moe_k"),
           ("moe_num_experts", "moe_top_k"), ("num_experts", "moe_topk"), ("num_experts", "top_k_experts"))
WHOLE = ("arcee", "cohere2", "cwm", "deepseek_v2", "gemma2", "gemma3_text", "gemma3n_text", "hyperclovax", "internlm3", "iquestcoder", "jais2",
         "vaultgemma", "helium")  # by their validate_architecture()
DERIVED_KV = ("dbrx", "gpt_bigcode")  # told by another key
OF_MAMBA = ("mamba_n_heads", "mamba_num_heads", "mamba_d_ssm", "mamba_expand", "mamba2")


def first(c, names):
    return next((n for n in names if isinstance(c.get(n), int)), None)


def rotations(r, t, d):
    """rope_parameters, or rope_scaling of transformers 4, of a type that has one kind of rotation for all its layers."""
    import transformers
    rope = d.get("rope_parameters")
    if t["model_type"] in ("qwen", "minimax_m2", "glm_moe_dsa", "deepseek_v32", "deepseek_v4", "phi3", "phimoe",
            "minicpm3") or rope is None and "rope_scaling" not in d:
        return
    if isinstance(rope, dict) and ("rope_type" not in rope or "mrope_section" in rope or rope["rope_type"] != "default"):
        return
    if isinstance(t.get("rope_scaling"), dict) or isinstance(t.get("rope_parameters"), dict):
        return
    kind = r.choice(["default", "default", "default", "linear", "dynamic", "yarn", "llama3"])
    words = {"linear": {"factor": 4.0}, "dynamic": {"factor": 2.0}, "yarn": {"factor": 4.0, "original_max_position_embeddings": 512},
             "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 1024}}.get(kind)
    if words and "rope_parameters" in d:
        t["rope_parameters"] = dict(words, **{k: v for k, v in rope.items() if k != "rope_type"}, rope_type=kind)
        t["rope_parameters"].setdefault("rope_theta", 10000.0)
    elif words and "rope_scaling" in d:
        t["rope_scaling"] = dict(words, rope_type=kind)
        if transformers.__version__ < "4.43":  # knows linear and dynamic by "type" alone
            t["rope_scaling"] = {"type": kind, "factor": 2.0} if kind in ("linear", "dynamic") else None


def attend(r, t, d):
    """Widths and heads, odd ones too. Types with a Mamba's heads keep theirs."""
    heads, width = first(t, HEADS) or first(d, HEADS), first(t, WIDTH) or first(d, WIDTH)
    if not heads or not width or any(n in d for n in OF_MAMBA):
        return
    kv = r.choice([1, 1, 2, 2, 3, 4, 5])
    n = kv * r.choice([1, 2, 3, 4])
    latent = "kv_lora_rank" in d
    has_kv = (isinstance(d.get("num_key_value_heads"), int) or "num_key_value_heads" in t) and t["model_type"] not in DERIVED_KV
    if t["model_type"] == "dbrx":
        t["attn_config"]["kv_n_heads"] = kv
    dim = r.choice([16, 32, 32, 40, 48, 64, 64, 80, 96, 128])
    if t["model_type"] in ("bloom", "mpt"):
        n = r.choice([2, 3, 4, 6, 8])
    if t["model_type"] in ("gptj", "codegen"):
        n, dim = r.choice([4, 8]), r.choice([64, 80])
    if t["model_type"] in ("biogpt", "xglm", "opt") and dim % 32:
        dim = 64
    t[heads] = n
    if has_kv:
        t["num_key_value_heads"] = n if latent or t["model_type"] in ("flex_olmo", "persimmon", "minicpm3") and r.random() < 0.5 else kv
    if "head_dim" in d and not latent and t["model_type"] not in ("mixtral", "minicpm3"):
        t["head_dim"] = dim
        t[width] = 8 * r.randint(6, 70)
    elif "head_dim" in d and latent:
        t[width] = 8 * r.randint(6, 70)
    else:
        t[width] = n * dim
        t.pop("head_dim", None)
    if "query_pre_attn_scalar" in d:
        t["query_pre_attn_scalar"] = dim
    if t["model_type"] == "opt":
        t["word_embed_proj_dim"] = t[width] if r.random() < 0.7 else 8 * r.randint(4, 20)
    if t["model_type"] == "rwkv":
        t["attention_hidden_size"] = t[width]
    if t["model_type"] == "distilbert":
        t["dim"] = t[width]
    if t["model_type"] in WHOLE and t[width] % n:
        t[width] += n - t[width] % n
    if t["model_type"] == "falcon":
        t["new_decoder_architecture"], t["num_kv_heads"] = r.random() < 0.4, kv
        t["alibi"] = r.random() < 0.3


def layers(r, t, d):
    depth = first(t, DEPTH) or first(d, DEPTH) or "num_hidden_layers"
    n = r.randint(2, 5)
    old = t.get(depth) or d.get(depth)
    kinds = t.get("layer_types") if isinstance(t.get("layer_types"), list) else d.get("layer_types")
    if t["model_type"] == "gpt_neo":
        n = 2 * r.randint(1, 2)
        t["attention_types"] = [[["global", "local"], n // 2]]
        t.pop("attention_layers", None)
    if t["model_type"] in ("deepseek_v4", "glm_moe_dsa", "deepseek_v32", "gemma4_text", "step3p7", "mllama"):
        return
    for name, value in list(t.items()):
        if isinstance(value, list) and len(value) == old and name not in ("layer_types", "architectures"):
            t[name] = value[:n] if len(value) >= n else (value * n)[:n]
    t[depth] = n
    if isinstance(kinds, list) and kinds:
        names = sorted(set(kinds))
        t["layer_types"] = [r.choice(names) for _ in range(n)] if r.random() < 0.6 else (kinds * n)[:n]
        if t["model_type"] in ("granitemoehybrid", "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "lfm2", "lfm2_moe", "minimax_m2", "bamba"):
            t["layer_types"][r.randrange(n)] = "attention" if "attention" in names else "full_attention"
    elif "layer_types" in t:
        del t["layer_types"]
    for name in ("attn_layer_indices", "full_attn_idxs"):
        if isinstance(t.get(name), list):
            t[name] = sorted(r.sample(range(n), r.randint(1, n)))
    for name in ("mlp_layer_types", "no_rope_layers", "moe_layers"):
        t.pop(name, None)
    if "max_window_layers" in d:
        t["max_window_layers"] = r.randint(0, n)


def experts(r, t, d):
    import transformers
    least = 1 if transformers.__version__ >= "5" else 2  # loops over experts: the tracer takes a mask of as many places as tokens for another one
    for many, top in EXPERTS:
        for c in (t, t.get("ffn_config") if isinstance(t.get("ffn_config"), dict) else {}):
            if not isinstance(c.get(many, d.get(many) if c is t else None), int) or top not in (d if c is t else c):
                continue
            c[many] = r.choice([2, 3, 4, 6, 8, 12, 16])
            c[top] = r.randint(least, min(4, c[many]))
            if isinstance(d.get("n_group"), int) or isinstance(t.get("n_group"), int):
                c[many] = r.choice([4, 8, 16])
                c["n_group"] = r.choice([1, 2])
                c["topk_group"] = r.randint(1, c["n_group"])
                c[top] = r.randint(least, min(4, c[many] // c["n_group"] * c["topk_group"]))
    if t["model_type"] == "dbrx":  # the tracer shares tokens out by these
        t["num_experts"], t["num_experts_per_tok"] = t["ffn_config"]["moe_num_experts"], t["ffn_config"]["moe_top_k"]
    if t["model_type"] == "phimoe":
        t["num_experts_per_tok"] = 2
    if "output_router_logits" in d:
        t["output_router_logits"] = r.random() < 0.4


def flags(r, t, d):
    from transformers import PretrainedConfig
    of_all = PretrainedConfig().to_dict()
    for name, value in d.items():
        if name in of_all:
            continue
        if isinstance(value, bool) and name not in KEPT and not name.startswith("output_") and r.random() < 0.3:
            t[name] = not t.get(name, value)
        elif isinstance(value, float) and ("dropout" in name or "pdrop" in name) and "classifier" not in name and "summary" not in name:
            t[name] = r.choice([0.0, 0.0, 0.1])
        elif name in ("hidden_act", "hidden_activation", "activation_function", "activation", "afn", "mlp_hidden_act") and isinstance(value,
                str) and value != "xielu" and r.random() < 0.3:
            t[name] = r.choice(ACTIVATIONS if name != "afn" else ("gelu", "relu"))
        elif name in SIZES and (value is not None or name in ("attn_logit_softcapping", "clip_qkv", "sliding_window",
                "final_logit_softcapping")) and not isinstance(value, str):
            t[name] = SIZES[name](r)
    if t["model_type"] in ("phi", "gpt_neox", "stablelm", "persimmon", "glm", "glm4", "nemotron"):
        t["partial_rotary_factor" if t["model_type"] != "gpt_neox" else "rotary_pct"] = r.choice([0.25, 0.5, 1.0])
    t["tie_word_embeddings"] = r.random() < 0.5
    if "vocab_size" in t:
        t["vocab_size"] = r.choice([511, 1000, 5003, 8001, 20000, 32000, 50257])
    if "vocab_size_per_layer_input" in t:
        t["vocab_size_per_layer_input"] = t["vocab_size"]
    if isinstance(t.get("pad_token_id", d.get("pad_token_id")), int):
        t["pad_token_id"] = 0
    if t["model_type"] == "modernbert" or "max_position_embeddings" not in d:
        return
    t["max_position_embeddings"] = r.choice([2048, 2048, 4096]) if not t["model_type"] in ("bert", "roberta", "camembert", "electra", "xlm-roberta") else 2050


def text_of(c):
    return c["text_config"] if isinstance(c.get("text_config"), dict) else c


def of_encoder(r, t):
    """What encoders alone have. Rows are shorter than positions; a padding token is one of the vocabulary."""
    t.update(num_labels=r.choice([1, 2, 2, 5, 9]), type_vocab_size=r.choice([1, 2]) if t.get("type_vocab_size", 1) else 0)
    t["max_position_embeddings"] = r.choice([514, 1026, 2050])
    if t["model_type"] in ("deberta", "deberta-v2"):
        kinds = r.choice([None, "c2p", "p2c", "c2p|p2c"])
        t.update(relative_attention=kinds is not None, pos_att_type=kinds, position_biased_input=r.random() < 0.4)
        t.update(share_att_key=r.random() < 0.5, norm_rel_ebd=r.choice(["none", "layer_norm"]), position_buckets=r.choice([-1, 256]))
    if t["model_type"] == "mobilebert":
        t["intra_bottleneck_size"] = 4 * r.choice([16, 24, 32])
        t["num_attention_heads"] = 4
    if t["model_type"] == "distilbert":
        t.update(hidden_dim=8 * r.randint(8, 160), n_layers=r.randint(2, 5))


def config(r, only, heads=False):
    """(type, config): any type of this transformers as likely as another; `heads`: of those that train no language model."""
    from transformers import CONFIG_MAPPING
    with open(BUILTIN, encoding="utf-8") as f:
        rows = [row["config"] for row in map(json.loads, f) if ("stage" in row) == heads]
    wanted = only.split(",") if "," in only else None
    rows = [c for c in rows if (c["model_type"] in wanted if wanted else only in c["model_type"]) and c["model_type"] in CONFIG_MAPPING
            and "vision_config" not in c]
    c = json.loads(json.dumps(r.choice(rows)))
    t = text_of(c)
    kind = t.setdefault("model_type", c["model_type"])
    d = CONFIG_MAPPING[kind if kind in CONFIG_MAPPING else c["model_type"]]().to_dict()
    flags(r, t, d)
    layers(r, t, d)
    attend(r, t, d)
    experts(r, t, d)
    rotations(r, t, d)
    if heads:
        of_encoder(r, t)
    return c["model_type"], c
