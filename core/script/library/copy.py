# copy
from _script import type_of_kind

_atomic = (type(None), bool, int, float, str, type, range, type_of_kind("FunctionType"), type_of_kind("BuiltinFunctionType"),
           type_of_kind("ModuleType"), type_of_kind("EllipsisType"), type_of_kind("UnionType"), type_of_kind("GenericAlias"))


def copy(x):
    cls = type(x)
    if cls in _atomic or cls is tuple or cls is frozenset:
        return x
    if hasattr(cls, "__copy__"):
        return x.__copy__()
    if cls in (list, dict, set):
        return x.copy()
    y = cls.__new__(cls)
    if isinstance(x, list):
        list.extend(y, x)
    elif isinstance(x, dict):
        dict.update(y, x)
    elif isinstance(x, set):
        set.update(y, x)
    elif isinstance(x, (str, int, float, tuple)):
        y = cls.__new__(cls, x)
    y.__dict__.update(x.__dict__)
    return y


def deepcopy(x, memo=None):
    cls = type(x)
    if cls in _atomic:
        return x
    if memo is None:
        memo = {}
    key = id(x)
    if key in memo:
        return memo[key]
    if hasattr(cls, "__deepcopy__"):
        y = x.__deepcopy__(memo)
        memo[key] = y
        return y
    if cls is list:
        y = []
        memo[key] = y
        for v in x:
            y.append(deepcopy(v, memo))
        return y
    if cls is tuple:
        y = tuple([deepcopy(v, memo) for v in x])
        memo[key] = y
        return y
    if cls is dict:
        y = {}
        memo[key] = y
        for k, v in x.items():
            y[deepcopy(k, memo)] = deepcopy(v, memo)
        return y
    if cls in (set, frozenset):
        return cls([deepcopy(v, memo) for v in x])
    if isinstance(x, (str, int, float, tuple)):
        y = cls.__new__(cls, x)
    else:
        y = cls.__new__(cls)
    memo[key] = y
    if isinstance(x, list):
        for v in list.__iter__(x):
            list.append(y, deepcopy(v, memo))
    elif isinstance(x, dict):
        for k, v in dict.items(x):
            dict.__setitem__(y, k, deepcopy(v, memo))
    for name, value in x.__dict__.items():
        y.__dict__[name] = deepcopy(value, memo)
    return y
