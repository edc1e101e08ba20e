#!/usr/bin/env python3
"""Makes options.jsonl of this folder: steps with what a loop or a loader switches on, each by the text of its own package.

    make_options.py ORACLE CONFIGS TORCHTITAN [NAME..] > options.jsonl

run with the oracle's Python (torch 2.15, transformers 5.23, peft 0.21); TORCHTITAN is the folder with the wheel of 0.2.0 unpacked.

every_2nd_layer  transformers' activation_checkpointing_enable(every_n_layers=2)
selective_op     its checkpoints with torch's create_selective_checkpoint_contexts and torchtitan's list of operators and every second mm
in_backward      torchtune's OptimizerInBackward: an optimizer for each parameter, stepped by a hook of its gradient, which it lets go of
"""
import json
import os
import sys
import types
from collections import defaultdict

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import make_kernels  # noqa: E402

T, Q2, Q3, G2 = make_kernels.T, make_kernels.Q2, make_kernels.Q3, make_kernels.G2
SECOND = dict(word="every_2nd_layer", precision="bf16", gradient_checkpointing=True)
SELECTIVE = dict(word="selective_op", precision="bf16", gradient_checkpointing=True)
LORA = dict(precision="bf16-mixed", weights_dtype="bf16", **make_kernels.ADAPTERS)
BACKWARD = dict(precision="bf16", in_backward=True)
SHORT = dict(model_config={"num_hidden_layers": 5})
CASES = {
    "second": (T, SECOND), "second-odd": (T, dict(SECOND, **SHORT)), "second-lora": (Q3, {**SECOND, **LORA}), "second-mixed": (Q2, dict(SECOND, precision="bf16-mixed")),
    "second-gemma2": (G2, dict(SECOND, attention="eager", model_config={"num_hidden_layers": 6})), "second-gpt2": ("openai-community__gpt2", SECOND),
    "selective": (T, SELECTIVE), "selective-bias": (Q2, dict(SELECTIVE, micro_batch_size=4, seq_len=1024)), "selective-lora": (Q3, {**SELECTIVE, **LORA}),
    "selective-mixed": (T, dict(SELECTIVE, precision="bf16-mixed", **SHORT)), "selective-gpt2": ("openai-community__gpt2", SELECTIVE),
    "selective-efficient": (T, dict(SELECTIVE, precision="fp32", **SHORT)), "selective-eager": (Q2, dict(SELECTIVE, attention="eager", seq_len=256)),
    "backward": (T, BACKWARD), "backward-ckpt": (Q2, dict(BACKWARD, gradient_checkpointing=True)), "backward-loop": (T, dict(BACKWARD, optimizer="adamw_torch")),
    "backward-8bit": (Q3, dict(BACKWARD, optimizer="adamw_bnb_8bit")), "backward-sgd": (T, dict(BACKWARD, optimizer="sgd", precision="bf16-mixed")),
    "backward-adafactor": (T, dict(BACKWARD, optimizer="adafactor", gradient_checkpointing=True)),
}


def selective(folder):
    import torch
    from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts
    path = os.path.join(folder, "torchtitan", "distributed", "activation_checkpoint.py")
    with open(path, encoding="utf-8") as f:
        text = f.read()
    assert "meta[mm_count_key] % 2 == 0" in text, "every second mm"
    save = {torch.ops.aten.mm.default, torch.ops.aten._scaled_dot_product_efficient_attention.default, torch.ops.aten._scaled_dot_product_flash_attention.default,
            torch.ops.aten._scaled_dot_product_cudnn_attention.default, torch.ops.aten.max.default}

    def contexts():
        counted = defaultdict(int)

        def policy(ctx, func, *args, **kwargs):
            key = "recompute" if ctx.is_recompute else "forward"
            if func == torch.ops.aten.mm.default:
                counted[key] += 1
            kept = func in save and not (func == torch.ops.aten.mm.default and counted[key] % 2 == 0)
            return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE
        return create_selective_checkpoint_contexts(policy)
    return contexts


def switch(step, folder):
    build, make_optimizer = step.build, step.make_optimizer
    step.DEFAULTS.update(word=None, in_backward=False)

    def built(config, o):
        model, attention = build(config, o)
        inner = model.get_base_model() if hasattr(model, "get_base_model") else model
        enable = getattr(inner, "activation_checkpointing_enable", inner.gradient_checkpointing_enable)  # its name before 5.18
        if o["word"] == "every_2nd_layer":
            enable(every_n_layers=2)
        if o["word"] == "selective_op":
            enable({"use_reentrant": False, "context_fn": selective(folder)})
        return model, attention

    def optimizer(model, o):
        if not o["in_backward"]:
            return make_optimizer(model, o)
        each = {}
        for group in step.parameter_groups(model, True):
            for p in group["params"]:
                one = types.SimpleNamespace(parameters=lambda p=p: [p], modules=model.modules)
                each[p] = make_optimizer(one, {**o, "param_groups": False, "in_backward": False})

        def hook(p):
            each[p].step()
            each[p].zero_grad()
        for p in each:
            p.register_post_accumulate_grad_hook(hook)
        return types.SimpleNamespace(step=lambda: None, zero_grad=lambda *a, **k: None, param_groups=[], state={}, each=each)
    step.build, step.make_optimizer = built, optimizer


def main():
    make_kernels.environment.ensure()
    from one_gpu import emulate
    emulate.install_flash_attn()
    from one_gpu import report, step
    switch(step, sys.argv[3])
    for name, (config, options) in CASES.items():
        if len(sys.argv) > 4 and name not in sys.argv[4:]:
            continue
        o = {"seq_len": 512, "micro_batch_size": 2, "attention": "sdpa", "optimizer": "adamw_torch_fused", **options}
        if o.get("in_backward"):
            o["max_grad_norm"] = 0
        path = make_kernels.config_file(config)
        pid = os.fork()
        if pid:
            os.waitpid(pid, 0)
            continue
        import torch
        torch.cuda._is_in_bad_fork = lambda: False
        result = report.trace(path, o)
        with open(path, encoding="utf-8") as f:
            own = {k: v for k, v in json.load(f).items() if not k.startswith("_")}
        body = make_kernels.request_of(own, {**o, "liger": []}, {"torch": "2.15", "transformers": "5.23", "peft": "0.21"})
        del body["training"]["liger_kernels"]
        if "word" in o:
            body["training"]["gradient_checkpointing"] = o["word"]
        if o.get("in_backward"):
            body["training"].update(optimizer_in_backward=True, max_grad_norm=0)
        row = {"id": "options/" + name, "group": "one GPU, losses and optimizers", "body": json.dumps(body, separators=(",", ":"))}
        row.update((k, result[k]) for k in make_kernels.FIGURES if k in result)
        print(json.dumps(row, separators=(",", ":")), flush=True)
        os._exit(0)


if __name__ == "__main__":
    main()
