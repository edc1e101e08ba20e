"""torch.special: other names of functions."""
from json import _Refused

from _script import import_by_name

_CALLED = {"expit": "sigmoid", "psi": "digamma", "gammaln": "lgamma"}
_SAME = ("digamma", "erf", "erfc", "erfinv", "exp2", "expm1", "log1p", "logit", "logsumexp", "log_softmax", "round", "sinc", "softmax", "xlogy", "i0")


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    called = _CALLED.get(name, name if name in _SAME else "")
    return getattr(import_by_name("torch"), called) if called else _Refused("torch.special." + name)
