"""The device, alone."""
from torch._switches import device_capability, emulates_bf16


def is_available():
    return True


def is_bf16_supported(including_emulation=True):
    return device_capability() >= (8, 0) or (including_emulation and emulates_bf16() > 0)


def get_device_capability(device=None):
    return device_capability()


def is_current_stream_capturing():
    return False


def current_device():
    return 0


def device_count():
    return 1

from . import amp  # noqa: E402: torch.cuda.amp
