"""What switches nothing that allocates: the precision of products, the choice of convolutions."""
from json import _Refused


class _Flags:
    allow_tf32 = benchmark = deterministic = False
    allow_fp16_reduced_precision_reduction = allow_bf16_reduced_precision_reduction = True
    fp32_precision, enabled = "none", True

    def is_available(self):
        return True


class _Cuda:
    matmul = _Flags()

    def flash_sdp_enabled(self):
        return True

    mem_efficient_sdp_enabled = math_sdp_enabled = is_built = flash_sdp_enabled

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Refused("torch.backends.cuda." + name)


class _None:
    def is_available(self):
        return False

    is_built = is_available


cuda, cudnn, mps = _Cuda(), _Flags(), _None()


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _Refused(__name__ + "." + name)
