# Births and deaths around calls: the log must be CPython 3.11's.
class N:
    def __init__(self, name): self.name = name; print("+", name)
    def __del__(self): print("-", self.name)
    def __add__(self, o): return N(f"({self.name}+{o.name})")
    def __mul__(self, o): return N(f"({self.name}*{o.name})")
    def __getitem__(self, k): return N(f"{self.name}[]")
    def __iadd__(self, o): return N(f"({self.name}+={o.name})")
    def __neg__(self): return N(f"-{self.name}")
    def view(self, *a, **k): return N(f"{self.name}.view")
    def __call__(self, *a, **k): return N(f"{self.name}()")
    def __enter__(self): return N(f"{self.name}.in")
    def __exit__(self, *e): print("exit", self.name, e[0])
    def __iter__(self): yield N("i1"); yield N("i2")
    def __bool__(self): return False
    @property
    def prop(self): return N(f"{self.name}.prop")

def say(*a): print(*a)

def one(x):
    say("in one")
    x = x + N("k")
    say("rebound")
    y = x * N("m")
    return y

say("temporaries")
r = N("a") + N("b") * N("c")
say("rebind")
r = r + N("d")
say("call")
r = one(N("arg"))
say("kept arg")
a = N("a")
r = one(a)
def default(x, y=N("default"), *args, z=N("kw"), **kw):
    say("in default")
    x = None
    say("x gone")
    args = None
    say("args gone")
    kw = None
    say("kw gone")
    return y
say("defaults")
r = default(N("1"), N("2"), N("3"), N("4"), z=N("5"), w=N("6"))
r = None
r = default(N("7"))
say("star")
args = (N("s1"), N("s2"))
kw = {"w": N("sw")}
r = default(*args, **kw)
args = None
say("args gone")
r = default(*[N("t1"), N("t2"), N("t3")], **{"q": N("tq")})
kw = r = None
say("methods")
r = N("m").view(N("v")).view(k=N("kw"))
r = None
r = N("p").prop.prop
r = N("c")(N("arg"))(x=N("y"))
r = N("ix")[N("k")][1]
r += N("plus")
say("unpack")
p, (q, *s), t = N("p"), (N("q"), N("s1"), N("s2")), N("t")
p, q = q, p
p, q, t = t, p, q
say("swapped")
p, q = N("p2"), N("q2")
del p
say("p gone")
q, p = None, None
s = t = None
say("loop")
for x in [N("l1"), N("l2"), N("l3")]:
    say("turn", x.name)
say("after loop")
del x
for x in N("it"):
    say("turn", x.name)
x = None
for i, x in enumerate([N("e1"), N("e2")]):
    say("turn", i)
    y = x
x = y = None
for a_, b_ in zip([N("z1"), N("z2")], [N("z3"), N("z4")]):
    say("turn")
a_ = b_ = None
say("comprehensions")
l = [x + N("k") for x in [N("c1"), N("c2")] if x.name]
l = None
d = {x.name: x for x in (N("d1"), N("d2"))}
say(sorted(d))
d.pop("d1")
say("popped")
d.clear()
g = (x for x in [N("g1"), N("g2"), N("g3")])
say(next(g).name)
say("first gone")
del g
say("generator gone")
say("any", any(x for x in [N("y1"), N("y2")]))
say("max", max([N("x1"), N("x2")], key=lambda n: n.name).name)
say("conditional")
r = N("yes") if N("test") else N("no")
r = N("or1") or N("or2") or N("or3")
r = N("and1") and N("and2")
r = not N("not")
r = N("cmp") is N("cmp2")
r = N("in") in [1, 2]
say("with")
with N("w") as w:
    say("within")
w = None
with N("w1") as w, N("w2"):
    w = N("w3")
w = None
def early():
    with N("e") as e:
        for x in [N("f1"), N("f2")]:
            return x
r = early()
r = None
say("closures")
def outer():
    c = N("cell")
    d = N("local")
    def inner(): return c
    return inner
f = outer()
say("outer done")
f().name
del f
say("lambda")
f = lambda x=N("ld"): x
f()
f = None
say("class attributes")
class C:
    def m(self, x): return x
c = C()
c.x = N("ix1")
c.x = N("ix2")
c.y = N("iy")
c.m(N("am"))
m = c.m
c = None
say("bound")
m(N("bm"))
m = None
say("containers")
t = (N("t1"), N("t2"), [N("l1"), N("l2")], {"a": N("da"), "b": N("db")})
t = None
l = [N("1"), N("2"), N("3"), N("4")]
l[1:3] = [N("5")]
del l[0]
l[0] = N("6")
l.pop()
l.clear()
l += [N("7")]
l = None
say("swap deaths")
def locals_die(a, b):
    c = N("c")
    d = N("d")
    b = N("b2")
    return N("result")
locals_die(N("a"), N("b"))
say("args and kwargs hold")
def rest(*args, **kw):
    x, y = args
    say("unpacked")
    del args
    say("args deleted")
    x = None
    z = kw.pop("k")
    say("popped")
    z = None
    say("end")
rest(N("r1"), N("r2"), k=N("rk"), q=N("rq"))
say("nested calls")
def ident(x): return x
ident(ident(N("n")))
print(ident(N("f1")).name, ident(N("f2")).name)
say(f"{N('fs').name} {N('ft').name}")
def gen():
    a = N("ga")
    try:
        b = yield N("g1")
        yield N("g2")
    finally:
        say("gen finally")
g = gen()
next(g)
say("sent")
g.send(N("sent"))
g.close()
say("closed")
g = gen()
next(g)
del g
def deleg():
    r = yield from gen()
    return N("never")
for x in deleg():
    say("got", x.name)
x = None
a = None
default.__defaults__ = None
del default
say("end")
