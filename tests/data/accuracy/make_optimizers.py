#!/usr/bin/env python3
"""Makes the rows `optim/` of losses.jsonl: a step under optimizers that the tracer itself does not know, each of its own package.

    make_optimizers.py ORACLE CONFIGS SCHEDULEFREE

run with the oracle's Python (torch 2.15, transformers 5.23, bitsandbytes 0.50); SCHEDULEFREE is the folder with the wheel of 1.4.1 unpacked.
Muon is torch.optim.Muon over the matrices of the layers and torch.optim.AdamW over the rest, stepped one after the other.
"""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import make_kernels  # noqa: E402

P = "EleutherAI__pythia-160m"
MIXED = dict(precision="bf16-mixed", weights_dtype="fp32")
ADAPTERS = dict(precision="bf16-mixed", weights_dtype="bf16", gradient_checkpointing=True, **make_kernels.ADAPTERS)
CASES = {
    "adagrad": (make_kernels.Q2, {}), "adagrad-mixed": (P, MIXED), "rmsprop": (make_kernels.Q2, {}), "rmsprop-mixed": (P, MIXED),
    "schedule_free_adamw": (make_kernels.Q2, {}), "schedule_free_adamw-mixed": (P, MIXED), "schedule_free_sgd": (P, {}),
    "muon": (make_kernels.Q2, {}), "muon-mixed": (P, MIXED), "muon-lora": (make_kernels.Q3, ADAPTERS),
    "ademamix": (P, {}), "ademamix-mixed": (P, MIXED), "ademamix_8bit": (make_kernels.Q2, {}), "paged_ademamix_8bit": (make_kernels.Q2, {}),
    "paged_ademamix_32bit": (make_kernels.Q2, dict(model_config={"hidden_size": 512, "intermediate_size": 1536, "num_attention_heads": 8, "num_hidden_layers": 4})),
    "rmsprop_bnb-mixed": (P, MIXED), "rmsprop_bnb_8bit-mixed": (P, MIXED),
}


class Both:
    """Two optimizers, one after the other."""

    def __init__(self, *inner):
        self.inner = inner
        self.param_groups = [g for o in inner for g in o.param_groups]

    @property
    def state(self):
        return {k: v for o in self.inner for k, v in o.state.items()}

    def step(self):
        for o in self.inner:
            o.step()

    def zero_grad(self, *args, **kwargs):
        for o in self.inner:
            o.zero_grad(*args, **kwargs)


def muon(model, adam):
    import torch
    apart = {id(m.weight) for m in model.modules() if isinstance(m, torch.nn.Embedding)} | {id(model.get_output_embeddings().weight)}
    named = [p for p in model.parameters() if p.requires_grad]
    matrices = [p for p in named if p.ndim == 2 and id(p) not in apart]
    rest = [p for p in named if p.ndim != 2 or id(p) in apart]
    first = torch.optim.Muon(matrices, lr=5e-5)
    return Both(first, torch.optim.AdamW(rest, **adam)) if rest else first


def make(step, folder):
    before = step.make_optimizer

    def make_optimizer(model, o):
        import torch
        name, adam = o["optimizer"], dict(lr=5e-5, betas=(0.9, 0.999), eps=1e-8)
        groups = step.parameter_groups(model, o["param_groups"])
        if name == "muon":
            return muon(model, adam)
        if name == "adagrad":
            return torch.optim.Adagrad(groups, lr=5e-5)
        if name == "rmsprop":
            return torch.optim.RMSprop(groups, lr=5e-5)
        if name.startswith("schedule_free"):
            sys.path.insert(0, folder)
            import schedulefree
            made = schedulefree.SGDScheduleFree(groups, lr=5e-5) if name.endswith("sgd") else \
                schedulefree.AdamWScheduleFree(groups, weight_decay=0.0, warmup_steps=0, **adam)
            made.train()
            return made
        if "ademamix" in name or "rmsprop_bnb" in name:
            import bitsandbytes as bnb
            step.make_optimizer = before
            if name.endswith("8bit"):  # as Trainer.create_optimizer does for every optimizer of 8 bits
                manager = bnb.optim.GlobalOptimManager.get_instance()
                for module in model.modules():
                    if isinstance(module, torch.nn.Embedding):
                        manager.register_module_override(module, "weight", {"optim_bits": 32})
            bits = 8 if name.endswith("8bit") else 32
            if "rmsprop" in name:
                return bnb.optim.RMSprop(groups, lr=5e-5, optim_bits=bits)
            return bnb.optim.AdEMAMix(groups, lr=5e-5, betas=(0.9, 0.999, 0.9999), optim_bits=bits, is_paged=name.startswith("paged"))
        return before(model, o)
    step.make_optimizer = make_optimizer


def main():
    make_kernels.environment.ensure()
    from one_gpu import emulate
    emulate.install_flash_attn()
    from one_gpu import report, step
    make(step, sys.argv[3])
    for name, (config, options) in CASES.items():
        o = {"seq_len": 256, "micro_batch_size": 1, "precision": "bf16", "attention": "sdpa", "optimizer": name.split("-")[0], **options}
        path = os.path.join(sys.argv[2], config + ".json")
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
        if o.get("weights_dtype") == "fp32":
            body["training"]["precision"] = o["precision"]
        row = {"id": "optim/" + name, "group": "one GPU, losses and optimizers", "body": json.dumps(body, separators=(",", ":"))}
        row.update((k, result[k]) for k in make_kernels.FIGURES if k in result)
        print(json.dumps(row, separators=(",", ":")), flush=True)
        os._exit(0)


if __name__ == "__main__":
    main()
