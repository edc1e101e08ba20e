#!/usr/bin/env python3
"""Makes pipelines.jsonl of this folder: stages of 1F1B cut from model types that the oracle's own Stage does not know.

    make_pipelines.py ORACLE CONFIGS PYTHON [--only TEXT]

ORACLE holds ask.py, dist_trace.py and many_gpus; PYTHON is that of its environment (torch 2.15, transformers 5.23). Configs are those of ../families.jsonl. torch.distributed
cuts nothing by itself: a stage is a module that somebody wrote. The one here does what the model's own forward does with the modules that it has: the first has all that stands
before the layers, each makes masks, positions and tables from what it gets, the last has all that stands behind them. Modules, masks and schedule are the packages' own.
"""
import argparse
import importlib.machinery
import json
import math
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
STACK = {"torch": "2.15", "transformers": "5.23", "framework": "torch"}
CKPT = dict(gradient_checkpointing=True)
LORA = dict(tuning="lora", lora={"rank": 8, "alpha": 16, "dropout": 0.05, "target_modules": "all-linear"})  # peft adapts the model before it is cut
OVER = dict(precision="bf16-autocast")  # of a base in half
HALF, AUTO = dict(precision="bf16"), dict(precision="bf16-mixed")
SMALL = {"hidden_size": 256, "intermediate_size": 704, "vocab_size": 1000, "pad_token_id": 0}
PHI = {**SMALL, "head_dim": 32, "num_attention_heads": 8, "num_key_value_heads": 2, "num_hidden_layers": 4}
PLAIN_4 = {"hidden_size_per_layer_input": 0}  # as the larger ones are: hidden states alone go from layer to layer

# name, model type, changes of the config, stages, micro-batches, rows, tokens, the rest of `training`
CASES = [
    ("gpt2", "gpt2", {"n_layer": 6}, 3, 6, 2, 256, HALF),
    ("gpt2-mixed", "gpt2", {"n_layer": 4}, 2, 4, 1, 512, AUTO),
    ("gpt2-ckpt", "gpt2", {"n_layer": 6}, 3, 6, 2, 256, {**AUTO, **CKPT}),
    ("gpt_neox", "gpt_neox", {"num_hidden_layers": 6}, 3, 6, 2, 256, HALF),
    ("gpt_neox-mixed", "gpt_neox", {"num_hidden_layers": 4}, 2, 4, 1, 512, {**AUTO, **CKPT}),
    ("gpt_bigcode", "gpt_bigcode", {"n_layer": 4}, 2, 4, 2, 384, HALF),
    ("gpt_neo", "gpt_neo", {"num_layers": 4, "attention_types": [[["global", "local"], 2]], "attention_layers": ["global", "local"] * 2}, 2, 4, 1, 384, HALF),
    ("gptj", "gptj", {"n_layer": 4}, 2, 4, 2, 256, HALF),
    ("gptj-mixed", "gptj", {"n_layer": 6}, 3, 6, 1, 256, {**AUTO, **CKPT}),
    ("codegen", "codegen", {"n_layer": 4}, 2, 4, 2, 256, HALF),
    ("opt", "opt", {"num_hidden_layers": 6}, 3, 6, 2, 256, HALF),
    ("opt-narrow", "opt", {"num_hidden_layers": 4, "word_embed_proj_dim": 256, "do_layer_norm_before": False}, 2, 4, 1, 384, AUTO),
    ("biogpt", "biogpt", {"num_hidden_layers": 4}, 2, 4, 1, 256, HALF),
    ("xglm", "xglm", {"num_layers": 4}, 2, 4, 1, 256, HALF),
    ("bloom", "bloom", {"n_layer": 6}, 3, 6, 2, 256, HALF),
    ("bloom-mixed", "bloom", {"n_layer": 4}, 2, 4, 1, 384, {**AUTO, **CKPT}),
    ("mpt", "mpt", {"n_layers": 4}, 2, 4, 1, 256, HALF),
    ("falcon", "falcon", {"num_hidden_layers": 4}, 2, 4, 2, 256, HALF),
    ("falcon-alibi", "falcon", {"num_hidden_layers": 4, "alibi": True, "multi_query": False, "parallel_attn": False}, 2, 4, 1, 256, HALF),
    ("falcon_h1", "falcon_h1", {"num_hidden_layers": 4}, 2, 4, 1, 256, HALF),
    ("falcon_h1-mixed", "falcon_h1", {"num_hidden_layers": 3}, 3, 6, 1, 384, {**AUTO, **CKPT}),
    ("nemotron_h", "nemotron_h", {}, 2, 4, 1, 256, HALF),
    ("lfm2", "lfm2", {}, 2, 4, 1, 512, HALF),
    ("lfm2-mixed", "lfm2", {}, 2, 4, 1, 384, {**AUTO, **CKPT}),
    ("lfm2_moe", "lfm2_moe", {}, 2, 4, 1, 512, HALF),
    ("qwen3_next", "qwen3_next", {}, 2, 4, 1, 256, HALF),
    ("qwen3_5_text", "qwen3_5_text", {}, 2, 4, 1, 256, HALF),
    ("mamba", "mamba", {}, 2, 4, 1, 64, HALF),
    ("mamba-mixed", "mamba", {}, 2, 4, 1, 64, AUTO),
    ("mamba2", "mamba2", {}, 2, 4, 1, 256, HALF),
    ("jamba", "jamba", {}, 2, 4, 1, 64, HALF),
    ("bamba", "bamba", {}, 2, 4, 1, 256, HALF),
    ("granitemoehybrid", "granitemoehybrid", {}, 2, 4, 1, 256, HALF),
    ("dbrx", "dbrx", {}, 2, 4, 2, 256, HALF),
    ("dbrx-mixed", "dbrx", {}, 2, 4, 1, 256, {**AUTO, **CKPT}),
    ("openai-gpt", "openai-gpt", {"n_layer": 6}, 3, 6, 2, 256, HALF),
    ("openai-gpt-mixed", "openai-gpt", {}, 2, 4, 1, 384, AUTO),
    ("modernbert-decoder", "modernbert-decoder", {}, 2, 4, 2, 256, HALF),
    ("modernbert-decoder-mixed", "modernbert-decoder", {"num_hidden_layers": 6}, 3, 6, 1, 100, {**AUTO, **CKPT}),
    ("recurrent_gemma", "recurrent_gemma", {"num_hidden_layers": 6}, 2, 4, 2, 128, HALF),
    ("recurrent_gemma-mixed", "recurrent_gemma", {}, 3, 6, 1, 50, {**AUTO, **CKPT}),
    ("gemma4_text", "gemma4_text", PLAIN_4, 2, 4, 2, 256, HALF),
    ("gemma4_text-dense", "gemma4_text", {**PLAIN_4, "enable_moe_block": False, "sliding_window": 64}, 3, 6, 1, 384, {**AUTO, **CKPT}),
    ("gemma3_text-window", "gemma3_text", {**SMALL, "head_dim": 64, "num_hidden_layers": 6, "sliding_window": 64}, 2, 4, 2, 256, HALF),
    ("gemma2-window", "gemma2", {"num_hidden_layers": 4, "sliding_window": 64}, 2, 4, 1, 256, AUTO),
    ("mistral-window", "mistral", {"num_hidden_layers": 4}, 2, 4, 2, 256, HALF),
    ("mistral-eager", "mistral", {"num_hidden_layers": 4, "sliding_window": None}, 2, 4, 2, 256, {**HALF, "attention": "eager"}),
    ("gpt_oss", "gpt_oss", {**SMALL, "num_attention_heads": 8, "num_key_value_heads": 2, "sliding_window": 64}, 2, 4, 2, 256, HALF),
    ("phimoe", "phimoe", PHI, 2, 4, 2, 256, HALF),
    ("phimoe-mixed", "phimoe", {**PHI, "sliding_window": 64}, 3, 6, 1, 384, {**AUTO, **CKPT}),
    ("phimoe-lora", "phimoe", PHI, 2, 4, 1, 256, {**OVER, "tuning": "lora", "lora": {**LORA["lora"], "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj"]}}),
    ("dbrx-lora", "dbrx", {}, 2, 4, 2, 256, {**HALF, **LORA}),
    ("openai-gpt-lora", "openai-gpt", {}, 2, 4, 1, 256, {**HALF, **LORA}),
    ("openai-gpt-lora-over", "openai-gpt", {"n_layer": 6}, 3, 6, 1, 256, {**OVER, **LORA}),
    ("bloom-lora", "bloom", {"n_layer": 6}, 3, 6, 1, 256, {**OVER, **LORA}),
    ("opt-narrow-lora", "opt", {"num_hidden_layers": 4, "word_embed_proj_dim": 256, "do_layer_norm_before": False}, 2, 4, 1, 384, {**OVER, **LORA}),
    ("modernbert-decoder-lora", "modernbert-decoder", {}, 2, 4, 1, 256, {**OVER, **LORA}),
    ("recurrent_gemma-lora", "recurrent_gemma", {"num_hidden_layers": 6}, 2, 4, 1, 128, {**HALF, **CKPT, **LORA}),
    ("gemma4_text-lora", "gemma4_text", PLAIN_4, 2, 4, 1, 256, {**OVER, **LORA}),
    ("llama-lora", "llama", {"num_hidden_layers": 6}, 3, 6, 2, 256, {**HALF, **LORA}),
    ("llama-lora-ckpt", "llama", {"num_hidden_layers": 4}, 2, 4, 1, 384, {**OVER, **CKPT, **LORA}),
    ("qwen3-lora", "qwen3", {"num_hidden_layers": 4}, 2, 4, 2, 256, {**OVER, **LORA}),
    ("gpt2-lora", "gpt2", {"n_layer": 4}, 2, 4, 1, 256, {**OVER, **CKPT, **LORA}),
    ("opt-lora", "opt", {"num_hidden_layers": 4}, 2, 4, 1, 384, {**HALF, **LORA}),
]


def figures(result):
    """The highest of the ranks, figure by figure."""
    ranks = result["ranks"]
    return {"peak_allocated_bytes": max(r["peak_allocated_bytes"] for r in ranks), "peak_reserved_bytes": max(r["peak_reserved_bytes"] for r in ranks),
            "static_bytes": max(r["after_init_allocated_bytes"] for r in ranks), "resting_bytes": max(r["resting_allocated_bytes"] for r in ranks)}


def stage_class():
    import torch
    from torch import nn
    from transformers.masking_utils import create_causal_mask, create_sliding_window_causal_mask

    class Stage(nn.Module):
        def __init__(self, model, first, last, is_first, is_last):
            super().__init__()
            base = model.base_model
            base = getattr(base, "decoder", base)
            self.kind, self.config, self.is_first, self.is_last = model.config.model_type, model.config, is_first, is_last
            self.at = list(range(first, last))

            def take(name, here=True):
                return getattr(base, name, None) if here else None
            self.embed = next(take(n, is_first) for n in ("embed_tokens", "embeddings", "wte", "embed_in", "word_embeddings", "tokens_embed") if hasattr(base, n))
            self.wpe, self.embed_positions = take("wpe", is_first), take("embed_positions", is_first)
            self.positions_embed, self.normalizer = take("positions_embed", is_first), take("normalizer", is_first)
            self.project_in, self.project_out = take("project_in", is_first), take("project_out", is_last)
            self.drop = take("drop", is_first) or take("emb_dropout", is_first)
            self.word_norm = take("word_embeddings_layernorm", is_first)
            self.p = base.dropout if is_first and self.kind in ("biogpt", "xglm") else None
            self.layers = nn.ModuleList(list(next(getattr(base, n) for n in ("layers", "h", "blocks") if hasattr(base, n)))[first:last])
            self.norm = next((take(n, is_last) for n in ("norm", "ln_f", "norm_f", "final_layernorm", "final_layer_norm", "final_norm", "embedding_norm", "layer_norm") if hasattr(base, n)), None)
            self.head = model.get_output_embeddings() if is_last else None
            self.before_head = model.lm_head if is_last and self.kind == "modernbert-decoder" else None
            self.rotary = take("rotary_emb") or take("pos_emb")
            self.multiplier = getattr(base, "embedding_multiplier", None)
            self.build_mpt_alibi_tensor = getattr(base, "build_mpt_alibi_tensor", None)

        def begin(self, ids, positions):
            h = self.embed(ids)
            if self.multiplier is not None:
                h = h * self.multiplier
            if self.wpe is not None:
                h = h + self.wpe(positions)
            if self.positions_embed is not None:
                h = h + self.positions_embed(positions) + 0
            if self.embed_positions is not None:
                if self.kind == "xglm":
                    places = self.embed_positions(positions, 0)
                else:
                    places = self.embed_positions(None, 0, position_ids=positions)
                if self.project_in is not None:
                    h = self.project_in(h)
                h = h + places
            if self.p is not None:
                h = nn.functional.dropout(h, p=self.p, training=self.training)
            for module in (self.drop, self.word_norm):
                if module is not None:
                    h = module(h)
            return h

        def given(self, h, positions):
            kind, cfg, (b, t, _) = self.kind, self.config, h.shape
            if kind in ("mamba", "mamba2"):
                return {}
            if kind == "openai-gpt":
                return {}
            if kind in HYBRIDS:
                out = {"attention_mask": None, "position_ids": positions}
                if self.rotary is not None:
                    out["position_embeddings"] = self.rotary(h, positions)
                return out
            how = {"config": cfg, "inputs_embeds": h, "attention_mask": None, "past_key_values": None}
            if kind in WINDOWS:
                make = create_causal_mask if kind != "recurrent_gemma" and cfg.sliding_window is None else create_sliding_window_causal_mask
                return {"attention_mask": make(**how), "position_ids": positions,
                        **({"position_embeddings": self.rotary(h, positions)} if self.rotary is not None else {})}
            if kind == "falcon":
                from transformers.models.falcon.modeling_falcon import build_alibi_tensor
                alibi = None
                if cfg.alibi:
                    alibi = build_alibi_tensor(torch.ones((b, t), device=h.device, dtype=torch.long), cfg.num_attention_heads, dtype=h.dtype)
                mask = create_causal_mask(**how, allow_is_causal_skip=False)
                if alibi is not None and mask is not None and mask.ndim == 4:
                    least = torch.finfo(h.dtype).min
                    if mask.dtype == torch.bool:
                        mask = torch.where(mask, torch.full((), 0.0, device=mask.device, dtype=h.dtype), least)
                    alibi = alibi.reshape(b, -1, *alibi.shape[1:])
                    mask = torch.masked_fill(alibi / math.sqrt(cfg.hidden_size // cfg.num_attention_heads), mask < -1, least)
                return {"alibi": alibi, "attention_mask": mask, "position_ids": positions, "position_embeddings": self.rotary(h, position_ids=positions)}
            if kind == "bloom":
                from transformers.models.bloom.modeling_bloom import _get_alibi_slopes
                slopes = _get_alibi_slopes(cfg.n_head, h.device)
                alibi = slopes[:, None, None] * torch.arange(t, device=h.device)
                alibi = alibi.repeat(b, 1, 1).to(h.dtype)
                return {"attention_mask": create_causal_mask(**how), "alibi": alibi}
            if kind == "mpt":
                alibi = self.build_mpt_alibi_tensor(cfg.n_heads, cfg.max_seq_len, device=h.device)
                return {"attention_mask": create_causal_mask(**how).to(torch.bool), "position_bias": alibi}
            out = {"attention_mask": create_causal_mask(**how)}
            if self.rotary is not None:
                out["position_embeddings"] = self.rotary(h, positions)
            if kind in ("gptj", "codegen", "llama", "qwen3"):
                out["position_ids"] = positions
            return out

        def of_kinds(self, h, positions):
            cfg, kinds = self.config, self.config.layer_types
            how = {"config": cfg, "inputs_embeds": h, "attention_mask": None, "past_key_values": None}
            masks = {"full_attention": create_causal_mask(**how), "sliding_attention": create_sliding_window_causal_mask(**how)}
            if self.kind == "modernbert-decoder":
                positions = positions.expand(h.shape[0], -1)
            if self.kind in ("gemma2", "gpt_oss"):
                tables = dict.fromkeys(kinds, self.rotary(h, positions))
            else:
                tables = {kind: self.rotary(h, positions, kind) for kind in sorted(set(kinds))}
            more = {"shared_kv_states": {}} if self.kind == "gemma4_text" else {}
            return [{"attention_mask": masks[kinds[i]], "position_embeddings": tables[kinds[i]], "position_ids": positions, **more} for i in self.at], masks, tables

        def forward(self, x):
            positions = torch.arange(x.shape[1], device=x.device).unsqueeze(0)
            h = self.begin(x, positions) if self.is_first else x
            if self.kind in KINDS:
                given, *held = self.of_kinds(h, positions)  # as the names of the model's own forward hold them
            else:
                given = [self.given(h, positions)] * len(self.layers)
            if self.normalizer is not None:
                h = h * self.normalizer.type(h.dtype)
            for layer, how in zip(self.layers, given):
                out = layer(h, **how)
                h = out[0] if isinstance(out, (tuple, list)) else out
            if not self.is_last:
                assert h.dtype == self.wire, f"what goes over the wire is {h.dtype}"
                return h
            if self.norm is not None:
                h = self.norm(h)
            if self.project_out is not None:
                h = self.project_out(h)
            if self.before_head is not None:
                h = self.before_head(h)
            if self.kind in ("mamba", "mamba2"):
                return self.head(h.to(self.head.weight.dtype)).float()
            out = self.head(h)
            if self.kind == "falcon_h1":
                return out * self.config.lm_head_multiplier
            if self.kind in ("recurrent_gemma", "gemma2", "gemma4_text"):
                cap = self.config.logits_soft_cap if self.kind == "recurrent_gemma" else self.config.final_logit_softcapping
                if self.kind == "recurrent_gemma":
                    return torch.tanh(out / cap) * cap
                if cap is not None:
                    out = out / cap
                    out = torch.tanh(out)
                    out = out * cap
                return out
            if self.kind == "granitemoehybrid":
                return out / self.config.logits_scaling
            return out.float() if self.kind == "nemotron_h" else out
    return Stage


KINDS = ("modernbert-decoder", "gemma2", "gemma3_text", "gemma4_text", "gpt_oss")  # masks and tables by the kind of a layer
WINDOWS = ("recurrent_gemma", "mistral", "phimoe")
ROSE = ("modernbert-decoder", "phimoe", "openai-gpt", "bloom")  # a norm ahead of the layers, and weights of experts, are fp32 under autocast, and the stream with them
EAGER = ("openai-gpt", "gpt_oss", "gemma2", "gpt_neo", "gptj", "codegen", "xglm", "bloom", "mpt", "mamba", "mamba2")  # no other in transformers 5
HYBRIDS = ("falcon_h1", "nemotron_h", "lfm2", "lfm2_moe", "qwen3_next", "qwen3_5_text", "jamba", "bamba", "granitemoehybrid")


def traced(oracle, path):
    """In the oracle's environment: every stage that may be the highest."""
    sys.path.insert(0, oracle)
    import environment
    environment.ensure(80, None)
    import ask
    import dist_trace
    import torch
    from many_gpus import models, pipeline
    with open(path, encoding="utf-8") as f:
        request = json.load(f)
    tool, options = ask.options_of({k: v for k, v in request.items() if k != "attention"}, [])
    options["breakdown"] = False
    cfg = request["config"]
    with open(path + ".config", "w", encoding="utf-8") as f:
        json.dump(cfg, f)
    import torch.distributed.pipelining
    real = torch.distributed.pipelining.PipelineStage
    adapted = request["training"]["tuning"] == "lora"
    wide = cfg["model_type"] in ("mamba", "mamba2")

    def stage_of(module, index, stages, device, input_args, output_args):
        def as_it_is(x):
            if x.is_floating_point() and adapted and not wide:  # the residual stream keeps the dtype of the frozen embedding
                return x.to(torch.float32 if (cfg["model_type"] in ROSE or not cfg.get("do_layer_norm_before", True)) and options["base_dtype"] != options["precision"] else models.DTYPES[options["base_dtype"]])
            return x.float() if x.is_floating_point() and wide else x
        if module.is_last and module.kind in ("mamba", "mamba2", "nemotron_h"):
            output_args = output_args.float()
        module.wire = as_it_is(output_args).dtype
        return real(module, index, stages, device, input_args=as_it_is(input_args), output_args=as_it_is(output_args))
    torch.distributed.pipelining.PipelineStage = stage_of
    pipeline.Stage = stage_class()
    split = pipeline.trace_stage

    def of_windows(cfg, o, index, make_model):
        """It makes no masks, and refuses a window that is reached; this Stage makes them."""
        had.append(vars(cfg).get("use_sliding_window"))
        cfg.use_sliding_window = False
        return split(cfg, o, index, make_model)
    had, pipeline.trace_stage = [], of_windows

    def make(cfg, o, device, plain=dist_trace.make_model):
        del cfg.use_sliding_window
        if had[-1] is not None:
            cfg.use_sliding_window = had[-1]
        model = plain(cfg, {**o, "attention": request["attention"]}, device)
        model = model.get_base_model() if adapted else model
        for holder in [model] if not hasattr(model, "model") else [model.model]:
            if holder is model:
                object.__setattr__(model, "model", type("", (), {"rotary_emb": None}))
            elif not hasattr(holder, "rotary_emb"):
                object.__setattr__(holder, "rotary_emb", None)
        return model
    dist_trace.make_model = make
    options = dist_trace.resolve(options)
    draws = importlib.machinery.SourceFileLoader("draws", os.path.join(HERE, "../../../tools/compare-random")).load_module()
    draws.experts_evenly(path + ".config", options)  # dbrx loops over those that were hit
    stages = options["pipeline_parallel"]
    results = []
    for rank in sorted({0, 1, stages - 1}):
        r, w = os.pipe()
        if os.fork() == 0:
            out = dist_trace.trace_rank(path + ".config", options, rank)
            with os.fdopen(w, "w") as f:
                json.dump(out, f)
            os._exit(0)
        os.close(w)
        with os.fdopen(r) as f:
            told = f.read()
        os.wait()
        results.append(json.loads(told) if told else None)
    assert all(results)
    sys.stdout.write("\n" + json.dumps({"ranks": results}) + "\n")
    sys.stdout.flush()
    os._exit(0)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("oracle")
    a.add_argument("configs")
    a.add_argument("python", nargs="?")
    a.add_argument("--only", default="")
    a = a.parse_args()
    if not a.python:
        return traced(a.oracle, a.configs)
    target = os.path.join(HERE, "pipelines.jsonl")
    rows = {}
    if a.only and os.path.exists(target):
        rows = {json.loads(line)["id"]: line for line in open(target, encoding="utf-8")}
    known = {}
    for line in open(a.configs, encoding="utf-8"):
        c = json.loads(line)["config"]
        known.setdefault(c["model_type"], c)
    for name, kind, changes, stages, micro, batch, tokens, training in CASES:
        if a.only not in name:
            continue
        own = {**known[kind], **changes}
        request = {"cluster": {"gpu": "A100-80GB", "gpus_per_node": stages},
                   "training": {"methods": "pp", "pipeline_parallel": stages, "tuning": "full", "attention": "sdpa", "gradient_checkpointing": False, "optimizer": "adamw_torch",
                                "micro_batch_size": batch, "seq_len": tokens, "gradient_accumulation_steps": micro, **training},
                   "stack": {**STACK, "peft": "0.21"} if "lora" in training else STACK, "config": own}
        path = os.path.join("/tmp", "pipelines-%d.json" % os.getpid())
        attention = "eager" if kind in EAGER else training.get("attention", "sdpa")
        request["training"]["attention"] = "sdpa"
        with open(path, "w", encoding="utf-8") as f:
            json.dump({**request, "attention": attention}, f)
        request["training"]["attention"] = attention
        told = subprocess.run([a.python, os.path.abspath(__file__), a.oracle, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for p in (path, path + ".config"):
            if os.path.exists(p):
                os.unlink(p)
        if told.returncode or "{" not in told.stdout:
            print(name, told.stderr[-1500:], file=sys.stderr)
            continue
        result = json.loads(told.stdout[told.stdout.index("\n{"):])
        row = {"id": "pipelines/" + name, "group": "pp", "body": json.dumps(request, separators=(",", ":")), **figures(result)}
        rows[row["id"]] = json.dumps(row, separators=(",", ":")) + "\n"
        print(name, row["peak_allocated_bytes"], row["peak_reserved_bytes"], row["static_bytes"], flush=True)
    with open(target, "w", encoding="utf-8") as out:
        out.writelines(rows.values())


if __name__ == "__main__":
    main()
