"""What a mask of flex attention is, so that others can be told from it; nobody makes one here."""
from json import _Refused


class BlockMask:
    pass


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _Refused("torch.nn.attention.flex_attention." + name)
