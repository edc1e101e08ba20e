# match: values, and in which order what a pattern held dies.
from collections import namedtuple
from dataclasses import dataclass, field
from enum import Enum


class N:
    def __init__(self, name):
        self.name = name
        print("+", name)

    def __del__(self):
        print("-", self.name)

    def __eq__(self, other):
        return isinstance(other, N) and self.name == other.name

    __hash__ = None


class Act(str, Enum):
    GELU = "gelu"
    RELU = "relu"
    SILU = "silu"


@dataclass
class Spec:
    width: int
    act: Act = Act.GELU
    more: dict = field(default_factory=dict, kw_only=True)


Point = namedtuple("Point", "x y")


class Sub(dict):
    pass


def act(kind):
    match kind:
        case Act.GELU:
            return "a gelu"
        case Act.RELU | Act.SILU as k if k is Act.RELU:
            return f"a relu {k.value}"
        case Act.SILU:
            return "silu"
        case "x" | 'yz' | -1 | 2.5:
            return "literal"
        case None | True:
            return "single"
        case int(n) if n > 5:
            return f"large {n}"
        case int() | float():
            return "number"
        case str(s):
            return "text " + s
        case Spec(w, Act.RELU, more={"mult": m, **rest}):
            return f"spec {w} {m} {rest}"
        case Spec(width=w, act=a):
            return f"spec {w} {a.name}"
        case Point(0, y):
            return f"on y {y}"
        case Point(x=x, y=1 | 2 as y):
            return f"near {x} {y}"
        case []:
            return "empty"
        case [one]:
            return f"one {one!r}"
        case [1, (2 | 3) as b, *rest] if rest:
            return f"{b} {rest}"
        case [1, *_, 9]:
            return "to nine"
        case (a, [b, *c], *d):
            return f"nested {a} {b} {c} {d}"
        case {"k": [x, y], "z": None}:
            return f"mapping {x} {y}"
        case {"k": v, **others}:
            return f"k {v} {sorted(others.items())}"
        case {}:
            return "some dict"
        case _:
            return "else"


for value in (*Act, "x", "yz", -1, 2.5, None, True, False, 7, 3, 1.5, "hello", Spec(3, Act.RELU, more={"mult": 2, "k": 1}), Spec(4), Point(0, 5), Point(3, 2),
              Point(3, 7), [], [8], [1, 3], [1, 3, 4, 5], [1, 7, 9], ("a", ["b", 1, 2], 3), {"k": [1, 2], "z": None}, {"k": 1, "a": 2, "b": 3}, {}, Sub(k=2),
              set(), range(2), b"" if False else "bytes", (1,), range(1, 2)):
    print(act(value))

match = [1]
match[0] = 5
case = match
print(match, case, [match for match in (1, 2)])


def match_call(match):
    return match(3)


print(match_call(lambda v: v + 1))
match (1, 2):
    case (a, b) if a > b:
        print("no")
    case (a, b):
        print("yes", a, b)
match 1, 2:
    case 1, *others:
        print(others)
for i in range(4):
    match i:
        case 0:
            continue
        case 3:
            break
    print("turn", i)


def lives(v):
    match [N("a" + v), N("b" + v)]:
        case [N(name="ax"), second]:
            print("first", second.name)
        case [N(name=n) as first, _] if n == "ay":
            print("second", first.name)
        case [one, two]:
            print("third", one.name, two.name)
    print("end")


for v in "xyz":
    lives(v)


def subject(v):
    match N(v):
        case N(name="s"):
            print("body s")
        case _:
            print("body else")
    print("after")


subject("s")
subject("t")


def only(v):
    match N(v):
        case x:
            print("bound", x.name)


only("o")


def raises(v):
    try:
        match v:
            case Spec(a, b, c):
                print(a, b, c)
    except TypeError as e:
        print(e)
    try:
        match v:
            case Spec.width:
                print("not here")
    except AttributeError as e:
        print("AttributeError")


raises(Spec(1))


def gives(v):
    match v:
        case {"a": N() as held} | [held]:
            yield held.name
        case _ if v:
            yield "guarded"


print(*gives({"a": N("q")}), *gives([N("r")]), *gives(5), *gives(0))
print("done")
