#!/usr/bin/env python3
"""Makes the rows `offload/` of losses.jsonl: steps within TRL's OffloadActivations, whose own text runs.

    make_offload.py ORACLE CONFIGS TRL

run with the oracle's Python (torch 2.15, transformers 5.23, peft 0.21); TRL is the folder with the wheel of 1.16.0 unpacked.
"""
import importlib.util
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import make_kernels  # noqa: E402

P = "EleutherAI__pythia-160m"
BF16 = dict(precision="bf16", gradient_checkpointing=True)
LORA = dict(precision="bf16-mixed", weights_dtype="bf16", **make_kernels.ADAPTERS)
CASES = {
    "plain": (make_kernels.T, dict(precision="bf16")), "ckpt": (make_kernels.T, BF16), "tied-ckpt": (make_kernels.Q2, dict(BF16, micro_batch_size=4, seq_len=1024)),
    "lora": (make_kernels.Q3, LORA), "lora-ckpt": (make_kernels.Q3, dict(LORA, gradient_checkpointing=True)),
    "neox": (P, dict(precision="bf16-mixed", weights_dtype="fp32")), "reentrant": (make_kernels.T, dict(BF16, use_reentrant=True)),
    "eager": (make_kernels.Q2, dict(precision="bf16", attention="eager", seq_len=256)), "accum": (make_kernels.Q2, dict(BF16, gradient_accumulation_steps=2)),
}


def contexts(folder):
    for name in ("trl", "trl.models"):
        sys.modules[name] = type(sys)(name)
        sys.modules[name].__path__ = []
    spec = importlib.util.spec_from_file_location("trl.models.activation_offloading", os.path.join(folder, "trl", "models", "activation_offloading.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.get_act_offloading_ctx_manager


def within(step, folder):
    training_step = step.Run.training_step

    def offloaded(self, batch, items):
        if not hasattr(self, "offloading"):
            self.offloading = contexts(folder)(model=self.model)
        with self.offloading:
            return training_step(self, batch, items)
    step.Run.training_step = offloaded


def main():
    make_kernels.environment.ensure()
    from one_gpu import emulate
    emulate.install_flash_attn()
    from one_gpu import report, step
    within(step, sys.argv[3])
    for name, (config, options) in CASES.items():
        if len(sys.argv) > 4 and name not in sys.argv[4:]:
            continue
        o = {"seq_len": 512, "micro_batch_size": 2, "attention": "sdpa", "optimizer": "adamw_torch_fused", **options}
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
        body["training"]["offload"] = "activations"
        if "use_reentrant" in o:
            body["training"]["checkpoint_reentrant"] = o["use_reentrant"]
        if o.get("weights_dtype") == "fp32":
            body["training"]["precision"] = o["precision"]
        row = {"id": "offload/" + name, "group": "one GPU, losses and optimizers", "body": json.dumps(body, separators=(",", ":"))}
        row.update((k, result[k]) for k in make_kernels.FIGURES if k in result)
        print(json.dumps(row, separators=(",", ":")), flush=True)
        os._exit(0)


if __name__ == "__main__":
    main()
