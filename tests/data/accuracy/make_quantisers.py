#!/usr/bin/env python3
"""Makes quantisers.jsonl of this folder: adapters over weights that packages other than bitsandbytes quantise while they load.

    make_quantisers.py ORACLE CONFIGS PACKAGES [NAME..] > quantisers.jsonl

torchao*   with the oracle's Python of torch 2.15, transformers 5.23, peft 0.21; PACKAGES is a folder with torchao 0.18.0
awq-*      with that of torch 2.7, transformers 4.53, peft 0.16; PACKAGES is autoawq-0.2.9 unpacked, whose WQLinear_GEMM stands where transformers puts it; the two
           functions of its compiled kernels allocate what their host code does (AutoAWQ_kernels awq_ext/quantization/gemm_cuda_gen.cu). What loading leaves is not traced.
hqq-*      with the same Python as awq-*; PACKAGES is a folder with hqq 0.2.8 and termcolor
"""
import importlib.machinery
import importlib.util
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
CASES.update((name.replace("torchao", "torchao-nf4"), (c, {**o, "quantization": "torchao-nf4"})) for name, (c, o) in list(CASES.items()) if not name.endswith("-conv1d"))
CASES["torchao-some"][1]["lora"].update(target_modules=["q_proj", "v_proj"], dropout=0.05)


def awq(config, precision, **more):
    config, options = over(config, precision, **more)
    options["lora"]["target_modules"] = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]  # peft's all-linear finds nn.Linear alone
    return config, dict(options, quantization="awq4", weights_dtype="fp16", stack={"torch": "2.7", "transformers": "4.53", "peft": "0.16"})


CASES.update({
    "awq": awq(Q2, "fp16-mixed"), "awq-bf16-ckpt": awq(Q2, "bf16-mixed", gradient_checkpointing=True), "awq-few-rows": awq(T, "fp16", micro_batch_size=3, seq_len=300),
    "awq-bf16": awq(T, "bf16-mixed"), "awq-some": awq(Q2, "bf16-mixed", seq_len=200), "awq-peft": awq(T, "bf16-mixed", seq_len=300, micro_batch_size=1),
})
CASES["awq-some"][1]["lora"].update(target_modules=["q_proj", "v_proj"], dropout=0.05)
CASES["awq-peft"][1].update(prepare_kbit=True)


def hqq(config, precision, **more):
    config, options = over(config, precision, **more)
    options["lora"]["target_modules"] = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "out_proj", "fc1", "fc2"]
    return config, dict(options, quantization="hqq4", stack={"torch": "2.7", "transformers": "4.53", "peft": "0.16"})


CASES.update({
    "hqq": hqq(T, "bf16"), "hqq-autocast": hqq(T, "bf16-mixed"), "hqq-ckpt": hqq(Q2, "bf16-mixed", gradient_checkpointing=True), "hqq-some": hqq(Q3, "bf16-mixed"),
    "hqq-bias": hqq(OPT, "bf16", seq_len=384), "hqq-fp16": hqq(Q3, "fp16-mixed", micro_batch_size=1, seq_len=300), "hqq-peft": hqq(Q2, "bf16-mixed", micro_batch_size=1),
    "hqq-gemma2": hqq(G2, "bf16", attention="eager", gradient_checkpointing=True), "hqq8": hqq(T, "bf16-mixed", seq_len=300), "hqq-fp32": hqq(Q2, "fp32", seq_len=256),
})
CASES["hqq8"][1]["quantization"] = "hqq8"
CASES["hqq-some"][1]["lora"].update(target_modules=["q_proj", "v_proj"], dropout=0.05)
CASES["hqq-peft"][1].update(prepare_kbit=True)


def module(name, **members):
    made = sys.modules[name] = importlib.util.module_from_spec(importlib.machinery.ModuleSpec(name, None, is_package=True))
    made.__dict__.update(members)
    return made


def switch_to_awq(step, folder):
    import torch

    class Kernels:
        @staticmethod
        def dequantize_weights_cuda(qweight, scales, *a):
            return torch.empty(qweight.shape[0], qweight.shape[1] * 8, dtype=scales.dtype, device="cuda")

        @staticmethod
        def gemm_forward_cuda(x, qweight, scales, zeros, splits):
            return torch.empty(splits, x.shape[0], qweight.shape[1] * 8, dtype=x.dtype, device="cuda").sum(0)
    module("awq"), module("awq.modules"), module("awq.utils")
    module("awq.utils.module", try_import=lambda name: (Kernels, ""))
    module("awq.utils.utils", get_best_device=None)
    module("awq.utils.packing_utils", dequantize_gemm=None)
    spec = importlib.util.spec_from_file_location("awq.modules.linear.gemm", os.path.join(folder, "awq/modules/linear/gemm.py"))
    gemm = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(gemm)
    module("awq.modules.linear", WQLinear_GEMM=gemm.WQLinear_GEMM)

    def load(config, o):
        model, attention = step.model_on_meta(config, step.DTYPES[o["weights_dtype"]], o["attention"])
        for name, m in list(model.named_modules()):
            if isinstance(m, torch.nn.Linear) and m is not model.get_output_embeddings():
                packed = gemm.WQLinear_GEMM(4, 128, m.in_features, m.out_features, m.bias is not None, "meta")
                packed.requires_grad_(False)
                model.get_submodule(name.rpartition(".")[0])._modules[name.rpartition(".")[2]] = packed
        step.materialise(model)
        return model.eval(), attention
    step.load_quantised = load


def stop_at_second_turn():
    """The search for zeros stops where the error has not become less: values that are not computed say so at once, real ones after the second turn at the earliest."""
    import torch
    from hqq.core.quantize import Quantizer
    search, less = Quantizer.optimize_weights, torch.Tensor.__lt__

    def two_turns(*a, **k):
        answers = iter((True, False))
        torch.Tensor.__lt__ = lambda x, y: (less(x, y), next(answers))[1]
        try:
            return search(*a, **k)
        finally:
            torch.Tensor.__lt__ = less
    Quantizer.optimize_weights = two_turns


def switch_to_hqq(bits):
    import transformers
    from_pretrained = transformers.AutoModelForCausalLM.from_pretrained

    def load(*a, quantization_config=None, **k):
        return from_pretrained(*a, quantization_config=transformers.HqqConfig(nbits=bits, group_size=64), **k)
    transformers.AutoModelForCausalLM.from_pretrained = load
    stop_at_second_turn()


def switch(step, report, kind):
    import torch
    import transformers
    from torchao.prototype._nf4tensor_api import NF4WeightOnlyConfig
    from torchao.quantization import Int8WeightOnlyConfig
    from_pretrained = transformers.AutoModelForCausalLM.from_pretrained

    def load(*a, quantization_config=None, **k):
        return from_pretrained(*a, quantization_config=transformers.TorchAoConfig(NF4WeightOnlyConfig() if kind == "torchao-nf4" else Int8WeightOnlyConfig()), **k)
    transformers.AutoModelForCausalLM.from_pretrained = load
    put = report.Marks.put

    def put_parts(marks, tensor, category):  # a tensor of tensors has no storage of its own
        tensor = tensor.data if isinstance(tensor, torch.nn.Parameter) else tensor
        names = tensor.__tensor_flatten__()[0] if hasattr(tensor, "__tensor_flatten__") else ()
        for part in [getattr(tensor, n) for n in names] or (tensor,):
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
        stack = options.pop("stack", {"torch": "2.15", "transformers": "5.23", "peft": "0.21"})
        o.pop("stack", None)
        if o["quantization"] == "awq4":
            switch_to_awq(step, sys.argv[3])
        elif o["quantization"].startswith("hqq"):
            switch_to_hqq(int(o["quantization"][3:]))
        else:
            switch(step, report, o["quantization"])
        result = report.trace(path, o)
        with open(path, encoding="utf-8") as f:
            own = {k: v for k, v in json.load(f).items() if not k.startswith("_")}
        body = make_kernels.request_of(own, {**o, "liger": []}, stack)
        del body["training"]["liger_kernels"]
        body["training"].update(quantization=o["quantization"], prepare_kbit="peft" if o["prepare_kbit"] else "none")
        row = {"id": "quantisers/" + name, "group": "one GPU, quantised by other packages", "body": json.dumps(body, separators=(",", ":"))}
        row.update((k, result[k]) for k in make_kernels.FIGURES if k in result)
        print(json.dumps(row, separators=(",", ":")), flush=True)
        os._exit(0)


if __name__ == "__main__":
    main()
