"""Which packages stand beside transformers: PyTorch on CUDA and flash-attn, no other."""
from json import _Refused

import _release
import torch

_there = ("is_torch_available", "is_torch_cuda_available", "is_flash_attn_2_available", "is_flash_attn_available", "is_torch_sdpa_available",
          "is_torch_fx_available", "is_safetensors_available", "is_numpy_available", "is_torch_bf16_gpu_available",
          "is_torch_bf16_available_on_device", "is_torch_flex_attn_available", "is_torch_tf32_available", "is_peft_available", "is_accelerate_available")


def _version(text):
    return tuple(int(part) for part in text.split("+")[0].split(".")[:2])


def is_torch_greater_or_equal(library_version, accept_dev=False):
    return _version(torch.__version__) >= _version(library_version)


def is_torch_less_or_equal(library_version, accept_dev=False):
    return _version(torch.__version__) <= _version(library_version)


def is_torch_greater_or_equal_than(library_version):
    return is_torch_greater_or_equal(library_version)


def is_flash_attn_greater_or_equal(library_version):
    return True


def is_flash_attn_greater_or_equal_2_10():
    return True


def get_torch_version():
    return torch.__version__


def _no(*args, **kwargs):
    return False


def _yes(*args, **kwargs):
    return True


is_torchdynamo_compiling = is_torchdynamo_exporting = is_tracing = is_torch_fx_proxy = is_jit_tracing = is_cuda_stream_capturing = _no


def resolve_internal_import(module, chained_path):
    return None if not module else _Refused("resolve_internal_import")  # kernels of the hub are not there


def torch_compilable_check(cond, msg=None, msg_callable=None):
    pass


def requires(*, backends=()):
    def decorated(thing):
        return thing

    return decorated


def requires_backends(obj, backends):
    pass


def get_device_type():
    return "cuda"


class OptionalDependencyNotAvailable(BaseException):
    pass


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    if name.startswith("is_"):
        return _yes if name in _there else _no
    return _Refused(__name__ + "." + name)
