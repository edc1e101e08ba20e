from collections.abc import _ABCMeta


class Number(metaclass=_ABCMeta):
    _needs = ()
    _kinds = (int, float)


class Real(Number):
    _needs = ()
    _kinds = (int, float)


class Integral(Real):
    _needs = ()
    _kinds = (int,)
