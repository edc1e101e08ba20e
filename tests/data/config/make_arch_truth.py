#!/usr/bin/env python3
"""Writes arch_truth.jsonl: what transformers makes of each config.json, for tests/unit/test_arch.c.

    python make_arch_truth.py FOLDER_OR_FILE.json... > arch_truth.jsonl

A file may also be a .jsonl of {"name", "config"} lines (arch_cases.jsonl beside this script).
Needs torch and transformers (the stored file: 5.23.0). What a class keeps in its config is read there; what only its modules know
(padding_idx, the activation that runs, the rotated width, the head) is read off a model of two layers on the meta device.
"""
import copy
import json
import pathlib
import sys
import tempfile

import torch
import transformers

FAMILIES = "opt bloom codegen biogpt gpt_bigcode gpt_neo gpt2 gpt_neox llama mistral qwen2 qwen3 gemma2 gptj".split()
UNUSED = ("_note", "_name_or_path", "id2label", "label2id", "task_specific_params", "auto_map", "transformers.js_config")
DTYPES = {None: "absent", torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16"}
ACTIVATIONS = {
    "GELUActivation": "gelu", "NewGELUActivation": "gelu_new", "GELUTanh": "gelu_pytorch_tanh", "FastGELUActivation": "gelu_fast",
    "SiLUActivation": "silu", "SiLU": "silu", "ReLU": "relu", "BloomGelu": "bloom_gelu", "PytorchGELUTanh": "gelu_pytorch_tanh",
}
FLAGS = {  # member: (attribute, families that have it)
    "attention_bias": ("attention_bias", "gpt_neox llama qwen3 gemma2"),
    "mlp_bias": ("mlp_bias", "llama"),
    "multi_query": ("multi_query", "gpt_bigcode"),
    "parallel_residual": ("use_parallel_residual", "gpt_neox"),
    "enable_bias": ("enable_bias", "opt"),
    "norm_before": ("do_layer_norm_before", "opt"),
    "norm_affine": ("layer_norm_elementwise_affine", "opt"),
    "residual_post_norm": ("apply_residual_connection_post_layernorm", "bloom"),
    "slow_but_exact": ("slow_but_exact", "bloom"),
    "scale_embedding": ("scale_embedding", "biogpt"),
    "scale_attn_weights": ("scale_attn_weights", "gpt2 gpt_bigcode"),
    "scale_attn_by_inverse_layer_idx": ("scale_attn_by_inverse_layer_idx", "gpt2"),
    "reorder_and_upcast_attn": ("reorder_and_upcast_attn", "gpt2"),
    "attention_softmax_in_fp32": ("attention_softmax_in_fp32", "gpt_bigcode"),
    "scale_attention_softmax_in_fp32": ("scale_attention_softmax_in_fp32", "gpt_bigcode"),
}
DROPOUTS = {  # family: embed, residual, attention
    "opt": (None, "dropout", "attention_dropout"),
    "bloom": (None, "hidden_dropout", "attention_dropout"),
    "biogpt": ("hidden_dropout_prob", "hidden_dropout_prob", "attention_probs_dropout_prob"),
    "gpt_neo": ("embed_dropout", "resid_dropout", "attention_dropout"),
    "gpt_neox": ("hidden_dropout", "hidden_dropout", "attention_dropout"),
    **dict.fromkeys("codegen gptj gpt2 gpt_bigcode".split(), ("embd_pdrop", "resid_pdrop", "attn_pdrop")),
    **dict.fromkeys("llama mistral qwen2 qwen3 gemma2".split(), (None, None, "attention_dropout")),
}


def layer_kinds(c):
    n = c.num_hidden_layers
    if c.model_type == "gpt_neo":
        return "".join("S" if k == "local" else "F" for k in c.attention_layers)
    if c.model_type == "mistral":
        return ("S" if c.sliding_window is not None else "F") * n
    if c.model_type in ("qwen2", "qwen3", "gemma2"):
        return "".join("S" if k == "sliding_attention" else "F" for k in c.layer_types)
    return "F" * n


def two_layers(c):
    """The same model, two layers deep."""
    c = copy.deepcopy(c)
    if c.model_type == "gpt_neo":
        c.attention_types, c.attention_layers = [[["global", "local"], 1]], ["global", "local"]
    elif getattr(c, "layer_types", None):
        c.layer_types = c.layer_types[:2]
    c.num_hidden_layers = min(2, c.num_hidden_layers)
    c.dtype = torch.float32
    if hasattr(c, "quantization_config"):
        del c.quantization_config
    with torch.device("meta"):
        return transformers.AutoModelForCausalLM.from_config(c)


def quantization(q):
    return (q.get("quant_method") or ("bitsandbytes" if "load_in_4bit" in q or "load_in_8bit" in q else "unknown")) if q else ""


def find(model, *names):
    for path, module in model.named_modules():
        if path.rsplit(".", 1)[-1] in names:
            return module
    return None


def activation(model):
    for module in model.modules():
        if type(module).__name__ in ACTIVATIONS:
            return ACTIVATIONS[type(module).__name__]
    raise SystemExit(f"no known activation in {type(model).__name__}")


def width(model, family, heads):
    """FFN and head as the modules have them."""
    shape = {name: tuple(p.shape) for name, p in model.named_parameters() if ".0." in name and p.dim() == 2}
    one = lambda *ends: next((s for n, s in shape.items() if n.endswith(tuple(e + ".weight" for e in ends))), None)
    up = one("fc1", "dense_h_to_4h", "fc_in", "c_fc", "gate_proj")
    ffn = up[1] if family in ("gpt2",) else up[0]
    q = one("q_proj")
    return ffn, (q[0] if q else model.config.hidden_size) // heads


def normalised(c, model):
    t = c.model_type
    embed, residual, attention = (getattr(c, k) or 0 if k else 0 for k in DROPOUTS[t])
    heads = c.num_attention_heads
    ffn, head_dim = width(model, t, heads)
    rope = getattr(c, "rope_parameters", None) or {}
    rotary = find(model, "rotary_emb")
    if rotary is not None:
        rotary_dim, scaling = 2 * rotary.inv_freq.numel(), float(getattr(rotary, "attention_scaling", 1))
    else:
        rotary_dim, scaling = (c.rotary_dim if t in ("codegen", "gptj") else 0), 0.0
    table = find(model, "wte", "embed_tokens", "word_embeddings", "embed_in")
    window = {"gpt_neo": "window_size"}.get(t, "sliding_window")
    kv = getattr(c, "num_key_value_heads", None) or heads
    out = dict(
        family=t, architecture=(c.architectures or [""])[0], hidden=c.hidden_size, layers=c.num_hidden_layers, heads=heads,
        kv_heads=kv, head_dim=head_dim, ffn=ffn, vocab=c.vocab_size,
        max_positions=0 if t == "bloom" else c.max_position_embeddings, rotary_dim=rotary_dim,
        sliding_window=getattr(c, window, None) or 0 if t in ("gpt_neo", "mistral", "qwen2", "qwen3", "gemma2") else 0,
        pretraining_tp=getattr(c, "pretraining_tp", 0) if t in ("llama", "bloom") else 0,
        embed_dim=table.embedding_dim, pad_token_id=-1 if table.padding_idx is None else table.padding_idx,
        activation=activation(model), saved=DTYPES[getattr(c, "dtype", getattr(c, "torch_dtype", None))],
        rope=rope.get("rope_type", "none") if rotary is not None else "none",
        rope_attention_scaling=scaling, rope_dynamic=rope.get("rope_type") in ("dynamic", "longrope"),
        tie_embeddings=c.tie_word_embeddings, use_cache=c.use_cache,
        final_norm=getattr(find(model, "decoder"), "final_layer_norm", None) is not None if t == "opt" else False,
        embed_dropout=embed, residual_dropout=residual, attention_dropout=attention,
        activation_dropout=c.activation_dropout if t == "biogpt" else 0,
        layerdrop=c.layerdrop if t in ("opt", "biogpt") else 0,
        attn_logit_softcapping=c.attn_logit_softcapping or 0 if t == "gemma2" else 0,
        final_logit_softcapping=c.final_logit_softcapping or 0 if t == "gemma2" else 0,
        query_pre_attn_scalar=c.query_pre_attn_scalar if t == "gemma2" else 0,
        quantization=quantization(getattr(c, "quantization_config", None)),
        layer_kinds=layer_kinds(c),
    )
    out.update({m: bool(getattr(c, attr)) if t in fams.split() else False for m, (attr, fams) in FLAGS.items()})
    return out


def cases(paths):
    for path in map(pathlib.Path, paths):
        if path.suffix == ".jsonl":
            yield from ((c["name"], c["config"]) for c in map(json.loads, path.read_text().splitlines()))
            continue
        for file in sorted(path.glob("*.json")) if path.is_dir() else [path]:
            yield file.stem.replace("__", "/", 1), json.loads(file.read_text())


def main():
    transformers.logging.set_verbosity_error()
    seen = set()
    for name, config in cases(sys.argv[1:]):
        if not isinstance(config, dict) or config.get("model_type") not in FAMILIES:
            continue
        config = {k: v for k, v in config.items() if k not in UNUSED}
        text = json.dumps(config, sort_keys=True)
        if text in seen:
            continue
        seen.add(text)
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "config.json").write_text(text)
            c = transformers.AutoConfig.from_pretrained(folder)
        print(json.dumps({"name": name, "config": config, "arch": normalised(c, two_layers(c))}), flush=True)


main()
