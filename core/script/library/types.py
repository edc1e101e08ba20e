from _script import type_of_kind

NoneType = type(None)
FunctionType = LambdaType = type_of_kind("FunctionType")
MethodType = type_of_kind("MethodType")
ModuleType = type_of_kind("ModuleType")
GeneratorType = type_of_kind("GeneratorType")
BuiltinFunctionType = type_of_kind("BuiltinFunctionType")
GenericAlias = type_of_kind("GenericAlias")
UnionType = type_of_kind("UnionType")
CodeType = type_of_kind("CodeType")
CellType = type_of_kind("CellType")
EllipsisType = type_of_kind("EllipsisType")
TracebackType = type_of_kind("TracebackType")


class SimpleNamespace:
    def __init__(self, /, **kwargs):
        self.__dict__.update(kwargs)

    def __repr__(self):
        return "namespace(" + ", ".join([f"{k}={v!r}" for k, v in self.__dict__.items()]) + ")"

    def __eq__(self, other):
        return isinstance(other, SimpleNamespace) and self.__dict__ == other.__dict__


def MappingProxyType(mapping):
    return dict(mapping)
