# The language in short: what it prints is CPython's.
print("hello", 1+2, [1,2.5,"x"], {"a":1}, (1,))
def f(a, b=2, *c, d=4, **e):
    return a, b, c, d, e
print(f(1), f(1,2,3,4,d=5,z=6))
class A:
    x = 1
    def __init__(self, v): self.v = v
    def get(self): return self.v + self.x
class B(A):
    def __init__(self, v):
        super().__init__(v)
        self.w = v * 2
    @property
    def both(self): return (self.v, self.w)
b = B(3)
print(b.get(), b.both)
print([i*i for i in range(5) if i % 2], {k: v for k, v in zip("abc", range(3))}, sum(x for x in range(10)))
try:
    b.nope
except AttributeError as e:
    print("caught", e)
finally:
    print("finally")
def g():
    for i in range(3):
        r = yield i
        if r: print("got", r)
for x in g(): print(x)
print(f"{b.v:>5}|{3.14159:.2f}|{'s'!r}|{b.w=}")
a, *rest = [1,2,3]
print(a, rest, a if a > 5 else "no")
i = 0
while True:
    i += 1
    if i == 3: continue
    if i > 5: break
else:
    print("never")
print(i, 1 < 2 < 3, not i, -i, ~i, 7//2, -7//2, -7%3, 2**10, 1/3)

def outer():
    x = 1
    def inner():
        nonlocal x
        x += 1
        return x
    return inner
o = outer(); o(); print(o())
class P:
    count = 0
    def __init_subclass__(cls, tag=None, **kw): P.count += 1; cls.tag = tag
    @classmethod
    def make(cls, *a): return cls(*a)
    @staticmethod
    def st(x): return x * 2
    def __getitem__(self, k): return k
    def __len__(self): return 3
    def __contains__(self, x): return x == 1
    def __call__(self, *a, **k): return a, k
    def __eq__(self, o): return isinstance(o, P)
    def __lt__(self, o): return True
    def __matmul__(self, o): return "mat"
    def __or__(self, o): return "or"
    def __getattr__(self, n): return "dyn " + n
class Q(P, tag="t"): pass
class R(Q): __slots__ = ()
q = Q.make()
print(P.count, Q.tag, Q.st(4), q[1:2, ..., None], len(q), 1 in q, 5 in q, q(1, a=2), q == P(), q < q, q @ q, q | q, q.zzz, bool(q))
print([c.__name__ for c in R.__mro__], isinstance(q, (int, P)), issubclass(R, P), type(q).__name__, q.__class__ is Q)
def pos(a, /, b, *, c=3): return a, b, c
print(pos(1, b=2), pos(1, 2, c=4))
for bad in (lambda: pos(1), lambda: pos(1, 2, 3), lambda: pos(1, 2, d=4), lambda: [].nope, lambda: {}["k"], lambda: [1][3], lambda: int("x"), lambda: 1 / 0, lambda: undefined, lambda: "a" + 1, lambda: len(3)):
    try: bad()
    except Exception as e: print(type(e).__name__, e)
x = [1, 2, 3, 4, 5]
x[1:3] = "abc"; print(x); x[::2] = [0] * 3; print(x); del x[::2]; print(x, x[-1], x[5:], x[::-1])
(a, b), *c, d = (1, 2), 3, 4, 5; print(a, b, c, d)
print({**{"a": 1}, "b": 2}, [*range(3), *"ab"], {1, 2} | {3}, {1, 2} & {2}, {"a": 1} | {"b": 2}, (1, 2) + (3,), [1] * 3)
print("%s|%5d|%-5s|%05.1f|%x" % ("a", 42, "b", 3.14159, 255), "{0} {1!r} {k:>4}".format(1, "x", k=2), f"{1000000:,} {0.5:.0%} {'x':*^5} {-3:+d} {3.0} {1e20} {255:#x}")
print(sorted([3, 1, 2], reverse=True), sorted("bca", key=lambda c: -ord(c)), list(reversed([1, 2])), min(3, 1), max([1, 5], default=0), list(zip([1, 2], "ab")), list(map(str, [1, 2])), any([0, 1]), all([]), sum([1.5, 2]), abs(-3), divmod(-7, 3), round(3.14159, 2))
print("a-b_c".replace("-", "+"), "Abc".lower(), "abc".upper(), "a b  c".split(), "a,b".partition(","), "abc".startswith(("x", "a")), "abc".find("c"), "x".join("abc"), "  x ".strip(), "abc".removeprefix("a"), "1".isdigit(), "ab".zfill(4), "tItle".capitalize())
d = {"a": 1, "b": 2}
print(d.get("x", 5), d.setdefault("c", 3), d.pop("a"), list(d.items()), d.keys() & {"b"}, dict.fromkeys("ab", 0), dict(a=1), dict([(1, 2)]))
i = 10
while i:
    i -= 3
    if i < 0: break
else: print("else")
print(i, [y := 5, y ** 2], (lambda *a, k=1, **kw: (a, k, kw))(1, 2, z=3))
try:
    try: raise ValueError("a")
    except ValueError as e: raise KeyError("b") from e
except KeyError as e: print(repr(e), repr(e.__cause__))
print(1 if [] else 2, not [], [] or "d", 0 and 1, 1 < 2 < 3 < 2, None is None, 3 in [1, 2, 3], "b" not in "abc", 5 // -2, 5 % -3, -5 >> 1, 1 << 10, 6 & 3, 6 ^ 3, ~5, 2 ** -1, 7.5 // 2, 1e308 * 10)
print(repr(0.1), 1e22, 1e-7, 123456789012345680.0, 5e-324, 1.7976931348623157e308, 0.1 + 0.7, 100.0, 1/3, float("1e-5"), float("inf"), -0.0)
def gen():
    try:
        x = yield 1
        print("got", x)
        yield from [2, 3]
    except ValueError: yield "caught"
    finally: print("closed")
    return 9
g = gen(); print(next(g), g.send("s"), g.throw(ValueError), list(g))
print(__name__ == "__main__", callable(print), type(3).__name__, type(None).__name__, hasattr(d, "keys"), getattr(d, "nope", 1))
v = [1]; print(f"{v = } {v=} {v = !s:>5} {len(v) = :>{4}}")
