"""What else the package has can be named, but not used."""
from json import _Refused


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _Refused("flash_attn.bert_padding." + name)
