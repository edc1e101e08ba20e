"""The device: an A100 or newer, alone."""


def is_available():
    return True


def is_bf16_supported():
    return True


def get_device_capability(device=None):
    return (8, 0)


def is_current_stream_capturing():
    return False


def current_device():
    return 0


def device_count():
    return 1

from . import amp  # noqa: E402: torch.cuda.amp
