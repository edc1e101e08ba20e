# inspect: what is asked of functions
from _script import type_of_kind, signature_of
from dataclasses import MISSING as _MISSING

_Function = type_of_kind("FunctionType")
_Method = type_of_kind("MethodType")


class _empty:
    pass


class Parameter:
    empty = _empty
    POSITIONAL_ONLY, POSITIONAL_OR_KEYWORD, VAR_POSITIONAL, KEYWORD_ONLY, VAR_KEYWORD = range(5)

    def __init__(self, name, kind, *, default=_empty, annotation=_empty):
        self.name = name
        self.kind = kind
        self.default = default
        self.annotation = annotation


class Signature:
    empty = _empty

    def __init__(self, parameters):
        self.parameters = {p.name: p for p in parameters}
        self.return_annotation = _empty


def unwrap(function):
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function


def _of_native(text, skip):
    if text is None:
        raise ValueError("no signature found")
    out, kind = [], Parameter.POSITIONAL_OR_KEYWORD
    for name in text.replace(" ", "").split(","):
        if name == "/" or not name:
            continue
        if name == "*":
            kind = Parameter.KEYWORD_ONLY
        elif name.startswith("**"):
            out.append(Parameter(name[2:], Parameter.VAR_KEYWORD))
        elif name.startswith("*"):
            out.append(Parameter(name[1:], Parameter.VAR_POSITIONAL))
            kind = Parameter.KEYWORD_ONLY
        else:
            out.append(Parameter(name.rstrip("="), kind, default=None if name.endswith("=") else _empty))
    return Signature(out[skip:])


def _of_fields(fields, skip):
    out = [Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)]
    for kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY):
        for f in fields.values():
            if f.init and f.kw_only == (kind == Parameter.KEYWORD_ONLY):
                default = f.default if f.default is not _MISSING else f.default_factory if f.default_factory is not _MISSING else _empty
                out.append(Parameter(f.name, kind, default=default))
    return Signature(out[skip:])


def signature(function, *, follow_wrapped=True):
    skip = 0
    if isinstance(function, type):
        function = function.__init__
        skip = 1
    if isinstance(function, _Method):
        function = function.__func__
        skip = 1
    if follow_wrapped:
        function = unwrap(function)
    if hasattr(function, "_fields"):  # a dataclass's, which CPython writes out as text
        return _of_fields(function._fields, skip)
    if not isinstance(function, _Function):
        if signature_of(function) is not None:
            return _of_native(signature_of(function), skip)
        if hasattr(type(function), "__call__"):
            function = type(function).__call__
            skip = 1
        if not isinstance(function, _Function):
            raise ValueError("no signature found")
    code = function.__code__
    names = code.co_varnames
    n, k = code.co_argcount, code.co_kwonlyargcount
    defaults = function.__defaults__ or ()
    kwdefaults = function.__kwdefaults__ or {}
    out = []
    for i in range(n):
        at = i - (n - len(defaults))
        kind = Parameter.POSITIONAL_ONLY if i < code.co_posonlyargcount else Parameter.POSITIONAL_OR_KEYWORD
        out.append(Parameter(names[i], kind, default=defaults[at] if at >= 0 else _empty))
    at = n + k
    if code.co_flags & 4:
        out.append(Parameter(names[at], Parameter.VAR_POSITIONAL))
        at += 1
    for i in range(n, n + k):
        out.append(Parameter(names[i], Parameter.KEYWORD_ONLY, default=kwdefaults.get(names[i], _empty)))
    if code.co_flags & 8:
        out.append(Parameter(names[at], Parameter.VAR_KEYWORD))
    return Signature(out[skip:])


def isfunction(obj):
    return isinstance(obj, _Function)


def ismethod(obj):
    return isinstance(obj, _Method)


def isclass(obj):
    return isinstance(obj, type)


def isgenerator(obj):
    return isinstance(obj, type_of_kind("GeneratorType"))


def isabstract(obj):
    return False


def getmro(cls):
    return cls.__mro__


def getdoc(obj):
    return None


class FullArgSpec:
    pass


def getfullargspec(function):
    spec = FullArgSpec()
    found = signature(function).parameters.values()
    spec.args = [p.name for p in found if p.kind <= 1]
    spec.varargs = next((p.name for p in found if p.kind == 2), None)
    spec.kwonlyargs = [p.name for p in found if p.kind == 3]
    spec.varkw = next((p.name for p in found if p.kind == 4), None)
    return spec
