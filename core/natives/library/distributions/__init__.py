"""What else torch.distributions has can be named, but not used."""
from json import _Refused

from torch.distributions import normal
from torch.distributions.normal import Normal


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _Refused("torch.distributions." + name)
