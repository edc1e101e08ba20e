#!/usr/bin/env python3
"""Makes quantisers.jsonl of this folder: adapters over weights that packages other than bitsandbytes quantise while they load.

    make_quantisers.py ORACLE CONFIGS PACKAGES [NAME..] > quantisers.jsonl

run with the oracle's Python (torch 2.15, transformers 5.23, peft 0.21); PACKAGES is a folder with torchao 0.18.0.
"""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import make_kernels  # noqa: E402

T, Q2, Q3, G2 = make_kernels.T, make_kernels.Q2, make_kernels.Q3, make_kernels.G2
GPT2, OPT = "openai-community__gpt2", "facebook__opt-350m"


def over(config, precision, **more):
    return config, dict(precision=precision, weights_dtype="fp32" if precision == "fp32" else precision[:4], tuning="qlora", quantization="torchao-int8", prepare_kbit=False,
                        lora={"rank": 16, "alpha": 16, "dropout": 0.0, "target_modules": "all-linear", "dtype": "fp32"}, **more)


CASES = {
    "torchao": over(T, "bf16"), "torchao-autocast": over(T, "bf16-mixed"), "torchao-ckpt": over(Q2, "bf16-mixed", gradient_checkpointing=True),
    "torchao-some": over(Q3, "bf16-mixed"), "torchao-bias": over(OPT, "bf16", seq_len=384), "torchao-gemma2": over(G2, "bf16", attention="eager", gradient_checkpointing=True),
    "torchao-fp16": over(Q3, "fp16-mixed", micro_batch_size=1, seq_len=300), "torchao-conv1d": over(GPT2, "bf16-mixed"),
}
CASES["torchao-some"][1]["lora"].update(target_modules=["q_proj", "v_proj"], dropout=0.05)


def switch(step, report):
    import torch
    import transformers
    from torchao.quantization import Int8WeightOnlyConfig
    from_pretrained = transformers.AutoModelForCausalLM.from_pretrained

    def load(*a, quantization_config=None, **k):
        return from_pretrained(*a, quantization_config=transformers.TorchAoConfig(Int8WeightOnlyConfig()), **k)
    transformers.AutoModelForCausalLM.from_pretrained = load
    put = report.Marks.put

    def put_parts(marks, tensor, category):  # a tensor of tensors has no storage of its own
        tensor = tensor.data if isinstance(tensor, torch.nn.Parameter) else tensor
        for part in (tensor.qdata, tensor.scale, tensor.zero_point) if hasattr(tensor, "qdata") else (tensor,):
            put(marks, part, category)
    report.Marks.put = put_parts


def main():
    make_kernels.environment.ensure()
    sys.path.append(sys.argv[3])
    from one_gpu import emulate
    emulate.install_flash_attn()
    from one_gpu import report, step
    for name, (config, options) in CASES.items():
        if len(sys.argv) > 4 and name not in sys.argv[4:]:
            continue
        o = {"seq_len": 512, "micro_batch_size": 2, "attention": "sdpa", "optimizer": "adamw_torch_fused", "gradient_checkpointing": False, **options}
        path = make_kernels.config_file(config)
        pid = os.fork()
        if pid:
            os.waitpid(pid, 0)
            continue
        import torch
        torch.cuda._is_in_bad_fork = lambda: False
        switch(step, report)
        result = report.trace(path, o)
        with open(path, encoding="utf-8") as f:
            own = {k: v for k, v in json.load(f).items() if not k.startswith("_")}
        body = make_kernels.request_of(own, {**o, "liger": []}, {"torch": "2.15", "transformers": "5.23", "peft": "0.21"})
        del body["training"]["liger_kernels"]
        body["training"].update(quantization=o["quantization"], prepare_kbit="peft" if o["prepare_kbit"] else "none")
        row = {"id": "quantisers/" + name, "group": "one GPU, quantised by other packages", "body": json.dumps(body, separators=(",", ":"))}
        row.update((k, result[k]) for k in make_kernels.FIGURES if k in result)
        print(json.dumps(row, separators=(",", ":")), flush=True)
        os._exit(0)


if __name__ == "__main__":
    main()
