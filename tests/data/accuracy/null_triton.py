"""Inductor without a GPU: what it writes around its kernels runs as it is, on the oracle's allocator; the kernels' launches do nothing.

for the oracle's Python, whose nullcuda/libcuda.so.1 is a link to libnullcuda.so
"""
import os

os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"


class Driver:
    """Triton's: what Inductor asks the GPU for, an A100."""

    def get_device_properties(self, device):
        return {"max_shared_mem": 166912, "max_num_regs": 65536, "multiprocessor_count": 108, "warpSize": 32, "sm_clock_rate": 1410000, "mem_clock_rate": 1215000,
                "mem_bus_width": 5120}

    def __getattr__(self, name):
        return lambda *args, **kwargs: 0


def without_kernels():
    import torch._inductor.runtime.triton_heuristics as heuristics
    import triton.backends.nvidia.driver as driver
    driver.CudaUtils = Driver
    tuner = heuristics.CachingAutotuner
    tuner.run = tuner.precompile = lambda self, *args, **kwargs: None
