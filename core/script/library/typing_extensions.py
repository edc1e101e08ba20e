from typing import *
from typing import TYPE_CHECKING, Any, Literal, Unpack, TypedDict, Self, TypeVar, Protocol, runtime_checkable, override, Annotated
