# The modules of the language itself answer as CPython's.
from dataclasses import dataclass, field, fields, asdict, replace
from enum import Enum
from typing import Optional, Union, Any, NamedTuple, TypedDict, Callable, Generic, TypeVar, ClassVar
from collections import OrderedDict, namedtuple, defaultdict
from collections.abc import Mapping, Sequence, Iterable, MutableMapping
from functools import partial, wraps, lru_cache, reduce, cached_property
from contextlib import contextmanager, nullcontext
import itertools, operator, copy, math, inspect, logging, warnings
import collections.abc
@dataclass
class P:
    x: int
    y: float = 2.0
    z: list = field(default_factory=list)
    c: ClassVar[int] = 5
    def __post_init__(self): self.s = self.x + self.y
@dataclass
class Q(P):
    w: Optional[str] = None
p = Q(1, w="a")
print(p, p.s, asdict(p), replace(p, x=5), p == Q(1, w="a"), [f.name for f in fields(p)])
try: Q()
except TypeError as e: print("TypeError")
class Color(Enum):
    RED = 1
    BLUE = 2
class S(str, Enum):
    A = "a"
    B = "b"
print(Color.RED, Color(2), Color["BLUE"], list(Color), S.A == "a", S("b").value, isinstance(S.A, str), len(Color), Color.RED in Color, f"{S.A.value}")
try: Color(7)
except ValueError as e: print(e)
Pt = namedtuple("Pt", "a b c", defaults=[3])
t = Pt(1, b=2); print(t, t.a, t[1], t._asdict(), len(t), *t)
class NT(NamedTuple):
    k: int
    v: str = "d"
print(NT(1), NT(k=2, v="x").v)
class TD(TypedDict, total=False):
    k: int
d = defaultdict(list); d["a"].append(1); print(dict(d), OrderedDict([(1, 2)]))
def deco(f):
    @wraps(f)
    def w(*a, **k):
        "doc"
        return f(*a, **k) + 1
    return w
@deco
def add(a, b=2, *, c=3): return a + b + c
print(list(inspect.signature(Q.__init__).parameters), list(inspect.signature(deco(Q.__init__)).parameters), list(inspect.signature(Q).parameters),
      inspect.signature(Q).parameters["y"].default, inspect.signature(Q).parameters["x"].default is inspect.Parameter.empty)
print(add(1), add.__name__, inspect.signature(add).parameters.keys() if False else list(inspect.signature(add).parameters))
print(partial(add, b=5)(1), reduce(operator.mul, [1,2,3,4]), list(itertools.accumulate([1,2,3])), list(itertools.chain([1],[2])))
class K:
    n = 0
    @cached_property
    def v(self): K.n += 1; return K.n
k = K(); print(k.v, k.v, K.n)
@contextmanager
def cm(x):
    print("in", x)
    try: yield x * 2
    finally: print("out", x)
with cm(4) as v: print(v)
try:
    with cm(5): raise ValueError("boom")
except ValueError as e: print(e)
@lru_cache(maxsize=None)
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
print(fib(60))
print(copy.deepcopy({"a": [1, (2, [3])]}), copy.copy(p))
print(isinstance({}, Mapping), isinstance([], Sequence), isinstance(add, collections.abc.Callable), isinstance(3, Iterable))
class R(MutableMapping):
    def __init__(self): self.d = {}
    def __getitem__(self, k): return self.d[k]
    def __setitem__(self, k, v): self.d[k] = v
    def __delitem__(self, k): del self.d[k]
    def __iter__(self): return iter(self.d)
    def __len__(self): return len(self.d)
r = R(); r["x"] = 1; r.update({"y": 2}); print(r.get("x"), r.get("q", 7), "y" in r, r.pop("y"), len(r))
T = TypeVar("T")
class G(Generic[T]):
    pass
print(math.sqrt(2), math.log(8, 2), math.ceil(2.1), math.inf, round(2.5), round(2.675, 2), 1e16, 1e-5, 123456789.123, 0.1 + 0.2)
print("a,b".split(","), "x".join(["1", "2"]), " s ".strip(), "%d %s %.2f" % (1, "a", 2.5), "{} {x}".format(1, x=2), "abc"[::-1], "é"[0])
