#!/usr/bin/env python3
"""Makes releases.jsonl of this folder: small steps of model types on the releases of transformers that differ, as the oracle traces them.

    PYTHONPATH=RELEASE:.. PYTHON make_releases.py ORACLE RELEASE [TYPE..] [--beside PROGRAM [--steps eager,lora] [--over JSON]]

ORACLE holds ask.py and one_gpu. PYTHON has torch 2.2 with 4.40 to 4.44, 2.4 with 4.45 to 4.50, 2.7 with 4.51 to 4.57, 2.11 with 5; PYTHONPATH names a folder with
RELEASE ("5.10": its last patch). Configs are those of tests/data/families.jsonl, what is changed of them stands below. Each step runs in a process of its own, forked once all is imported.

--beside: writes no file; any TYPE, and what PROGRAM (llmemd) answers of each step is printed beside the trace. What differs then: tools/compare-events.
"""
import argparse
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = {"eager": dict(attention="eager"),
         "mixed-ckpt-pad": dict(precision="bf16-mixed", gradient_checkpointing=True, padded=True),
         "lora": dict(tuning="lora", precision="bf16-autocast", lora={"rank": 8, "alpha": 16, "dropout": 0.0, "dtype": "fp32", "target_modules": "all-linear"}),
         "lora-table": dict(tuning="lora", lora={"rank": 8, "alpha": 16, "dropout": 0.0, "dtype": "fp32"}),  # target_modules: peft's own for the type
         "pad": dict(padded=True), "no-mask": dict(attention_mask=False), "eager-no-mask": dict(attention="eager", attention_mask=False),
         "eager-nc": dict(attention="eager", use_cache=False),
         "fp32-nc": dict(precision="fp32", use_cache=False, gradient_accumulation_steps=2),
         "fa2-accum": dict(attention="flash_attention_2", gradient_accumulation_steps=2)}
BASE = dict(methods="single", seq_len=256, micro_batch_size=2, optimizer="adamw_torch", loss="hf", tuning="full", precision="bf16", attention="sdpa",
            gradient_checkpointing=False, padded=False, checkpoint_reentrant=False, gradient_accumulation_steps=1, max_grad_norm=1.0)
NO_FLASH, NO_LORA = ["eager", "mixed-ckpt-pad", "lora"], ["eager", "mixed-ckpt-pad", "fa2-accum"]
ALL = NO_FLASH + ["fa2-accum"]
ROWS = {  # type: (releases, steps)
    "falcon": (("5.2", "5.10", "5.14", "5.15", "5.17"), ALL),
    "qwen2_moe": (("4.54", "4.55", "4.57"), ALL),
    "vaultgemma": (("5.0", "5.1"), ALL),
    "deepseek_v3": (("4.51", "5.0", "5.4", "5.10"), NO_LORA),
    "olmo2": (("4.47",), ALL),
    "nemotron_h+relu2": (("5.3",), ["eager", "pad", "fa2-accum"]),
    "gemma4+gelu_pytorch_tanh": (("5.5", "5.9"), ALL),
    "gemma4_text+gelu_pytorch_tanh": (("5.22",), ["mixed-ckpt-pad"]),
    "glm4_moe_lite": (("5.0", "5.4", "5.10"), NO_LORA),
    "youtu": (("5.2", "5.4", "5.10"), NO_LORA),
    "minimax_m2": (("5.0", "5.10", "5.17"), NO_LORA),
    "llama4_text": (("4.53", "4.54", "4.56", "4.57", "5.0", "5.4", "5.9"), ["eager", "mixed-ckpt-pad"]),
    "llama4": (("4.53", "4.57", "5.2", "5.10", "5.17", "5.20"), ["eager", "mixed-ckpt-pad"]),
    "qwen3_moe": (("4.51",), ALL),
    "deepseek_v2": (("5.13", "5.17", "5.20"), ALL),
    "phimoe": (("5.5", "5.9"), ["eager", "mixed-ckpt-pad", "fa2-accum"]),
    "jais2": (("5.0", "5.10", "5.20"), ALL),
    "gemma4": (("5.20",), ["lora-table"]),
    "gpt_oss": (("4.55", "4.56"), NO_FLASH),
    "ernie4_5_moe": (("4.54", "4.57", "5.0", "5.2", "5.9"), ALL),
    **{kind: (("5.17",), ["eager", "mixed-ckpt-pad"]) for kind in ("llama+quick_gelu", "gpt_neox+quick_gelu", "llama+gelu_10", "llama+hardswish", "llama+mish")},
    "qwen2_vl": (("4.47", "4.49", "4.51", "4.52", "4.53", "4.56", "4.57", "5.0", "5.1"), ALL),
    "qwen2_5_vl": (("4.49", "4.51", "4.52", "4.53", "4.55", "4.57", "5.0", "5.1"), ALL),
    "qwen3_vl": (("4.57", "5.0", "5.1"), ALL),
    "qwen3_vl_moe": (("5.0",), ALL),
    "mistral3": (("5.0", "5.16"), ALL),
    "olmo3": (("4.57",), ALL),
    **{kind: (("4.53", "4.57", "5.0", "5.12"), ALL) for kind in ("granitemoe", "granitemoeshared", "granitemoehybrid")},
    "hunyuan_v1_moe": (("5.0", "5.12"), ALL),
    "nanochat": (("5.0", "5.6", "5.14"), ALL),
    "fuyu": (("5.4", "5.6"), ALL),
    "olmoe": (("4.48",), ALL),
    "openai-gpt": (("4.50", "5.0", "5.1"), ["eager", "lora"]),
    "bamba": (("4.52",), ALL),
    "mamba2": (("4.52",), ["eager", "mixed-ckpt-pad"]),
    "cohere2": (("4.48", "4.50", "4.52"), ALL),
    "gemma3_text": (("4.50", "4.51", "4.52"), ALL),
    "qwen3_next": (("4.57", "5.4", "5.13"), ["mixed-ckpt-pad", "eager", "eager-nc", "fp32-nc"]),
    "qwen3_5": (("5.2", "5.4", "5.6", "5.10", "5.16", "5.20"), ["eager", "mixed-ckpt-pad", "lora"]),
    "qwen3_5_moe": (("5.2", "5.4", "5.6", "5.13", "5.16"), ["eager", "mixed-ckpt-pad"]),
    "gemma3": (("4.50", "4.52", "4.53", "4.57", "5.6", "5.10", "5.16"), NO_FLASH + ["fa2-accum"]),
    "lfm2": (("4.54", "4.57", "5.0", "5.10"), ["mixed-ckpt-pad", "eager", "eager-nc", "fp32-nc"]),
    "nemotron_h": (("5.6", "5.10", "5.14", "5.17"), NO_LORA),
}
CHANGED = {kind: {"hidden_act": kind.split("+")[1]} for kind in ROWS if "+" in kind}  # what stands behind a type's name
GLOBAL = {"num_global_key_value_heads": 1}  # 5.10 and before want a number where attention_k_eq_v says that full layers have keys alone
CHANGED.update({"nemotron_h+relu2": {"hybrid_override_pattern": "MM*ME"}, "gemma4_text+gelu_pytorch_tanh": GLOBAL,
                "gemma4+gelu_pytorch_tanh": {"text_config": {"model_type": "gemma4_text", "vocab_size": 1000, "hidden_size": 256, "intermediate_size": 704,
                    "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 32, "global_head_dim": 64,
                    "hidden_size_per_layer_input": 16, "vocab_size_per_layer_input": 1000, "attention_k_eq_v": True, **GLOBAL}}})
FIGURES = ("peak_allocated_bytes", "peak_reserved_bytes", "static_bytes", "resting_bytes", "peak_phase", "phase_peaks_bytes")


def trace(config, training):
    import ask
    import torch
    from one_gpu import report, step

    torch.cuda._is_in_bad_fork, torch.cuda._initialized = (lambda: False), True  # no driver is there to mind
    version = tuple(int(n) for n in importlib.metadata.version("transformers").split(".")[:2])
    if (5, 0) <= version < (5, 2):  # a model that is made on the meta device is tied when its weights are loaded
        on_meta = step.model_on_meta

        def tied(*of):
            model, attention = on_meta(*of)
            model.tie_weights()
            return model, attention

        step.model_on_meta = tied
    if (5, 0) <= version < (5, 19):  # Trainer._get_num_items_in_batch
        step.Run.count_items = lambda run, batches: sum(
            (b["labels"][..., 1:] if version >= (5, 10) else b["labels"]).ne(-100).sum() for b in batches) if run.takes_count else None
    # the loss takes the places that are no padding, whose number lies in the GPU's memory
    if version < {"gemma3": (5, 17), "llama4": (5, 17), "gemma4": (5, 6)}.get(config["model_type"], (0,)):
        getitem = torch.Tensor.__getitem__

        def chosen(t, mask):
            if not (isinstance(mask, torch.Tensor) and mask.is_cuda and mask.dtype == torch.bool and mask.shape[-1] == training["seq_len"] - 1):
                return getitem(t, mask)
            rows = mask.shape[0] * (mask.shape[1] - (1 if training["padded"] else 0))
            return Rows.apply(t, mask, rows)

        class Rows(torch.autograd.Function):  # index_select of what nonzero() finds, as IndexBackward0: it saves the mask
            @staticmethod
            def forward(ctx, t, mask, rows):
                ctx.save_for_backward(mask)
                ctx.rows, ctx.like = rows, t.shape
                return getitem(t, torch.empty((rows, mask.dim()), dtype=torch.int64, device=mask.device).unbind(1))

            @staticmethod
            def backward(ctx, grad):
                places = torch.empty((ctx.rows, ctx.saved_tensors[0].dim()), dtype=torch.int64, device=grad.device).unbind(1)
                return torch.ops.aten._index_put_impl_(grad.new_zeros(ctx.like), places, grad, True, True), None, None

        torch.Tensor.__getitem__ = chosen
        contains = torch.Tensor.__contains__
        torch.Tensor.__contains__ = lambda t, value: contains(t, value) and not t.is_cuda  # no label is the padding's: -100 stands there
    if "text_config" in config or "vision_config" in config:  # with its towers, as composite.py has it
        import transformers
        whole = transformers.AutoModelForImageTextToText._model_mapping
        kind, plain = transformers.CONFIG_MAPPING[config["model_type"]], transformers.AutoModelForCausalLM._model_mapping
        if kind in whole and (kind not in plain or plain[kind] is not whole[kind]):  # else left alone: its class may ask for that of text
            transformers.AutoModelForCausalLM._model_mapping = whole
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "config.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(config, f)
        return report.trace(path, ask.for_one({"training": training, "config": config}, json.loads(json.dumps(training)), []))


def forked(config, training):
    handle, name = tempfile.mkstemp()
    os.close(handle)
    child = os.fork()
    if child == 0:
        try:
            told = {"result": trace(config, training)}
        except BaseException as e:  # a release may refuse
            told = {"error": "%s: %s" % (type(e).__name__, str(e)[:300])}
        with open(name, "w", encoding="utf-8") as f:
            json.dump(told, f, default=str)
        os._exit(0)
    os.waitpid(child, 0)
    with open(name, encoding="utf-8") as f:
        text = f.read()
    os.unlink(name)
    return json.loads(text) if text else {"error": "died"}


def beside(program, kind, name, request, told):
    """What differs, a line a step; what the tracer and the program each refuse."""
    done = subprocess.run([program, "estimate", "--offline", "--json"], input=json.dumps(request), capture_output=True, text=True)
    answer = json.loads(done.stdout or "{}")
    first = (answer.get("candidates") or [{}])[0]
    ours, theirs = first.get("memory"), told.get("result")
    refused = "" if ours else (first.get("reason") or answer).get("detail") or done.stderr[-200:]
    if not ours or not theirs:
        print("%s %s: %s; traced: %s" % (kind, name, refused or ours["peak_allocated_bytes"], theirs["peak_allocated_bytes"] if theirs else told["error"]), flush=True)
        return
    off = {k: ours[k] - v[-1] if isinstance(v, list) else ours[k] - v for k, v in theirs.items() if k in FIGURES and isinstance(ours.get(k), int)}
    off.update((k, ours["phase_peaks_bytes"][k] - v) for k, v in theirs["phase_peaks_bytes"].items())
    off = {k: v for k, v in off.items() if v}
    print("%s %s: %s" % (kind, name, "equal" if not off else "%+.4f %% %s" % (100 * off.get("peak_allocated_bytes", 0) / theirs["peak_allocated_bytes"], off)), flush=True)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("oracle"), a.add_argument("release"), a.add_argument("types", nargs="*"), a.add_argument("--beside")
    a.add_argument("--steps", help="of STEPS, joined by commas"), a.add_argument("--over", type=json.loads, default={}, help="JSON: what is put over the config")
    a = a.parse_args()
    oracle, release, wanted = a.oracle, a.release, a.types
    sys.path.insert(0, oracle)
    os.environ.update(NULLCUDA_CC="80", NULLCUDA_SMS="108", NULLCUDA_TPM="2048", NULLCUDA_BPM="32", PYTHONHASHSEED="0")
    import environment

    environment.ensure()
    from one_gpu import emulate

    emulate.install_flash_attn()
    import accelerate  # noqa: F401
    import bitsandbytes  # noqa: F401
    import peft  # noqa: F401
    import torch
    import transformers.modeling_utils  # noqa: F401
    from one_gpu import report, step  # noqa: F401
    from transformers import AutoModelForCausalLM, Trainer  # noqa: F401

    torch.cuda.init()
    stack = {n: ".".join(importlib.metadata.version(n).split("+")[0].split(".")[:2]) for n in ("torch", "transformers", "peft")}
    assert stack["transformers"] == release, stack
    configs = {}
    for line in open(os.path.join(HERE, "..", "families.jsonl"), encoding="utf-8"):
        row = json.loads(line)
        if "config" in row and not row.get("stage"):
            configs.setdefault(row["config"]["model_type"], row["config"])
    target, rows = os.path.join(HERE, "releases.jsonl"), {}
    if os.path.exists(target):
        rows = {json.loads(line)["id"]: line for line in open(target, encoding="utf-8")}
    asked = {kind: a.steps.split(",") if a.steps else STEPS for kind in wanted} if a.beside else {
        kind: steps for kind, (releases, steps) in ROWS.items() if release in releases and (not wanted or kind in wanted)}
    for kind, steps in asked.items():
        for name in steps:
            config, training = {**configs[kind.split("+")[0]], **CHANGED.get(kind, {}), **a.over}, {**BASE, **STEPS[name]}
            told = forked(config, training)
            if a.beside:
                beside(a.beside, kind, name, {"cluster": {"gpu": "A100-80GB"}, "training": training, "stack": stack, "config": config}, told)
                continue
            if "error" in told:
                print(kind, name, told["error"], file=sys.stderr, flush=True)
                continue
            request = {"cluster": {"gpu": "A100-80GB"}, "training": training, "stack": stack, "config": config}
            row = {"id": "releases/%s/%s/%s" % (kind, release, name), "group": "one GPU, earlier releases",
                   "body": json.dumps(request, separators=(",", ":")), **{k: told["result"][k] for k in FIGURES if k in told["result"]}}
            rows[row["id"]] = json.dumps(row, separators=(",", ":")) + "\n"
            print(kind, name, row["peak_allocated_bytes"], flush=True)
    with open(target, "w", encoding="utf-8") as out:
        out.writelines(rows[k] for k in sorted(rows))


if __name__ == "__main__":
    main()
