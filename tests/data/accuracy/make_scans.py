#!/usr/bin/env python3
"""Makes scans.jsonl of this folder: steps of models whose layers scan or convolve, with causal-conv1d, mamba-ssm and flash-linear-attention installed.

    make_scans.py ORACLE CONFIGS PACKAGES STACK [TYPE/OPTIONS..] >> scans.jsonl

run with the oracle's Python; CONFIGS holds the config.json files, PACKAGES a folder with the three packages' Python unpacked (sdists of causal-conv1d and mamba-ssm, the wheels of
fla-core and flash-linear-attention). STACK one of STACKS: what runs. Their host code runs as it is; launches of Triton do nothing, and the functions of the
two CUDA extensions allocate what csrc/causal_conv1d.cpp and csrc/selective_scan/selective_scan.cpp allocate. mamba-ssm's autotuner is Triton's own, and its benchmark takes
the 256 MiB that triton/testing.py do_bench takes; fla keeps on disk what its autotuner found (cache_results), so that none runs. EVENTS=DIR writes births and deaths too.
"""
import importlib
import importlib.machinery
import inspect
import json
import os
import sys
import tempfile
import types

sys.path.insert(0, sys.argv[1])
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import environment  # noqa: E402
import make_hybrids  # noqa: E402
from make_moe import request_of, row_of  # noqa: E402

GROUP = "one GPU, state spaces, compiled kernels"
MAMBA = {"causal_conv1d": "1.7", "mamba_ssm": "2.3"}
DELTA = {"causal_conv1d": "1.7", "fla": "0.6"}
STACKS = {"current": {"torch": "2.15", "transformers": "5.23", "peft": "0.21"}, "5.17": {"torch": "2.11", "transformers": "5.17", "peft": "0.21"}}
FEW = make_hybrids.FEW
MORE = FEW + ("eager", "one-chunk", "sgd-accum")
CASES = {  # type: packages, options
    "mamba": (MAMBA, MORE + ("lora-pad", "long")), "mamba2": (MAMBA, MORE + ("long", "mixed")), "jamba": (MAMBA, ("full", "lora-amp", "eager")),
    "bamba": (MAMBA, FEW + ("eager", "long")), "bamba-groups": (MAMBA, FEW), "falcon_h1": (MAMBA, MORE + ("mixed", "lora-pad", "long")), "falcon_h1-norm": (MAMBA, FEW),
    "granitemoehybrid": (MAMBA, FEW + ("eager", "sgd-accum", "mixed")), "granitemoehybrid-dense": (MAMBA, FEW + ("fa2",)),
    "nemotron_h": (MAMBA, FEW + ("eager", "one-chunk")), "nemotron_h-moe": (MAMBA, FEW + ("sgd-accum",)),
    "qwen3_next": (DELTA, MORE + ("long", "lora-pad")), "qwen3_5_text": (DELTA, FEW + ("fa2", "one-chunk", "eager")), "qwen3_5_moe_text": (DELTA, FEW),
    "lfm2": (DELTA, FEW + ("eager", "sgd-accum")), "lfm2_moe": (DELTA, FEW),
    "qwen3_next-conv": ({"causal_conv1d": "1.7"}, FEW), "mamba2-conv": ({"causal_conv1d": "1.7"}, FEW), "mamba-conv": ({"causal_conv1d": "1.7"}, FEW),
    "qwen3_next-rule": ({"fla": "0.6"}, FEW),
    "falcon_h1-deep": (MAMBA, ("full", "mixed-ckpt-pad")), "mamba2-deep": (MAMBA, ("lora-pad", "full")), "mamba-deep": (MAMBA, ("full", "mixed-ckpt-pad")),
    "qwen3_5_text-deep": (DELTA, ("full", "mixed-ckpt-pad")),
}
BEHIND = {"conv": {}, "rule": {}, "deep": {"num_hidden_layers": 20, "layer_types": None}}  # what stands behind a type's name: the config is the type's, with this over it


class Launch:
    """A kernel that does nothing."""

    def __init__(self, function):
        self.fn, self.__name__ = function, function.__name__
        self.arg_names = list(inspect.signature(function).parameters)

    def run(self, *args, **kwargs):
        pass

    def __getitem__(self, grid):
        return self.run


class Driver:
    """Triton's, of an A100"""

    def get_current_target(self):
        from triton.backends.compiler import GPUTarget
        return GPUTarget("cuda", 80, 32)

    def __init__(self):
        self.utils = types.SimpleNamespace(get_device_properties=lambda index: {"max_shared_mem": 166912, "multiprocessor_count": 108})


def without_kernels():
    import torch
    import triton
    from triton.runtime.autotuner import Autotuner
    triton.runtime.driver.set_active(Driver())

    def bench(call, quantiles):
        call()
        cache = torch.empty(256 * 1024 * 1024 // 4, dtype=torch.int, device="cuda")
        call()
        del cache
        return [1.0, 1.0, 1.0]

    def autotune(configs, key, prune_configs_by=None, reset_to_zero=None, restore_value=None, cache_results=False, **how):
        assert not how, how
        return lambda fn: Autotuner(fn, fn.arg_names, configs, key, reset_to_zero, restore_value, prune_configs_by=prune_configs_by, do_bench=bench,
                                    cache_results=cache_results)

    def found_on_disk(self, key, configs, benchmark):
        self.cache[key] = configs[0]
        return True

    Autotuner.check_disk_cache = found_on_disk
    triton.jit = lambda function=None, **how: Launch(function) if function else Launch
    triton.autotune = autotune
    triton.heuristics = lambda *args, **kwargs: lambda function: function


def extension(name, **functions):
    module = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    vars(module).update(functions)
    sys.modules[name] = module


def causal_conv1d_fwd(x, weight, *rest):
    if x.stride(1) == 1 and x.stride(2) > 1 and (x.shape[1] % 8 or x.stride(0) % 8 or x.stride(2) % 8):
        raise RuntimeError("causal_conv1d with channel last layout requires strides to be multiples of 8")


def causal_conv1d_bwd(x, weight, bias, dout, *rest):
    channel_last = x.stride(1) == 1 and x.stride(2) > 1
    if not channel_last and dout.stride(2) != 1:
        dout = dout.contiguous()
    if channel_last and dout.stride(1) != 1:
        dout = dout.transpose(-1, -2).contiguous().transpose(-1, -2)


def selective_scan_fwd(u, delta, A, B, C, D, z, delta_bias, delta_softplus):
    import torch
    if not u.dtype == delta.dtype == B.dtype == C.dtype or z is not None and z.dtype != u.dtype:
        raise RuntimeError("Expected delta, B, C and z of the dtype of u")
    out_z = torch.empty_like(z) if z is not None else None
    out = torch.empty_like(delta)
    x = torch.empty(u.shape[0], u.shape[1], (u.shape[2] + 2047) // 2048, A.shape[1] * 2, dtype=A.dtype, device=u.device)
    return [out, x] + ([out_z] if z is not None else [])


def selective_scan_bwd(u, delta, A, B, C, D, z, delta_bias, dout, x, out, dz, delta_softplus, recompute_out_z):
    import torch
    out_z = None
    if z is not None:
        dz = torch.empty_like(z) if dz is None else dz
        out_z = torch.empty_like(out) if recompute_out_z else None
    du, ddelta, dA = torch.empty_like(u), torch.empty_like(delta), torch.zeros_like(A)
    dB, dC = torch.zeros_like(B, dtype=torch.float32), torch.zeros_like(C, dtype=torch.float32)
    dD = torch.zeros_like(D) if D is not None else None
    ddelta_bias = torch.zeros_like(delta_bias) if delta_bias is not None else None
    result = [du, ddelta, dA, dB.to(B.dtype), dC.to(C.dtype), dD, ddelta_bias]
    return result + ([dz] if z is not None else []) + ([out_z] if recompute_out_z else [])


def install(packages):
    """The three packages are imported by transformers where it finds them: others must not be found."""
    without_kernels()
    extension("causal_conv1d_cuda", causal_conv1d_fwd=causal_conv1d_fwd, causal_conv1d_bwd=causal_conv1d_bwd, causal_conv1d_update=lambda *args: None)
    extension("selective_scan_cuda", fwd=selective_scan_fwd, bwd=selective_scan_bwd)
    for name in ("mamba_ssm.modules.mamba3", "mamba_ssm.models.mixer_seq_simple"):  # tilelang and CuTe, and a model of its own: nothing of theirs runs
        extension(name, Mamba3=None, MambaLMHeadModel=None)
    for name in ("causal_conv1d", "mamba_ssm", "fla"):
        if name not in packages:
            sys.modules[name] = None
    sys.path.append(sys.argv[3])
    for name in packages:
        importlib.import_module(name)  # transformers takes one that raises for one that is not there


def trace(name):
    kind, which = name.split("/")
    packages, _ = CASES[kind]
    over = BEHIND.get(kind.rsplit("-", 1)[-1])
    config, options = make_hybrids.case(kind if over is None else kind.rsplit("-", 1)[0], which, sys.argv[2])
    config.update({k: v for k, v in (over or {}).items() if k in config})
    install(packages)
    from one_gpu import emulate
    emulate.install_flash_attn()
    from one_gpu import report
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(config, f)
        f.flush()
        result = report.trace(f.name, options, events=os.path.join(os.environ["EVENTS"], name.replace("/", "-") + ".csv") if "EVENTS" in os.environ else None)
    request = request_of(config, options, result.get("attention_used") or options.get("attention", "sdpa"))
    request["stack"] = {**STACKS[sys.argv[4]], **packages}
    row = {**row_of("scans/" + name + ("" if sys.argv[4] == "current" else "/" + sys.argv[4]), request, result), "group": GROUP}
    print(json.dumps(row, separators=(",", ":")), flush=True)


def main():
    environment.ensure()
    for name in sys.argv[5:] or ["%s/%s" % (kind, which) for kind, (_, names) in CASES.items() for which in names]:
        pid = os.fork()  # a process a case
        if pid:
            if os.waitpid(pid, 0)[1]:
                print(name, "failed", file=sys.stderr, flush=True)
            continue
        try:
            trace(name)
        except BaseException as error:
            import traceback
            traceback.print_exc()
            print(name, type(error).__name__, str(error)[:600], file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)


if __name__ == "__main__":
    main()
