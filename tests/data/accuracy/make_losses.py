#!/usr/bin/env python3
"""Makes the rows `loss/` of losses.jsonl: a step whose forward has another loss, put there as its library does, whose own host code runs.

    make_losses.py ORACLE CONFIGS CUT_CROSS_ENTROPY TRL

run with the oracle's Python (torch 2.15, transformers 5.23, peft 0.21); CUT_CROSS_ENTROPY and TRL are folders with the wheels of 25.1.1 and 1.16.0 unpacked. The
rows `loss/cce-wide` are of axolotl's fork of it (github.com/axolotl-ai-cloud/ml-cross-entropy at 5f0c7a7), whose apply_lce casts; it makes the other rows alike.
A launch of Triton does nothing, nothing is compiled, and every token counts: trl's x[mask] and masked_scatter() find all of them (make_stages.py).
The rows `adafactor/` are those of the traces that other rows of this folder come from (make_cases.py).
"""
import ast
import json
import os
import sys
import types

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import make_kernels  # noqa: E402
import make_stages  # noqa: E402

CASES = [("", make_kernels.T, {}), ("-tied-ckpt", make_kernels.Q2, dict(gradient_checkpointing=True, micro_batch_size=4, seq_len=1024)),
         ("-autocast-lora", make_kernels.Q3, dict(precision="bf16-mixed", weights_dtype="bf16", gradient_checkpointing=True, **make_kernels.ADAPTERS))]
QLORA = dict(make_kernels.ADAPTERS, tuning="qlora")
WIDE = [("-wide", make_kernels.Q3, dict(precision="bf16-mixed", weights_dtype="bf16", gradient_checkpointing=True, quantization="nf4", prepare_kbit=True, trl_cast=True, **QLORA))]
NLL = [("-softcap", "google__gemma-2-2b-it", dict(tuning="lora", gradient_checkpointing=True, seq_len=333, precision="bf16-mixed", lora=dict(rank=8, dtype="fp32"))),
       ("-head-bias", "Salesforce__codegen-350M-mono", dict(tuning="lora", seq_len=500, gradient_checkpointing=True, lora=dict(rank=8, dtype="fp32"))),
       ("-moe", "Qwen__Qwen3-30B-A3B", dict(seq_len=257, precision="bf16-mixed", gradient_checkpointing=True, model_config=dict(num_hidden_layers=3))),
       ("-moe-lora", "mistralai__Mixtral-8x7B-v0.1", dict(model_config=dict(num_hidden_layers=2), tuning="lora", lora=dict(rank=8, dtype="fp32", target_modules=["q_proj", "v_proj"]))),
       ("-accumulated", make_kernels.Q3, dict(gradient_accumulation_steps=2, precision="bf16-mixed", gradient_checkpointing=True))]
WORDS = {"cce": "cut_cross_entropy", "chunked": "chunked", "nll": "chunked_nll"}


phases = [lambda name: None]  # the tracer's, from its run's beginning on


def mark_phases(step):
    init = step.Run.__init__

    def begin(run, path, o, phase):
        phases.append(phase)
        init(run, path, o, phase)

    step.Run.__init__ = begin


def cut(folder):
    sys.path.insert(0, folder)
    import torch
    torch.compile = lambda function=None, **how: function if function else (lambda f: f)
    from cut_cross_entropy import cce
    try:
        from cut_cross_entropy.transformers.utils import PatchOptions, apply_lce
    except ImportError:
        apply_lce = None

    def loss_of(self, hidden, labels, items):
        if apply_lce:
            o = PatchOptions(impl="cce", reduction="mean", filter_eps="auto", accum_e_fp32=False, accum_c_fp32=False, filter_e_grad=True, filter_c_grad=True, train_only=False)
            return apply_lce(hidden, self.get_output_embeddings().weight, labels, o, **({} if items is None else {"num_items_in_batch": items}))
        loss = cce.cce_linear_cross_entropy(hidden, self.get_output_embeddings().weight, labels, shift=True, reduction="mean" if items is None else "sum")
        return loss if items is None else loss / items
    return loss_of


def chunked(self, hidden, labels, items):
    import torch.nn.functional as F
    target = F.pad(labels, (0, 1), value=-100)[..., 1:].contiguous()
    logits = [self.get_output_embeddings()(part) for part in hidden.chunk(8, dim=1)]
    targets = [t.reshape(-1) for t in target.chunk(8, dim=1)]
    total, valid = 0.0, (target != -100).sum()
    for part, t in zip(logits, targets):
        total = total + F.cross_entropy(part.reshape(-1, part.size(-1)).float(), t, ignore_index=-100, reduction="sum")
    return total / valid


def fused_head(folder):
    """trl.trainer.utils without what else it imports: add_fused_lm_head and what that calls."""
    import torch
    for name in ("trl", "trl.kernels", "trl.trainer"):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [os.path.join(folder, *name.split("."))]
    with open(os.path.join(folder, "trl", "trainer", "utils.py"), encoding="utf-8") as f:
        text = f.read()
    keep = [n for n in ast.parse(text).body if getattr(n, "name", "") in ("add_fused_lm_head", "FusedCausalLMOutput", "maybe_gather_lm_head_ctx")]
    module = sys.modules["trl.trainer.utils"] = types.ModuleType("trl.trainer.utils")
    exec("import functools, types, torch, transformers\nfrom contextlib import nullcontext\nfrom dataclasses import dataclass\n"
         "from packaging.version import Version\nfrom torch.distributed.tensor import DTensor\nfrom transformers import PreTrainedModel\n"
         "from transformers.utils import ModelOutput\n"
         "from trl.kernels.chunked_logprob import _use_triton, ChunkedLogProbFunction as _ChunkedLogProbFunction\n"
         "_CHUNKED_LOGPROB_CHUNK_SIZE = 32768\n", module.__dict__)
    make_stages.patch_masks(torch)
    exec(compile(ast.Module(keep, []), "utils.py", "exec"), module.__dict__)
    real = module._ChunkedLogProbFunction
    module._ChunkedLogProbFunction = types.SimpleNamespace(apply=lambda *a: (phases[-1]("loss"), real.apply(*a))[1])
    return module.add_fused_lm_head


def put(model, word, packages):
    from transformers.modeling_outputs import CausalLMOutputWithPast
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    if word == "chunked_nll":
        import torch
        fused_head(packages[1])(base, outputs=("log_probs", "entropy", "is_top1"))
        inner, text = base.forward, base.config.get_text_config()
        coef = getattr(text, "router_aux_loss_coef", 0.0)  # SFTTrainer.__init__, where nobody says router_aux_loss_coef
        balances = hasattr(text, "output_router_logits") and coef != 0.0
        if hasattr(text, "router_aux_loss_coef"):
            text.output_router_logits = balances

        def forward(self, labels=None, num_items_in_batch=None, **batch):
            if balances:
                batch["output_router_logits"] = True
            outputs = inner(labels=labels, fused_lm_head=True, **batch)
            per_token_loss = -outputs.log_probs
            tokens = outputs.label_mask.sum() if num_items_in_batch is None else num_items_in_batch
            loss = per_token_loss.sum() / torch.as_tensor(tokens).clamp(min=1)
            if balances:
                loss = loss + coef * outputs.aux_loss / 1
            return CausalLMOutputWithPast(loss=loss)
    else:
        loss_of = cut(packages[0]) if word == "cut_cross_entropy" else chunked

        def forward(self, labels=None, num_items_in_batch=None, **batch):
            hidden = self.base_model(**batch)[0]
            return CausalLMOutputWithPast(loss=loss_of(self, hidden, labels, num_items_in_batch))
    base.forward = types.MethodType(forward, base)


def main():
    make_kernels.environment.ensure()
    make_kernels.without_kernels()
    from one_gpu import emulate
    emulate.install_flash_attn()
    from one_gpu import report, step
    mark_phases(step)
    build = step.build
    step.DEFAULTS["own_loss"] = None

    def patched(config, o):
        model, attention = build(config, o)
        put(model, o["own_loss"], sys.argv[3:5])
        return model, attention

    step.build = patched
    for short, word in WORDS.items():
        for name, config, options in CASES + (NLL if short == "nll" else WIDE if short == "cce" else []):
            o = {"seq_len": 512, "micro_batch_size": 2, "precision": "bf16", "optimizer": "adamw_torch_fused", "attention": "sdpa", **options}
            path = os.path.join(sys.argv[2], config + ".json")
            pid = os.fork()
            if pid:
                os.waitpid(pid, 0)
                continue
            import torch
            torch.cuda._is_in_bad_fork = lambda: False
            result = report.trace(path, {**o, "own_loss": word})
            with open(path, encoding="utf-8") as f:
                own = {k: v for k, v in json.load(f).items() if not k.startswith("_")}
            body = make_kernels.request_of(own, {**o, "liger": []}, {"torch": "2.15", "transformers": "5.23", "peft": "0.21"})
            del body["training"]["liger_kernels"]
            body["training"]["loss"] = word
            if "quantization" in o:
                body["training"].update(quantization=o["quantization"], prepare_kbit="trl" if o.get("trl_cast") else "none")
                body["stack"]["bitsandbytes"] = "0.50"
            row = {"id": "loss/" + short + name, "group": "one GPU, losses and optimizers", "body": json.dumps(body, separators=(",", ":"))}
            row.update((k, result[k]) for k in make_kernels.FIGURES if k in result)
            print(json.dumps(row, separators=(",", ":")), flush=True)
            os._exit(0)


if __name__ == "__main__":
    main()
