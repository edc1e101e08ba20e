"""torch.nn.attention: what it has can be named."""
from enum import IntEnum

from json import _Refused


class SDPBackend(IntEnum):
    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


sdpa_kernel = _Refused("torch.nn.attention.sdpa_kernel")
