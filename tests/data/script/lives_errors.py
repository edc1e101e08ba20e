# Exceptions hold frames, frames hold locals: until the except block ends.
class N:
    def __init__(self, name): self.name = name; print("+", name)
    def __del__(self): print("-", self.name)
    def __add__(self, o): raise ValueError("no sum")
    def __enter__(self): print("enter", self.name); return self
    def __exit__(self, t, v, tb): print("exit", self.name, t and t.__name__); return self.name == "swallow"
def say(*a): print(*a)
def fails(x):
    y = N("y")
    say("failing")
    raise KeyError(x.name)
say("simple")
try:
    fails(N("arg"))
except KeyError as e:
    say("caught", e)
    z = N("in handler")
    say("end of handler")
say("after")
z = None
say("no name")
try:
    fails(N("arg"))
except KeyError:
    say("caught")
say("after")
say("temporaries on the stack")
try:
    [N("t1"), N("t2") + N("t3")]
except ValueError:
    say("caught")
say("finally")
def f():
    a = N("a")
    try:
        b = N("b")
        return N("result")
    finally:
        say("finally")
        c = N("c")
f()
say("finally overrides")
def g():
    try:
        fails(N("x"))
    except KeyError as e:
        return N("from handler")
    finally:
        say("leaving")
g()
say("kept exception")
kept = None
def h():
    local = N("local of h")
    try:
        fails(N("k"))
    except KeyError as e:
        global kept
        kept = e
h()
say("h is done")
kept = None
say("kept gone")
say("nested")
try:
    try:
        fails(N("inner"))
    except KeyError as e:
        w = N("w")
        raise ValueError("outer") from e
except ValueError as e:
    say("caught", e, type(e.__cause__).__name__)
w = None
say("context")
try:
    try:
        fails(N("inner"))
    except KeyError:
        fails(N("second"))
except KeyError as e:
    say("caught", e, type(e.__context__).__name__)
say("reraise")
def again():
    loc = N("loc")
    try:
        fails(N("x"))
    except KeyError:
        say("again")
        raise
try:
    again()
except KeyError as e:
    say("caught")
say("with")
with N("swallow"):
    v = N("v")
    fails(N("in with"))
say("swallowed")
v = None
try:
    with N("passes"):
        fails(N("in with"))
except KeyError:
    say("passed")
say("loop")
for i in range(2):
    try:
        q = N(f"q{i}")
        if i == 0:
            continue
        fails(q)
    except KeyError as e:
        say("in loop")
        break
    finally:
        say("turn ends")
q = None
say("unbound")
def unbound():
    a = N("ua")
    if False: b = 1
    return b
try:
    unbound()
except UnboundLocalError as e:
    say(type(e).__name__)
say("getattr default")
class P:
    @property
    def p(self):
        x = N("in property")
        raise AttributeError("p")
say(getattr(P(), "p", None), hasattr(P(), "p"))
say("generator raises")
def gen():
    a = N("gen local")
    yield 1
    raise RuntimeError("gen")
try:
    for x in gen(): say(x)
except RuntimeError as e:
    say("caught", e)
say("stop iteration")
it = iter([])
try:
    next(it)
except StopIteration:
    say("stopped")
say("assert")
try:
    assert N("falsy") is None, "message"
except AssertionError as e:
    say(e)
say("exception args hold")
class E(Exception):
    def __init__(self, n): super().__init__(n); self.n = n
try:
    raise E(N("held"))
except E as e:
    say("got", e.n.name)
say("deleted")
def deep(n, x):
    y = N(f"d{n}")
    if n == 0: raise ValueError("deep")
    return deep(n - 1, y)
try:
    deep(3, N("top"))
except ValueError:
    say("unwound")
say("unpack errors")
try:
    a, b = [N("u1"), N("u2"), N("u3")]
except ValueError as e:
    say(e)
try:
    fails(N("p1"), N("p2"))
except TypeError as e:
    say(e)
try:
    fails(N("p1"), y=N("p2"))
except TypeError as e:
    say(e)
say("end")
