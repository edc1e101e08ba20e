def say(*a): print(*a)

class N:
    def __init__(self, name, *rest, **kw): self.name = name; self.rest = rest; say("+", name)
    def __del__(self): say("-", self.name)
    def __add__(self, o): return N(f"({self.name}+{nm(o)})")
    def __radd__(self, o): return N(f"(r{self.name}+{nm(o)})")
    def __sub__(self, o): return NotImplemented
    def __rsub__(self, o): return N(f"(rs{self.name})")
    def __iadd__(self, o): return self if len(self.name) % 2 else N(f"({self.name}+={nm(o)})")
    def __neg__(self): return N(f"-{self.name}")
    def __getitem__(self, k):
        if isinstance(k, int) and k > 1: raise IndexError(k)
        return N(f"{self.name}[{nm(k)}]")
    def __setitem__(self, k, v): self.kept = v
    def __call__(self, *a, **k): return N(f"{self.name}()", *a)
    def __eq__(self, o): return isinstance(o, N) and self.name == o.name
    def __hash__(self): return hash(len(self.name))
    def __lt__(self, o): return self.name < o.name
    def __bool__(self): return len(self.name) % 3 > 0
    def __enter__(self): say("enter", self.name); return N(f"{self.name}.in")
    def __exit__(self, t, v, tb): say("exit", self.name, t and t.__name__); return len(self.name) % 2 == 0
    def meth(self, a=None, *r, k=None): return a if a is not None else self
    def fresh(self, *a, **k): return N(f"{self.name}.fresh")
    @property
    def prop(self): return N(f"{self.name}.prop")
    def __getattr__(self, name):
        if name.startswith("_"): raise AttributeError(name)
        return N(f"{self.name}.{name}")
class M(N):
    def meth(self, a=None, *r, k=None):
        x = super().meth(a, *r, k=k)
        return x
    def __len__(self): return len(self.name)
class E(Exception):
    def __init__(self, n): super().__init__(nm(n)); self.held = n
def nm(o): return o.name if isinstance(o, N) else type(o).__name__
def gen(a, b=None):
    c = N("gl")
    try:
        r = yield a
        if r is not None: say("sent", nm(r))
        yield b
        yield N("gy")
    finally:
        say("gen ends")
def ident(x): return x
def drop(x): x = None; return 1
def swap(a, b, *c, d=None, **e):
    a, b = b, a
    return a, b, c, d, e
def default(x, y=None, *r, z=3, **k):
    if y is None: y = N("dy")
    x = y
    return x
def clos(x):
    y = N("cy")
    def inner(z=None):
        nonlocal y
        if z is not None: y = z
        return x, y
    return inner
def deco(f):
    def wrapper(*a, **k):
        r = f(*a, **k)
        return r
    return wrapper
@deco
def wrapped(a, b=None, **k):
    a = N("wa")
    return b
def boom(x):
    y = N("by")
    raise E(x)
def deep(n, x):
    z = N(f"deep{n}")
    return boom(z) if n == 0 else deep(n - 1, x)
def program0(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    d = ({"k": default(), "j": N("n2")}, N("n3"))
    try:
        d, b = sorted([N("n5xx"), N("n6"), N("n7x")])[0], M("n9xx")
    except Exception:
        c += N("n11xx")
        f = clos(b)
        f(N("n12")[((a and N("n16x")) is (N("n18xx"), N("n19")))])
    else:
        b, b = f"{nm(a)}{nm(b)}", any(v for v in [(any(v for v in [d, N("n24")]) or (b == M("n28x"))), {**{'z': wrapped(N("n29"), b=N("n31"), k=b)}, 'y': (d if c else b)}])
    g = gen(b, [(lambda *v, **w: (v, w))(M("n43xx").meth(c), k=(not N("n46x")))].pop())
    say(nm(next(g)))
    for i, c in enumerate([[{**{'z': list(map(lambda v: (v + N("n48xx")), [N("n51xx"), M("n52x")]))}, 'y': b}].pop(), N("n56xx")]):
        c = (lambda *v, **w: (v, w))(M("n58").fresh(N("n59x"), k=((N("n62x") and N("n63xx")) == (a).__class__.__name__)), k=(q := {**{'z': N("n67xx").meth(N("n69x"))}, 'y': (a - N("n72"))}))
        del d
        d = N("n74xx").prop
    for d in [[(-(*[d], a)), b], (clos(a.some)((M("n81") == a))).__class__.__name__, list(gen(b.some, b))]:
        for c in list({'k': M("n150x")}.values()):
            del c
            c = b
try:
    say("# 0")
    r = program0(M("n153x"), N("n154"), d=N("n155x"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program1(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    try:
        try:
            raise E(getattr(getattr((b).__class__.__name__, 'zip', sorted([N("n3x"), N("n4"), N("n5x")])[0]), 'zip', {"k": (*[N("n6")], d), "j": (q := N("n11"))}))
            a = N("n13xx")
        except (AttributeError, IndexError, TypeError, ValueError, E) as e:
            c = {'a': d}.get('b', N("n17x"))
            raise E(d) from None
        else:
            for d in gen(((getattr(c, 'zip', b) or (not d))).__class__.__name__, dict(a=(not N("n43")), b=list(map(lambda v: v, [c, N("n50xx")])))):
                a = max(N("n60"), N("n61"), key=lambda v: v.name)
        finally:
            try:
                g = gen(N("n63xx"), [getattr(N("n65x"), 'zip', sorted([N("n66x"), N("n67x"), N("n68xx")])[0]), M("n69xx").meth({i: v for i, v in enumerate([b, N("n72")])}), ident(x=[N("n74xx")].pop())][1:])
                del g
            except E as e:
                c = (d is list(gen(b.some, isinstance((*[b], c), N))))
                d = next(gen(c, ((-N("n85xx")) in [list(map(lambda v: (v + N("n86xx")), [(N("n89xx") - N("n91")), max(N("n92x"), M("n93xx"), key=lambda v: v.name)])), M("n95xx")])))
    finally:
        with N("n98") as c, N("n99x"):
            try:
                c = [[v for v in [N("n101xx"), getattr(getattr(M("n102xx"), '_none', N("n105")), '_none', next(gen(d, c)))] if v], (N("n110xx")[list(gen(c, N("n114xx")))] if N("n115x") else (not N("n117xx"))), N("n120xx")][::2]
            finally:
                a.attr = {'a': N("n121")}.get('b', {"k": max(N("n123x"), N("n124x"), key=lambda v: v.name), "j": (-d)})
            c = ((*[N("n141x").meth(list(reversed([b, c])))], next(gen((a in [a, a]), N("n153xx")))) or next(gen((*[{'a': a}.pop('a')], (-c)), a)))
    d
    try:
        try:
            say(nm(c))
            say(nm(d))
        except E as e:
            def local(x, y={'a': local(a)}.get('b', [M("n164xx"), N("n166x")])):
                pass
                z = N("n168x")
                return x
    except E:
        assert N("n170").meth(list(gen(b, c))), N("n175x")
    else:
        (((*[next(gen(c, c))], (d if d else d)) and c) is (-((c == c) and N("n193x"))))
    c = {'a': N("n194")}.pop('a')
    g = gen((not N("n196")), ([(v, w) for v in [N("n198xx"), sorted([N("n200xx"), N("n201x"), N("n202xx")])[0]] for w in ((*[d], d),)]).__class__.__name__)
    g.close()
    g = gen({'a': a}.pop('a'), list(gen(M("n209x").meth(N("n210").prop), (N("n212xx") if M("n213") else (a or N("n217xx"))))))
    del g
    return (((b if c else d) in [a, M("n227")]) + c)
try:
    say("# 1")
    r = program1(N("n231x"), N("n232"), d=N("n233"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program2(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    for d in [M("n1x"), getattr(N("n4x"), 'zip', (*[list(map(lambda v: ident(v), [N("n7"), N("n9xx")]))], N("n11xx").fresh(N("n12xx"), k=b))), (N("n16xx").meth([(v, w) for v in [c, N("n19")] for w in (M("n21x"),)])).__class__.__name__]:
        del c
        c = drop([(v, w) for v in [M("n36xx"), a] for w in (N("n40"),)])
        c += getattr(any(v for v in [d, any(v for v in [c, d])]), '_none', [[b].pop(), (N("n51x") == d)])
    a = (N("n55xx") + list(zip([{'a': (-d)}.pop('a'), c], [b.some])))
    def local(x, y=[f"{nm(b)}{nm(b)}", [N("n61")].pop()]):
        nonlocal a
        x = None
        return y
    say(nm(a))
    c = M("n65")
    d, *c = [local(N("n66")), deep(2, d), c]
try:
    say("# 2")
    r = program2(N("n72xx"), N("n73x"), d=N("n74"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program3(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    a = (not list(gen({i: v for i, v in enumerate([[v for v in [N("n2xx"), d] if v], list(zip([N("n6xx"), N("n7")], [M("n9xx")]))])}, {'a': (N("n11xx")).__class__.__name__}.get('b', getattr(a, 'zip', N("n15x"))))))
    say(nm(c))
    for b in [((*[M("n18")], c) and [M("n21xx")[d], getattr(N("n24xx"), 'zip', a)]), N("n28x").fresh([f"{nm(a)}{nm(b)}", a], k=N("n32")), ((not dict(a=N("n34"), b=N("n36"))) or clos(list(gen(a, N("n39xx"))))(N("n41x")[M("n42")]))]:
        a = any(v for v in [(clos(isinstance(N("n61"), N))() is (not b.meth)), M("n63xx").fresh(default(c), k=(c in [b, (N("n71x") if a else b)]))])
        assert N("n76").prop, N("n77")
    c = d
    a = [list(reversed([{"k": (N("n80xx") if d else N("n85")), "j": N("n86").fresh(N("n87"), k=b)}, (not any(v for v in [N("n91"), b]))])), (-[N("n95")[a]].pop())][0]
    return clos(d)(list(gen(drop(b), N("n102xx"))))
try:
    say("# 3")
    r = program3(M("n104xx"), N("n105"), d=N("n106"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program4(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    c = [list(map(lambda v: M("n2"), [[isinstance(d, N), max(N("n5"), N("n6"), key=lambda v: v.name)][0], N("n8x")])), clos([(v, w) for v in [next(gen(d, M("n12x"))), (*[N("n14x")], N("n16"))] for w in (getattr(M("n18"), '_none', c),)])()]
    f = lambda v=None: v
    f(next(gen([v for v in [(N("n21")).__class__.__name__, (*[a], d)] if v], dict(a=list(zip([N("n27xx"), a], [d])), b=N("n33x")))))
    list(gen(clos(f"{nm(c)}{nm(c)}")(), sorted([M("n35"), N("n36"), N("n37xx")])[0]))
    l.clear()
    try:
        b = sorted([N("n71"), N("n72"), N("n73x")])[0]
    except E as e:
        return c
        c, *a = [sorted([N("n76x"), M("n77xx"), M("n78")])[0], (not b), isinstance(a, N)]
    else:
        g = gen(isinstance(N("n83xx").fresh(c, k=list(gen(d, N("n89x")))), N), (getattr((c).__class__.__name__, 'zip', getattr(d, 'zip', N("n94"))) or wrapped(getattr(c, '_none', N("n98")), b=(N("n100x") or M("n103xx")), k=(M("n104xx") if b else d))))
        next(g)
    with M("n110x") as a:
        try:
            a, *d = [(a + (b - (c if c else N("n122x")))), d, list(reversed([[ident(b), N("n128x").fresh(d, k=N("n132"))], [(v, w) for v in [a, N("n135x")] for w in ((N("n137xx") is N("n139")),)]]))]
            d = (isinstance(next(gen(a, [N("n143xx"), N("n145"), d][::-1])), N) is clos((q := {"k": c, "j": N("n151")}))(((N("n154") is d), c)))
            c = N("n159x").fresh(b, k=M("n162x").prop)
        except (AttributeError, IndexError, TypeError, ValueError, E) as e:
            a = N("n164x")
            for d in N("n193xx"):
                for i, c in enumerate([d, (N("n202x").fresh(getattr(a, 'zip', c), k=M("n207").prop) == (next(gen(N("n209x"), N("n210"))) in [next(gen(d, N("n214xx"))), (a is N("n219"))]))]):
                    a = list(gen(a.some, a))
                else:
                    f = [].append
                    f(N("n222").meth(d))
        finally:
            a = N("n225").fresh(clos((list(reversed([N("n226x"), N("n228xx")])) or N("n231")))(N("n232xx").prop), k=tuple(x for x in gen(a) if x is not None))
    for d in N("n279"):
        l.pop()
        try:
            for i, d in enumerate([(N("n319x").prop and (list(map(lambda v: ident(v), [M("n323x"), c])), clos(N("n327xx"))())), N("n328")[(-{**{'z': c}, 'y': c})]]):
                d += M("n334")
            else:
                b = N("n336")
            a = list(reversed([{"k": any(v for v in [[M("n338xx"), M("n339")], N("n342")]), "j": N("n344")}, list(gen(M("n345").prop, dict(a=(N("n346") is d), b=(N("n351xx")).__class__.__name__)))]))
        except (AttributeError, IndexError, TypeError, ValueError, E) as e:
            for d in gen(b, {i: v for i, v in enumerate([N("n368x"), default(c)])}):
                for b in list({'k': N("n407xx")}.values()):
                    (lambda *v, **w: (v, w))(d, k=list(map(lambda v: ident(v), [{**{'z': N("n413x").prop}, 'y': N("n414xx").meth(N("n415"))}, [[b, M("n419x")][1], N("n421xx")]])))
                    b = (N("n424") is N("n425xx"))
            else:
                c += M("n428xx")
            raise
    a, d = d, list(reversed([b, clos(list(gen(d, b)))((a if c else c))]))
try:
    say("# 4")
    r = program4(N("n446xx"), N("n447x"), d=M("n448xx"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program5(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    a = a.some
    assert {i: v for i, v in enumerate([M("n1xx").meth(next(gen(N("n3xx"), d))), (tuple(x for x in gen(N("n6xx")) if x is not None) in [list(gen(N("n9x"), b)), f"{nm(a)}{nm(b)}"])])}, N("n12x")
    g = gen(M("n13")[{'a': N("n14x")}.get('b', d.meth)], N("n17x"))
    next(g); g.send(N('sn'))
    a = ((([(v, w) for v in [a, b] for w in (c,)] if a else M("n26").meth(d)) + dict(a=(d + N("n32x")), b=[N("n33x"), M("n36xx")])) == clos({i: v for i, v in enumerate([(d is N("n39x")), dict(a=N("n41"), b=N("n44"))])})(d))
    d = a
    with M("n49xx") as a:
        b = ([v for v in [getattr(b, '_none', getattr(N("n56x"), '_none', M("n57xx"))), clos(list(reversed([a, b])))([(v, w) for v in [N("n63"), N("n65")] for w in (a,)])] if v] is M("n70xx"))
    del d
try:
    say("# 5")
    r = program5(N("n71x"), N("n72xx"), d=N("n73"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program6(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    d, a = N("n2xx"), N("n4x")
    b = ((c).__class__.__name__ == (list(zip([(a in [M("n10x"), b]), {'a': c}.get('b', N("n15x"))], [(not a)])) if ({i: v for i, v in enumerate([b, N("n21")])} == [N("n24x"), N("n25x")]) else a))
    c = list(gen(getattr([[N("n30")].pop(), list(gen(a, d))][2], '_none', ({**{'z': N("n36xx")}, 'y': a} is N("n39").prop)), a))
    a = ([N("n42xx"), [(q := b), dict(a=N("n47xx"), b=d)][1]][0], (b.some is a))
    say(nm(d))
    say(nm(a))
    a = ((-{i: v for i, v in enumerate([a, [N("n55x"), N("n56xx")]])})).__class__.__name__
    try:
        swap(b, (-max(N("n60x"), N("n61xx"), key=lambda v: v.name)), [c, {i: v for i, v in enumerate([b, a])}], d=clos((not (M("n69xx") == d)))(any(v for v in [{'a': d}.get('b', N("n74xx")), (d == b)])), k={"k": (N("n80x").prop and b.some), "j": (M("n81x").prop + a)})
        a = list(gen((M("n84x")).__class__.__name__, (max(N("n86xx"), M("n87xx"), key=lambda v: v.name) if d else b)))
        c = deep(2, isinstance({'a': d.some}.get('b', (q := d)), N))
    except (E, TypeError) as e:
        b = c
    else:
        if M("n96"):
            b = max(M("n98"), N("n99x"), key=lambda v: v.name)
            with M("n100x") as d:
                a = N("n105")
                try:
                    d = list(gen((getattr(f"{nm(a)}{nm(d)}", 'zip', f"{nm(d)}{nm(a)}"), M("n106x")), N("n108xx").meth({"k": (lambda *v, **w: (v, w))(N("n109x"), k=M("n111x")), "j": (c - d)})))
                    l.clear()
                except (E, TypeError) as e:
                    f = a.meth
                    f(b)
                    a, *c = [clos(getattr(c, '_none', N("n131")))(), list(gen((d if (M("n134") or N("n137")) else [a].pop()), next(gen(N("n141x"), [(v, w) for v in [a, N("n145x")] for w in (N("n146xx"),)])))), (-getattr({i: v for i, v in enumerate([a, M("n151")])}, '_none', (d - d)))]
                finally:
                    say(nm(d))
        else:
            del c
    return (a).__class__.__name__
try:
    say("# 6")
    r = program6(N("n158x"), N("n159x"), d=M("n160xx"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program7(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    a = d
    a += N("n3xx")
    for d in list({'k': f"{nm(b)}{nm(b)}"}.values()):
        continue
try:
    say("# 7")
    r = program7(N("n47x"), N("n48"), d=N("n49xx"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program8(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    with M("n2"):
        a, b = [N("n5xx"), list(reversed([N("n7"), sorted([N("n9xx"), N("n10x"), N("n11x")])[0]]))], isinstance(N("n12").meth((N("n14") - M("n15xx"))), N)
        del b
        b = (next(gen(d, c)) and N("n21x"))
    d
    d = (N("n25x") is isinstance(getattr(getattr(N("n28x"), 'zip', M("n30")), 'zip', b), N))
    a, d = N("n33x"), N("n35").meth(dict(a=(*[M("n37x")], M("n38x")), b=dict(a=N("n41"), b=N("n43x"))))
    a = (q := sorted([N("n44"), M("n45xx"), N("n46xx")])[0])
    say(nm(c))
    say(nm(a))
    a, *a = [[d].pop(), c, list(reversed([d, ((d == c) in [b.some, b])]))]
try:
    say("# 8")
    r = program8(N("n59"), M("n60"), d=N("n61x"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program9(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    d = a.some
    def local(x, y=clos(any(v for v in [N("n2xx"), c]))()):
        nonlocal a
        say(nm(y))
        return x
    with M("n8"):
        with N("n12xx"):
            for d in gen([(v, w) for v in [list(reversed([M("n39xx").fresh(a, k=N("n42x")), dict(a=N("n44"), b=N("n47"))])), N("n48x").meth(N("n49xx"))] for w in (([v for v in [N("n52x"), M("n54xx")] if v] if N("n56xx") else {**{'z': M("n58")}, 'y': a}),)], isinstance(d, N)):
                d = d.some
            else:
                c, *a = [N("n76xx"), [(list(zip([d, d], [N("n81")])) if (N("n83xx") - d) else [(v, w) for v in [M("n87xx"), N("n89")] for w in (N("n92xx"),)]), c.some], M("n94x")]
        c = c
    a = isinstance((((b + d) is (-N("n102"))) or ({**{'z': d}, 'y': a} in [N("n108"), (not N("n110x"))])), N)
    return getattr(b, 'zip', a)
try:
    say("# 9")
    r = program9(N("n115"), N("n116xx"), d=N("n117"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program10(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    b = a
    g = gen(list(reversed([(clos(d)(N("n6")) is M("n7")), c])), M.meth(N("n11x"), list(zip([M("n13"), N("n14x")[d]], [list(map(lambda v: N("n18xx"), [d, N("n22x")]))]))))
    g.close()
    b, *d = [{'a': [N("n23xx").prop, (q := N("n24x")), [(v, w) for v in [N("n27xx"), c] for w in (N("n30x"),)]][1:]}.get('b', sorted([N("n32xx"), M("n33xx"), M("n34x")])[0]), list(gen(getattr((N("n36xx") in [a, a]), 'zip', any(v for v in [b, a])), N("n45xx"))), any(v for v in [b, [v for v in [N("n49x").prop, d] if v]])]
    a = (dict(a=next(gen((N("n53x") in [b, N("n57")]), getattr(N("n58"), '_none', N("n61xx")))), b=wrapped([v for v in [N("n63x"), d] if v], b=N("n66xx").meth(M("n68x")), k=(b is M("n71")))) in [list(reversed([({'a': a}.pop('a') in [dict(a=M("n76x"), b=d), max(N("n79x"), N("n80xx"), key=lambda v: v.name)]), ((M("n81xx") and N("n84xx")) if N("n86xx") else list(gen(a, M("n90"))))])), b])
try:
    say("# 10")
    r = program10(M("n93x"), N("n94xx"), d=N("n95x"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program11(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    d = (not clos(N("n1"))(a.some))
    say(nm(b))
    with N("n5") as a, M("n6xx"):
        b += ([(d in [N("n9x"), N("n12xx")])].pop() if (-(q := N("n13xx"))) else {"k": (not M("n15x")), "j": M("n17")})
        try:
            d = ({**{'z': getattr(b, '_none', [(v, w) for v in [a, b] for w in (M("n26"),)])}, 'y': N("n27").prop} is (c.some is a))
            b = (N("n30") or M("n32x"))
        except (E, TypeError) as e:
            b += (((d - M("n36x")) if [N("n39x")].pop() else (a, d)) - N("n45x"))
            g = gen([d, tuple(x for x in gen(d) if x is not None), ident(x=N("n50xx"))][:2], N("n53"))
            g.close()
            raise E(N("n64x"))
        finally:
            with N("n67x") as d, N("n68x"):
                for i, a in enumerate([clos(((not N("n70xx")) in [(c).__class__.__name__, N("n74")]))((M("n75xx").prop if (c + a) else clos(N("n80"))(N("n83x")))), clos([(d == a), isinstance(N("n88x"), N)][1])()]):
                    d = (-isinstance(((N("n90") is N("n93")) - (d in [M("n96"), M("n99x")])), N))
                (*[N("n100xx").prop], d)
    a = next(gen([b].pop(), ([(v, w) for v in [list(reversed([M("n105x"), N("n108xx")])), [M("n110x")].pop()] for w in (N("n111").meth(N("n112")),)] - c)))
    b[(q := [d, c, a][1:])] = a
    for c in list({'k': {**{'z': d}, 'y': (N("n176")).__class__.__name__}}.values()):
        def local(x, y=clos(N("n179x"))(a)):
            pass
            a = x
            return a
        with N("n184") as b:
            if d.some:
                with N("n190xx") as c, N("n191"):
                    say(nm(d))
try:
    say("# 11")
    r = program11(N("n192xx"), N("n193"), d=N("n194xx"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program12(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    say(nm(c))
    try:
        f = ident
        f({'a': d}.pop('a'))
        def local(x, y=N("n3").fresh(c, k=N("n7xx"))):
            pass
            say(nm(y))
            return a
        b
    finally:
        c = (N("n12x").meth(((b - c) and next(gen(c, N("n19x")))))).__class__.__name__
    c = isinstance((list(zip([(-b), (b == d)], [N("n27xx").prop]))).__class__.__name__, N)
try:
    say("# 12")
    r = program12(N("n28xx"), N("n29xx"), d=N("n30xx"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program13(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    raise E(list(gen(clos((M("n1") in [b, b]))(b), list(reversed([M("n9xx"), c])))))
    d = clos(M("n13"))()
    with N("n16"):
        def local(x, y={'a': (not d)}.pop('a')):
            pass
            a = x
            return x
        a = N("n23x")
    a, *b = [dict(a=N("n26"), b=(q := (c if c else M("n31")))), next(gen(list(zip([getattr(N("n33"), 'zip', M("n35x")), N("n37xx").fresh(N("n38"), k=b)], [(b and N("n44"))])), {"k": b, "j": c})), sorted([N("n50xx"), N("n51x"), N("n52")])[0]]
    for d in (M("n99"),):
        if list(zip([(q := [M("n108x")].pop()), a.some], [(N("n109").fresh(a, k=b) and (b - d))])):
            b = clos({'a': list(zip([[a, a][1], next(gen(M("n122xx"), N("n124")))], [(N("n126xx") == N("n129x"))]))}.pop('a'))()
            try:
                c = [[{"k": (not a), "j": boom(N("n132"))}, [(N("n135") is M("n136xx")), (d or c), (N("n142") is N("n145"))][::-1], clos([(v, w) for v in [N("n146"), c] for w in (c,)])(M("n153"))][:2], any(v for v in [max(M("n154x"), N("n155x"), key=lambda v: v.name), list(gen(d, sorted([N("n158xx"), M("n159xx"), M("n160")])[0]))])]
                b = M("n161xx")
            except E as e:
                try:
                    b = dict(a=N("n164xx"), b=f"{nm(a)}{nm(b)}")
                except (AttributeError, IndexError, TypeError, ValueError, E) as e:
                    f = default
                    f(N("n165"))
            finally:
                def local(x, y=dict(a=max(N("n167xx"), N("n168xx"), key=lambda v: v.name), b=b)):
                    pass
                    say(nm(y))
                    return a
        else:
            for d in list({'k': N("n229x")}.values()):
                for a in N("n264xx"):
                    return N("n280")
                    b = {"k": c, "j": a}
                else:
                    c += {'a': getattr(any(v for v in [c, N("n287x")]), '_none', (N("n289x") if c else N("n293")))}.get('b', (ident(*(a,)) if (a, M("n299")) else [v for v in [N("n301xx"), N("n304x")] if v]))
                d = N("n306x")
        b = getattr(b, '_none', b)
    else:
        for i, c in enumerate([sorted([N("n311x"), N("n312"), M("n313xx")])[0], dict(a=M("n314xx"), b=(a is N("n319")))]):
            d = [([v for v in [list(map(lambda v: N("n321"), [d, b])), dict(a=N("n327x"), b=M("n329x"))] if v]).__class__.__name__, {'a': [b].pop()}.get('b', M("n333x")), [tuple(x for x in gen(N("n334xx").meth(b)) if x is not None), ([M("n337x"), c, N("n341x")][::2] is list(map(lambda v: (v + M("n343x")), [N("n345x"), N("n347x")])))]][1:]
        else:
            a.attr = (lambda *v, **w: (v, w))(N("n349x"), k=getattr(boom(c), 'zip', getattr(b, 'zip', c)))
    with N("n375xx") as c, N("n376"):
        N("n378")
    g = gen((isinstance((M("n380") in [c, N("n384xx")]), N)).__class__.__name__, M.meth(N("n385xx"), M("n387x")))
    next(g)
    try:
        d = list(zip([[(v, w) for v in [M("n388x").meth(N("n389").fresh(c, k=N("n393x"))), (*[list(zip([b, N("n397x")], [b]))], ident(*(d,)))] for w in ((not d.some),)], b], [ident(*(list(reversed([{'a': N("n405x")}.get('b', M("n407")), default(a)])),))]))
    except (E, TypeError) as e:
        def local(x, y=(a and M("n412xx"))):
            pass
            z = N("n414")
            return N("n415")
        f = [].append
        f(a)
    else:
        with M("n419xx"):
            try:
                raise E(a)
                b = list(gen({i: v for i, v in enumerate([[v for v in [next(gen(b, a)), tuple(x for x in gen(N("n429")) if x is not None)] if v], a])}, b))
                def local(x, y=N("n434").meth(M("n435").meth(N("n437x")))):
                    pass
                    z = N("n438x")
                    return M("n439")
            except Exception:
                a = c
            else:
                with N("n444") as a, N("n445xx"):
                    say(nm(b))
                    a, c = dict(a=M.meth(N("n446"), next(gen(a, N("n449x")))), b=(-M("n452x"))), (lambda *v, **w: (v, w))(N("n453"), k=[f"{nm(d)}{nm(b)}", c.some, [N("n456x"), c]][::2])
            finally:
                a = [(lambda *v, **w: (v, w))(list(reversed([next(gen(d, a)), tuple(x for x in gen(N("n464xx")) if x is not None)])), k=c.some), (*[N("n466")], N("n467xx").prop), (q := (list(zip([d, N("n470x")], [b])) is M("n475x")))][1:]
try:
    say("# 13")
    r = program13(N("n476"), N("n477"), d=N("n478xx"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program14(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    b = N("n2x")
    c = [(v, w) for v in [[[v for v in [clos(b)(a), [N("n8xx"), b]] if v], d, boom({'a': N("n13")}.pop('a'))][:2], [clos([N("n16")].pop())(list(zip([d, b], [b]))), sorted([N("n23"), N("n24"), M("n25")])[0]]] for w in ([(v, w) for v in [((*[b], a) or (-a)), {'a': c}.pop('a')] for w in (default(getattr(a, '_none', N("n36xx"))),)],)]
    a = N("n39x")
    b = clos([N("n40xx")].pop())(N("n43x"))
    for i, c in enumerate([N("n44x")[a], (b, N("n50xx"))]):
        def local(x, y=[(M("n52x") if a else M("n55xx")), c]):
            pass
            a = x
            return N("n60")
        try:
            with N("n62"):
                c = (-c.some)
                a, *c = [N('r', next(gen(list(gen(N("n65xx"), N("n68x"))), d)), k=(d in [b, (N("n75xx") if N("n78") else N("n80"))])), (list(map(lambda v: ident(v), [(-N("n84")), (N("n85xx") is c)])) + list(reversed([[a, N("n92xx")], (c + N("n95"))]))), d]
            del a
            a = clos(N("n99x"))(M("n101xx").prop)
            g = gen(((N("n102").prop and (a and d)) if {**{'z': b}, 'y': (N("n109xx"), N("n111"))} else (N("n114x") + N("n115xx").fresh(a, k=d))), N("n121"))
            say(nm(next(g)))
        except (AttributeError, IndexError, TypeError, ValueError, E) as e:
            for d in (N("n159xx"),):
                if b:
                    say(nm(a))
                else:
                    b = M("n167xx")
                with N("n169xx"):
                    [(a).__class__.__name__].pop()
            g = gen(N("n175x"), (lambda *v, **w: (v, w))([list(zip([N("n177"), d], [N("n180")])), (-c)], k=[d, (-N("n187x"))][2]))
            next(g)
    for d in [d, a, c]:
        g = gen(c, next(gen(list(map(lambda v: (v + M("n234xx")), [ident(d), {'a': b}.pop('a')])), N("n240").meth(getattr(d, 'zip', N("n244x"))))))
        g.close()
    else:
        c = clos(next(gen(N("n246xx"), M("n248"))))()
    def local(x, y=list(reversed([[N("n250x"), d, a][:2], M("n255xx")]))):
        pass
        say(nm(y))
        return N("n258")
    b = a
try:
    say("# 14")
    r = program14(N("n261x"), N("n262xx"), d=N("n263"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program15(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    b = ([((*[d], c) or (c is N("n8"))), N("n9")][0], max(N("n11xx"), N("n12"), key=lambda v: v.name))
    b = N("n13x").meth(c)
    for d in [dict(a=(clos(N("n17"))(M("n18xx"))).__class__.__name__, b=N("n21xx")), c, list(map(lambda v: M("n25x"), [b, b.some]))]:
        try:
            a = (N("n49xx") == list(reversed([(not (N("n50") or a)), isinstance({**{'z': a}, 'y': N("n56x")}, N)])))
        finally:
            N("n59x")
        with N("n62") as c, M("n63x"):
            b, *b = [[v for v in [list(reversed([(b, N("n66")), (b if b else M("n73x"))])), (lambda *v, **w: (v, w))(N("n74x").prop, k=a)] if v], list(gen(a, ident(x=(-N("n79x"))))), {"k": ((b + d) - d), "j": ident(x=(N("n87") or N("n90xx")))}]
    return {'a': max(M("n91xx"), N("n92xx"), key=lambda v: v.name)}.get('b', N("n93x").fresh(N("n94xx").meth(b), k=(d).__class__.__name__))
try:
    say("# 15")
    r = program15(N("n99"), M("n100"), d=N("n101"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program16(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    def local(x, y=c):
        pass
        say(nm(y))
        return a
    del a.attr
    c += [[N("n25xx"), (M("n28xx") == b), d][:2]].pop()
    a, *d = [next(gen(list(reversed([(c + d), (M("n38xx")).__class__.__name__])), [(c).__class__.__name__, (N("n41x")).__class__.__name__][2])), max(M("n43x"), N("n44"), key=lambda v: v.name), {'a': (b.some if [v for v in [c, c] if v] else b.some)}.get('b', ({i: v for i, v in enumerate([c, N("n52")])} if list(reversed([b, b])) else (q := d)))]
    try:
        c = ((*[(b.some + clos(c)(b))], (q := N("n63x").fresh(d, k=d))) in [(N("n68xx"), d), ([d, [N("n74x"), N("n77xx"), d][1:]][0] in [max(N("n80xx"), N("n81xx"), key=lambda v: v.name), (-list(map(lambda v: (v + N("n82")), [c, a])))])])
        f = ident
        f(d)
    except (AttributeError, IndexError, TypeError, ValueError, E) as e:
        d = N("n91")
    else:
        c += ((*[getattr(N("n93x"), '_none', N("n95"))], [(v, w) for v in [N("n96xx"), M("n98")] for w in (b,)]) or any(v for v in [N("n103"), b]))
    b, *c = [b, ([d, [M("n111xx"), M("n112x")][0]] == N("n115x")), M("n117xx")]
    return [any(v for v in [(c + b), a]), (tuple(x for x in gen(N("n124x")) if x is not None)).__class__.__name__, N("n126xx").prop][:2]
try:
    say("# 16")
    r = program16(M("n127xx"), N("n128x"), d=N("n129x"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program17(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    g = gen(getattr(M("n1x"), '_none', N("n3x")), M("n5x").prop)
    next(g)
    assert list(gen(N("n7"), M("n9x"))), N("n10x")
    def local(x, y=(*[len([M("n12xx")])], [a, c][0])):
        pass
        say(nm(y))
        return y
    say(nm(a))
    return N("n19xx")
try:
    say("# 17")
    r = program17(N("n21"), M("n22xx"), d=N("n23xx"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program18(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    with M("n2"):
        f = default
        f(M("n6x"))
    d = (not max(M("n7"), N("n8xx"), key=lambda v: v.name))
    a = ([(dict(a=b, b=N("n11xx")) in [(N("n14xx") and d), N("n17x")]), [v for v in [(a if N("n21x") else d), sorted([M("n25"), N("n26x"), N("n27x")])[0]] if v], clos(list(reversed([b, a])))(max(M("n32xx"), N("n33x"), key=lambda v: v.name))][::2] or ((-N("n34")[N("n36")]) and N("n38xx")))
    a, *a = [(a, d), [(v, w) for v in [{**{'z': (not a)}, 'y': b}, clos((M("n48"), M("n49x")))((N("n52xx") is c))] for w in (a,)], default(any(v for v in [d, {i: v for i, v in enumerate([M("n60"), c])}]), getattr([v for v in [N("n63xx"), b] if v], 'zip', N("n67x")), list(reversed([(N("n69x") and d), dict(a=N("n73"), b=N("n75x"))])), z=getattr(sorted([N("n77x"), M("n78xx"), M("n79")])[0], '_none', list(zip([b, N("n82x")], [b]))), w=N("n86xx").fresh([M("n87x")].pop(), k=[d, N("n91"), a][::-1]))]
    d = b
    d = max(N("n97xx"), N("n98x"), key=lambda v: v.name)
try:
    say("# 18")
    r = program18(N("n99x"), N("n100x"), d=N("n101x"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program19(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    say(nm(b))
    with N("n2x"):
        c = d
    a = dict(a={'a': ((N("n8xx") == d) and getattr(b, 'zip', N("n13x")))}.get('b', getattr(a, 'zip', (N("n17") in [d, b]))), b=N("n23"))
    say(nm(c))
try:
    say("# 19")
    r = program19(N("n25"), N("n26x"), d=N("n27xx"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program20(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    d = {'a': N("n1")}.pop('a')
    f = ident
    f(getattr(M.meth(N("n3xx"), a), 'zip', N("n6xx")))
    d, *a = [any(v for v in [swap(*[list(gen(N("n8xx"), M("n11"))), list(gen(a, M("n15xx"))), any(v for v in [a, d])], **{'k': (N("n20x") in [c, c])}), d]), c, d]
    d = [(v, w) for v in [(f"{nm(b)}{nm(a)}" if max(N("n32xx"), M("n33"), key=lambda v: v.name) else clos(N("n34x")[M("n36")])((c is N("n40x")))), M("n41xx")] for w in ([(v, w) for v in [[(b).__class__.__name__].pop(), d] for w in (N("n48x"),)],)]
    def local(x, y=(N("n49") in [f"{nm(b)}{nm(a)}", {**{'z': b}, 'y': N("n54x")}])):
        nonlocal a
        x = None
        return N("n56xx")
    return dict(a={**{'z': [b, N("n59")]}, 'y': (*[d], N("n63"))}, b=([N("n65xx"), N("n68x")][2] or (c or c)))
try:
    say("# 20")
    r = program20(N("n73"), N("n74x"), d=M("n75x"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program21(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    c = clos([v for v in [clos({'a': M("n2x")}.pop('a'))((a, c)), N("n7xx")] if v])()
    d = getattr([v for v in [a, [list(reversed([N("n12xx"), d])), N("n16"), getattr(a, 'zip', d)][::-1]] if v], '_none', d)
    say(nm(c))
    c = ((not ((M("n23"), c) - list(map(lambda v: None, [M("n30xx"), M("n32xx")])))) is c)
    return [N("n35xx"), N("n38x"), ({'a': d}.get('b', a) if (d, M("n45x")) else d)][:2]
try:
    say("# 21")
    r = program21(N("n49xx"), N("n50xx"), d=N("n51"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program22(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    b = clos(list(reversed([(tuple(x for x in gen(a) if x is not None) + M("n3xx")), [(v, w) for v in [next(gen(b, N("n8x"))), f"{nm(c)}{nm(c)}"] for w in (wrapped(d, b=b, k=d),)]])))()
    d = (list(reversed([list(reversed([d, (c).__class__.__name__])), {'a': list(reversed([N("n19xx"), M("n21x")]))}.get('b', M("n24xx"))])) is default(N("n25xx").fresh(list(zip([N("n26"), N("n28")], [N("n30xx")])), k=N("n32").prop), {**{'z': list(reversed([N("n34x"), N("n35xx")]))}, 'y': clos(N("n37"))()}, clos(c)(), z=[N("n41x"), sorted([M("n43"), N("n44"), N("n45")])[0]], w=M("n46x")))
    f = ident
    f((q := d))
try:
    say("# 22")
    r = program22(N("n50x"), N("n51xx"), d=M("n52x"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program23(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    a = [list(reversed([a, c]))].pop()
    b = (next(gen(a, (list(reversed([N("n7"), N("n10")])) == getattr(N("n11"), 'zip', d)))) == list(map(lambda v: v, [max(N("n17x"), N("n18x"), key=lambda v: v.name), N("n20")])))
    say(nm(a))
    d = N("n21")
    a = getattr(getattr(([v for v in [c, a] if v] == M("n28")), 'zip', list(map(lambda v: N("n30xx"), [[b, M("n33"), d][::-1], N("n38x")]))), '_none', (b if (M("n41x") - {'a': c}.get('b', M("n46x"))) else tuple(x for x in gen(b.some) if x is not None)))
    d = b.some
    return (a.some + (getattr(N("n47xx"), 'zip', N("n50")) in [(M("n51x") - M("n53x")), (M("n55") in [d, N("n59xx")])]))
try:
    say("# 23")
    r = program23(M("n61x"), N("n62xx"), d=N("n63"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program24(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    b = [clos(b)(), clos((getattr(M("n3xx"), '_none', N("n5x")) and N("n8x")))((isinstance(a, N) in [d, list(map(lambda v: ident(v), [c, M("n17xx")]))])), M("n19")][::2]
    with N("n23") as d, N("n24xx"):
        d = deep(2, (b, default(max(N("n27xx"), M("n28"), key=lambda v: v.name), M("n29xx").prop, [(v, w) for v in [a, a] for w in (N("n35xx"),)], z=max(N("n36"), N("n37xx"), key=lambda v: v.name), w=getattr(N("n39x"), 'zip', N("n40xx")))))
    with N("n43xx"):
        c = N("n46xx").prop
    g = gen([list(reversed([{'a': d}.get('b', N("n50")), sorted([M("n51x"), N("n52"), M("n53x")])[0]])), [N("n54xx")].pop(), [(d).__class__.__name__, (q := b)]][::2], ((lambda *v, **w: (v, w))(getattr(d, 'zip', d), k=b) or {'a': [a, M("n69"), a][::2]}.get('b', M("n73"))))
    say(nm(next(g)))
    a = M("n74")
    say(nm(c))
try:
    say("# 24")
    r = program24(N("n76"), N("n77xx"), d=N("n78x"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program25(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    g = gen([max(N("n1x"), M("n2xx"), key=lambda v: v.name), N("n3x").prop][0], {i: v for i, v in enumerate([d, N("n6xx")])})
    next(g); g.send(N('sn'))
    b = list(gen(any(v for v in [M("n8x").fresh(list(zip([M("n10x"), N("n11")], [M("n13xx")])), k=(a, b)), clos(M("n19x"))(list(map(lambda v: ident(v), [M("n24"), c])))]), {i: v for i, v in enumerate([ident(x=sorted([N("n27xx"), N("n28x"), N("n29x")])[0]), M("n31xx")])}))
    try:
        try:
            c = sorted([N("n32x"), M("n33"), N("n34xx")])[0]
            del c
            c = {'a': [c].pop()}.get('b', {i: v for i, v in enumerate([N("n37xx"), b])})
            d = d
        except (AttributeError, IndexError, TypeError, ValueError, E) as e:
            l.append(getattr(max(M("n56x"), N("n57xx"), key=lambda v: v.name), 'zip', [c, boom(b), {'a': M("n63")}.pop('a')][:2]))
    except Exception:
        b, *c = [([v for v in [clos(a)(N("n73")), (lambda *v, **w: (v, w))(b, k=N("n77x"))] if v] and {"k": (N("n80") is N("n81")), "j": next(gen(M("n83x"), N("n85")))}), [tuple(x for x in gen(any(v for v in [N("n87"), a])) if x is not None)].pop(), a]
    else:
        return M("n93xx").prop
    l[:1] = [[N("n120xx"), clos(b)(), (N("n123")).__class__.__name__][::-1]]
    if b:
        d = {'a': sorted([N("n127"), N("n128"), N("n129x")])[0]}.pop('a')
    else:
        try:
            say(nm(b))
            for c in (a.some,):
                return
        except E:
            f = [].append
            f(N("n173x"))
            c = (M("n175") == b)
            raise E(N("n180x"))
        else:
            try:
                b = list(reversed([sorted([N("n181xx"), N("n182"), M("n183x")])[0], list(map(lambda v: v, [ident(getattr(M("n186"), 'zip', N("n188xx")), M("n190").prop), (default() and d)]))]))
                a = N("n193").meth((-list(gen(clos(M("n194xx"))(), max(N("n196"), N("n197"), key=lambda v: v.name)))))
            except Exception as e:
                return a
    say(nm(b))
    c = M("n201")
    d = (list(gen(sorted([M("n202x"), M("n203xx"), N("n204x")])[0], a)) if b else b)
try:
    say("# 25")
    r = program25(N("n211"), N("n212"), d=N("n213x"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program26(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    c = N("n1x")
    for d in list({'k': f"{nm(c)}{nm(c)}"}.values()):
        try:
            b = M("n45xx").prop
        except E:
            d = tuple(x for x in gen(M("n46x").meth([(M("n47") + a)].pop())) if x is not None)
        else:
            clos(N("n51x"))(((lambda *v, **w: (v, w))(N("n53xx"), k=(N("n56x") or N("n57"))) or M("n60xx")))
    else:
        for c in (M("n101x"),):
            del d
            def local(x, y=clos([(v, w) for v in [a, b] for w in (N("n111x"),)])()):
                pass
                z = M("n112")
                return a
    f = ident
    f(N("n114").prop)
    assert a, N("n117x")
    a = a
    with N("n121xx"):
        say(nm(b))
        try:
            c = next(gen(list(map(lambda v: v, [[[v for v in [N("n126"), N("n129")] if v]].pop(), list(gen((N("n130") or a), list(reversed([N("n134"), N("n136xx")]))))])), M("n139x")))
            say(nm(a))
            d = b
        except E as e:
            b = b
try:
    say("# 26")
    r = program26(M("n144"), N("n145x"), d=N("n146x"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program27(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    d += dict(a=isinstance([N("n2"), M("n4"), b][:2], N), b=d)
    say(nm(a))
    c = next(gen(a, a))
try:
    say("# 27")
    r = program27(M("n13"), N("n14xx"), d=N("n15x"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program28(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    try:
        b = clos(N("n2xx"))()
        d = [([(not b), N("n6"), [c, N("n10x"), d][::-1]][::2] if ident(*(M("n14xx"),)) else max(N("n15xx"), N("n16xx"), key=lambda v: v.name)), (*[c], (isinstance(M("n19x"), N)).__class__.__name__)][2]
        a = M("n21xx").prop
    except Exception:
        for i, c in enumerate([max(N("n22"), N("n23x"), key=lambda v: v.name), M("n25x")]):
            f = default
            f(a)
    finally:
        d = ([v for v in [tuple(x for x in gen(dict(a=N("n29"), b=M("n30xx"))) if x is not None), tuple(x for x in gen(c) if x is not None)] if v] + [N("n34").fresh(list(map(lambda v: ident(v), [d, b])), k=M("n42")), [[c, a, a][::2], getattr(b, 'zip', N("n51")), f"{nm(b)}{nm(c)}"][1:]])
    b += ([(v, w) for v in [a, {'a': N("n56xx")}.get('b', a)] for w in (tuple(x for x in gen(b) if x is not None),)] + getattr({'a': d}.get('b', N("n64xx")), 'zip', [d, M("n67x")][0]))
    try:
        b = N("n69")
    except E:
        d = {'a': [a].pop()}.get('b', {i: v for i, v in enumerate([a, [swap(N("n76xx"), N("n78xx"), d, d=a, k=N("n83xx"))].pop()])})
    else:
        try:
            b = (N("n85xx").fresh(list(zip([M("n87xx"), M("n89")], [(N("n91xx") - N("n93xx"))])), k=list(map(lambda v: N("n95"), [N("n96"), [a, N("n101xx")]]))) + {"k": M("n102xx").fresh(next(gen(b, N("n106"))), k=d), "j": a})
            a += list(zip([a, M("n113")], [clos(N("n116x"))((-N("n118xx")))]))
            c = c
        except Exception:
            g = gen({"k": M("n121").fresh(next(gen(N("n122x"), a)), k=(*[d], d)), "j": N("n130x")}, max(N("n132x"), N("n133x"), key=lambda v: v.name))
            next(g)
            raise E(N("n136x"))
        else:
            return list(gen(dict(a=[M("n138"), M("n140x")], b=M("n142x")), a))
    b, a = (b if [(-a), N("n150x")] else (-(*[M("n152")], M("n154x")))), (-isinstance(b, N))
    d = tuple(x for x in gen(N("n158")) if x is not None)
    f = clos(b)
    f((not N("n160x")))
    return {**{'z': ((*[N("n161xx")], c) + [c, a][2])}, 'y': list(gen(d, dict(a=M("n171"), b=c)))}
try:
    say("# 28")
    r = program28(N("n175xx"), N("n176x"), d=N("n177"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program29(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    a, d = N("n2xx"), c
    N("n5")
    b = list(zip([a, M("n9")], [M("n11xx").meth((any(v for v in [c, c]), [N("n17"), N("n19xx"), a][:2]))]))
    b = (a, max(M("n24xx"), N("n25x"), key=lambda v: v.name))
    if (b or list(reversed([{"k": M("n29"), "j": M("n31xx")}, N("n33x")]))):
        a = [(N("n35x") + sorted([N("n36x"), M("n37x"), M("n38x")])[0])].pop()
    with N("n41x") as b, N("n42"):
        try:
            g = gen(list(zip([clos((lambda *v, **w: (v, w))(d, k=N("n45x")))(N("n47xx")), b], [f"{nm(c)}{nm(d)}"])), getattr(dict(a=c.some, b={'a': N("n51x")}.get('b', M("n53xx"))), '_none', c))
            next(g); g.send(N('sn'))
        except (AttributeError, IndexError, TypeError, ValueError, E) as e:
            b, *d = [N("n57"), clos(f"{nm(a)}{nm(c)}")(), ((N("n59x") or b)).__class__.__name__]
        else:
            d = f"{nm(a)}{nm(a)}"
    return [N("n64xx"), (*[{i: v for i, v in enumerate([a, a])}], (c - c))]
try:
    say("# 29")
    r = program29(N("n73xx"), N("n74x"), d=N("n75xx"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program30(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    if N("n1xx"):
        b = list(zip([max(N("n3xx"), N("n4"), key=lambda v: v.name), (((N("n6") or N("n7x")) - getattr(N("n9"), 'zip', N("n12xx"))) + (N("n14xx") - deep(2, a)))], [next(gen(getattr((b if b else M("n22")), 'zip', clos(a)()), getattr({**{'z': d}, 'y': N("n28x")}, 'zip', c)))]))
    try:
        f = [].append
        f(([d, N("n33xx")] - (N("n35xx") + clos(b)(N("n40xx")))))
    finally:
        try:
            c = list(gen(N("n41")[(N("n42") + (N("n44x") if N("n46x") else a))], ([v for v in [list(reversed([N("n50x"), a])), (d is M("n56xx"))] if v] or (*[c], list(map(lambda v: None, [M("n63x"), c]))))))
        except (E, TypeError) as e:
            for i, b in enumerate([[(q := (*[N("n66")], c)), max(N("n70x"), N("n71xx"), key=lambda v: v.name)], [v for v in [N("n73x"), (*[(N("n75xx") in [M("n77xx"), N("n79x")])], (c and N("n83x")))] if v]]):
                if [b, ({i: v for i, v in enumerate([N("n86x"), N("n88xx")])}).__class__.__name__]:
                    c = clos((-isinstance((d is N("n93x")), N)))()
        else:
            return b
    c = f"{nm(a)}{nm(b)}"
    b = {'a': N("n102x")}.get('b', M("n103xx"))
    a = {"k": any(v for v in [[v for v in [next(gen(N("n105"), N("n107"))), N("n109x")] if v], any(v for v in [N("n111xx"), N("n113x")])]), "j": list(map(lambda v: ident(v), [N("n117xx"), [a, d.some][2]]))}
    d = [(v, w) for v in [(N("n122") and tuple(x for x in gen((N("n124"), c)) if x is not None)), M("n127xx").meth(clos(getattr(M("n129xx"), 'zip', N("n130xx")))())] for w in (any(v for v in [f"{nm(c)}{nm(b)}", (-(N("n132x") == N("n135xx")))]),)]
    try:
        b = list(reversed([({**{'z': M("n136x")[N("n138x")]}, 'y': N("n139x").meth(N("n141x"))} - N("n142")[a]), (*[((c, N("n147xx")) == getattr(d, 'zip', c))], [v for v in [(M("n153")).__class__.__name__, N("n156xx")] if v])]))
    finally:
        try:
            return
            for a in N("n205xx"):
                c = ([(v, w) for v in [sorted([N("n208x"), M("n209xx"), N("n210xx")])[0], (any(v for v in [N("n211x"), a]), M("n216"))] for w in ([(a == a)].pop(),)] in [M("n222xx"), (q := M("n223"))])
        except Exception:
            for d in [d, clos([list(gen(c, b))].pop())(), [ident(*((not N("n231")),)), (q := N("n234xx"))][2]]:
                d, b = a, [v for v in [{'a': next(gen(M("n268x"), a))}.get('b', [N("n272x"), N("n275xx")][1]), N("n276xx")] if v]
            d = f"{nm(d)}{nm(a)}"
        finally:
            b[{'a': N("n280")[d]}.get('b', (not N("n284")))] = N("n286xx")
    for a in list({'k': c}.values()):
        try:
            if (d, f"{nm(a)}{nm(d)}"):
                d, a = {**{'z': N("n358x").meth({i: v for i, v in enumerate([N("n359x"), c])})}, 'y': [isinstance(a, N), {i: v for i, v in enumerate([N("n365"), N("n368")])}, (N("n370x") if c else b)][1:]}, M("n375x")
            else:
                a = [N("n377x")].pop()
        except E as e:
            b = c
try:
    say("# 30")
    r = program30(N("n381xx"), N("n382"), d=N("n383x"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program31(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    a = (*[any(v for v in [tuple(x for x in gen((c is N("n4x"))) if x is not None), (getattr(a, 'zip', d), {**{'z': d}, 'y': N("n11")})])], [(a - M("n16xx")), N("n17xx")])
    say(nm(d))
    b = clos(N("n19xx")[(a == [b, N("n25x"), b][::-1])])((isinstance((a if N("n31xx") else N("n32xx")), N) - ((N("n34")).__class__.__name__ is list(zip([d, a], [c])))))
    return {'a': (list(reversed([b, b])) and {'a': d}.get('b', c))}.get('b', M("n50").meth(wrapped(N("n52x"), b=c, k=a)))
try:
    say("# 31")
    r = program31(N("n57x"), N("n58x"), d=N("n59x"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program32(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    say(nm(c))
    for a in [M("n2xx"), (N("n3") if clos(max(N("n5x"), N("n6"), key=lambda v: v.name))((b - d)) else (list(map(lambda v: (v + M("n11")), [N("n13"), d])) if dict(a=a, b=b) else [(v, w) for v in [N("n21xx"), M("n24x")] for w in (N("n26x"),)])), (-getattr({"k": b, "j": c}, 'zip', N("n32")))]:
        g = gen(({'a': isinstance(a, N)}.get('b', b) if a else N("n58xx")), ([(v, w) for v in [N("n60xx")[M("n61x")], b] for w in ({'a': M("n66x")}.pop('a'),)] or isinstance((a + M("n70x")), N)))
        g.close()
        f = ident
        f(b)
    c = (-tuple(x for x in gen((lambda *v, **w: (v, w))(N("n73").prop, k={**{'z': c}, 'y': N("n77xx")})) if x is not None))
    c = d
try:
    say("# 32")
    r = program32(M("n80xx"), N("n81x"), d=N("n82x"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program33(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    with N("n1") as b:
        say(nm(c))
    d = [[f"{nm(a)}{nm(d)}"].pop()].pop()
    g = gen(M("n5xx"), any(v for v in [a, c]))
    g.close()
    return (((N("n12x") or b) or tuple(x for x in gen(N("n15xx")) if x is not None))).__class__.__name__
try:
    say("# 33")
    r = program33(N("n17x"), N("n18"), d=N("n19x"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program34(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    a.attr = getattr(N("n2"), 'zip', b)
    b = N("n16x")
    with N("n17xx") as a:
        c = [v for v in [[v for v in [N("n21").prop, ((b if b else b) - list(zip([N("n29x"), N("n30x")], [d])))] if v], any(v for v in [a, N("n36")({"k": a, "j": a}, k=(a, d))])] if v]
        g = gen(dict(a=M("n45x"), b=(N("n47xx").fresh(N("n49"), k=d) is b)), c.some)
        del g
    b = {'a': list(gen(ident(x=sorted([N("n54"), M("n55xx"), N("n56xx")])[0]), local((*[a], a))))}.get('b', {"k": dict(a=clos(M("n61xx"))(), b={**{'z': d}, 'y': b}), "j": getattr(M("n67xx"), '_none', M("n70xx"))})
try:
    say("# 34")
    r = program34(N("n71"), N("n72xx"), d=N("n73x"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program35(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    for a in ((getattr(list(map(lambda v: N("n35x"), [b, c])), '_none', sorted([N("n40xx"), N("n41"), N("n42")])[0]), N("n43x")),):
        say(nm(d))
        for i, b in enumerate([(c - [tuple(x for x in gen(a) if x is not None), b]), b]):
            b = [max(N("n60x"), N("n61"), key=lambda v: v.name)].pop()
    c, c = d, tuple(x for x in gen(drop({"k": c, "j": N("n67x")})) if x is not None)
    c = N("n68xx").prop
    del a.attr
    return ({i: v for i, v in enumerate([N("n101xx"), tuple(x for x in gen(N("n103")) if x is not None)])}, (q := N("n104xx").prop))
try:
    say("# 35")
    r = program35(N("n105"), N("n106"), d=M("n107x"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program36(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    try:
        del a
        a = N("n2")
        if N("n3"):
            for a in gen(c, list(map(lambda v: v, [f"{nm(a)}{nm(b)}", M("n35x")]))):
                d, d = N("n50x")[N("n51")], d
                d, *a = [M("n56x"), N("n57x").meth(N('r', {'a': N("n58xx")}.get('b', a), k=b)), (-c)]
            d, *b = [list(reversed([c, N("n68x").fresh((a in [a, N("n73x")]), k=next(gen(N("n75x"), N("n78"))))])), (-list(map(lambda v: N("n80"), [[N("n81"), N("n83xx"), M("n86")][::2], [M("n87x"), N("n89x")]]))), a]
        else:
            c = {"k": {'a': N("n94")}.get('b', dict(a=(c - N("n98xx")), b=b)), "j": [(v, w) for v in [N("n101xx"), list(reversed([d, N("n106xx")]))] for w in ({**{'z': getattr(d, '_none', c)}, 'y': (not d)},)]}
        try:
            try:
                c, *d = [list(gen([N("n114x"), f"{nm(a)}{nm(c)}", M("n116xx")][::-1], max(N("n117"), M("n118"), key=lambda v: v.name))), f"{nm(b)}{nm(d)}", {**{'z': N("n119xx")[(M("n121xx"), N("n123xx"))]}, 'y': {"k": M("n124")[d], "j": (N("n127x") or d)}}]
                b += N("n131xx").fresh((not N("n132xx")[N("n133xx")]), k=tuple(x for x in gen((*[d], a)) if x is not None))
                a = {i: v for i, v in enumerate([b, (lambda *v, **w: (v, w))({"k": [d, b], "j": M("n145xx")}, k=[[M("n147"), N("n150x")], f"{nm(b)}{nm(d)}"])])}
            finally:
                try:
                    assert list(zip([(M("n151").fresh(N("n153xx"), k=d) in [(c - N("n159x")), N("n160xx")]), any(v for v in [dict(a=N("n163x"), b=N("n164xx")), getattr(b, '_none', c)])], [b])), N("n172x")
                    a.attr = c
                    say(nm(d))
                except (AttributeError, IndexError, TypeError, ValueError, E) as e:
                    say(nm(c))
                    return
            with N("n184") as a, N("n185"):
                (a or sorted([N("n188x"), N("n189x"), M("n190")])[0])
            c = (*[(*[a], getattr([c, d], 'zip', M("n197x").meth(N("n198xx"))))], {"k": N("n200x").fresh(getattr(a, '_none', a), k=dict(a=a, b=M("n208x"))), "j": clos((N("n210xx") in [d, d]))()})
        except (E, TypeError) as e:
            c = N("n215xx").meth(N("n216"))
            f = default
            f((not M("n219x")))
    except E:
        d = list(zip([dict(a={'a': list(map(lambda v: None, [d, d]))}.pop('a'), b=({i: v for i, v in enumerate([a, c])} if f"{nm(d)}{nm(d)}" else f"{nm(d)}{nm(b)}")), N("n231xx")], [{'a': a}.get('b', M("n234"))]))
    g = gen(a, clos((lambda *v, **w: (v, w))(c, k=N("n241")))())
    say(nm(next(g)))
    c = tuple(x for x in gen({**{'z': sorted([N("n242xx"), M("n243xx"), N("n244xx")])[0]}, 'y': {'a': {**{'z': d}, 'y': N("n248")}}.pop('a')}) if x is not None)
    if [N("n249").prop].pop():
        g = gen(c.some, b)
        say(nm(next(g)))
    else:
        del d
        d = {"k": swap(*[M("n252"), b, M("n257xx")], **{'k': c}), "j": M("n261x")}
    del a.attr
    try:
        try:
            d = (q := (N("n295") in [(a if [d].pop() else list(map(lambda v: M("n301xx"), [N("n303xx"), M("n305")]))), b]))
            a = {'a': (((c - a), a) - c)}.get('b', (M("n317") or a))
        except E as e:
            try:
                f = default
                f(N("n320"))
            except Exception as e:
                assert N("n323"), M("n324xx")
            say(nm(a))
        c = d
        a = M("n328xx")
    except (E, TypeError) as e:
        raise E(isinstance(sorted([N("n329"), N("n330"), N("n331")])[0], N))
        b
try:
    say("# 36")
    r = program36(N("n334"), N("n335x"), d=N("n336"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program37(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    d = getattr(sorted([N("n1xx"), N("n2"), N("n3x")])[0], 'zip', local(N("n5")))
    f = ident
    f(isinstance(N("n7xx"), N))
    try:
        c = N("n8xx").prop
        b = [(v, w) for v in [N("n9xx"), swap([v for v in [getattr(M("n11x"), 'zip', c), (d, a)] if v], (not d), N("n22"), d=[(v, w) for v in [f"{nm(b)}{nm(c)}", dict(a=d, b=N("n26xx"))] for w in ((b is N("n29")),)], k=N("n31xx")[list(map(lambda v: (v + N("n32")), [c, M("n37x")]))])] for w in (({'a': max(N("n38x"), N("n39xx"), key=lambda v: v.name)}.pop('a') and N("n40x").prop),)]
    except Exception as e:
        clos((-((M("n41x") == M("n43")) is N("n45x")[M("n47xx")])))()
        try:
            try:
                return
                try:
                    return
                    max(M("n58"), M("n59xx"), key=lambda v: v.name)
                except Exception as e:
                    say(nm(a))
                    raise E((q := [N("n61x"), a, d][::-1])) from None
            except E as e:
                for a in list({'k': tuple(x for x in gen(any(v for v in [b, N("n108x")])) if x is not None)}.values()):
                    break
                else:
                    raise E((q := N("n110x")))
            else:
                b = dict(a=(N("n112x") == [dict(a=d, b=c), a]), b=(not (*[[a].pop()], sorted([N("n121"), M("n122xx"), N("n123x")])[0])))
            assert N("n125"), N("n126")
        except E:
            with N("n127xx") as b:
                say(nm(d))
        finally:
            def local(x, y=a):
                pass
                say(nm(y))
                return x
        raise
    assert ({"k": b, "j": N('r', d, k=d)} == {'a': N("n150xx")(a, k=N("n154xx"))}.get('b', clos(N("n155x"))(N("n157")))), M("n159")
    return list(map(lambda v: v, [({'a': a}.get('b', N("n164")) is (a + N("n168"))), N("n171xx")]))
try:
    say("# 37")
    r = program37(M("n172"), N("n173"), d=N("n174"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program38(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    for i, d in enumerate([list(map(lambda v: v, [N("n3xx"), a])), getattr((list(map(lambda v: (v + N("n7")), [M("n9xx"), N("n12xx")])) if N("n13xx") else list(zip([M("n16"), d], [d]))), 'zip', {**{'z': (*[d], b)}, 'y': dict(a=N("n25xx"), b=N("n27x"))})]):
        for c in N("n64"):
            with M("n75x") as c, N("n76xx"):
                say(nm(a))
            b, *d = [[v for v in [{'a': {**{'z': N("n77")}, 'y': a}}.pop('a'), (N("n82xx") == [b, c])] if v], max(N("n87x"), M("n88"), key=lambda v: v.name), (getattr(c, 'zip', next(gen(M("n92"), N("n93")))), ({'a': a}.pop('a') + N("n97x")))]
        with N("n100xx"):
            N("n103x").prop
            g = gen(tuple(x for x in gen(M("n104xx").meth((c if N("n107xx") else c))) if x is not None), (M("n112") is getattr({i: v for i, v in enumerate([N("n114x"), N("n115xx")])}, '_none', {'a': N("n118xx")}.pop('a'))))
            next(g)
    c = [a].pop()
    c = [max(N("n121"), N("n122x"), key=lambda v: v.name), deep(2, dict(a=f"{nm(a)}{nm(a)}", b=N("n124x")))][1]
    def local(x, y=((M("n126xx") is M("n128")) - (-c))):
        nonlocal a
        a = x
        return a
    a = ((-b), deep(2, (f"{nm(a)}{nm(b)}" is (N("n135"), b))))
    try:
        try:
            b, c = list(reversed([(-(lambda *v, **w: (v, w))(a, k=a)), f"{nm(b)}{nm(d)}"])), {**{'z': list(reversed([list(gen(c, d)), d]))}, 'y': M("n150")}
        except E as e:
            c, *c = [[tuple(x for x in gen(d) if x is not None), {'a': N("n153xx").prop}.get('b', c), deep(2, M("n157x"))][::2], (getattr((-b), '_none', N("n160"))).__class__.__name__, [any(v for v in [N("n163xx"), d])].pop()]
            raise E(M("n167xx")) from None
        finally:
            b, d = c, ((*[(N("n171x") in [N("n173x"), c])], a) if {i: v for i, v in enumerate([c, (b, c)])} else ({'a': c}.pop('a'), a))
        if N('r', [(v, w) for v in [N("n189x").prop, [d, N("n193x")]] for w in (sorted([M("n194x"), N("n195xx"), N("n196xx")])[0],)], k={"k": N("n198"), "j": (*[c], N("n201"))}):
            d = N("n203xx")
        else:
            say(nm(c))
        d = a
    except Exception:
        l.append(((dict(a=c, b=c) - N("n241x")) - (N("n243xx").meth(a) + deep(2, N("n247xx")))))
        raise E(M("n256xx"))
try:
    say("# 38")
    r = program38(N("n257x"), N("n258xx"), d=N("n259"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program39(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    f = a.meth
    f([N("n1").prop, d.some])
    c = (a.some - [(v, w) for v in [[(v, w) for v in [(M("n3x")).__class__.__name__, getattr(N("n4"), '_none', N("n7xx"))] for w in (c,)], f"{nm(c)}{nm(b)}"] for w in (([M("n10xx"), b, d][::2], list(map(lambda v: (v + N("n16xx")), [N("n19x"), M("n20")]))),)])
    c = (a == clos(a)())
    try:
        a = N("n26x").fresh(clos(sorted([M("n27xx"), N("n28xx"), N("n29x")])[0])(), k=(q := next(gen(b, any(v for v in [b, M("n35x")])))))
    except (E, TypeError) as e:
        say(nm(b))
        d = dict(a={i: v for i, v in enumerate([[clos(M("n36xx"))(b), dict(a=N("n40"), b=d)], {i: v for i, v in enumerate([max(N("n44"), M("n45x"), key=lambda v: v.name), N("n46x").prop])}])}, b=(lambda *v, **w: (v, w))(swap(*[max(N("n47x"), N("n48"), key=lambda v: v.name), d, clos(M("n52x"))(c)], **{'k': [v for v in [b, b] if v]}), k=swap(N("n60x"), b, (-N("n64x")), d=[(v, w) for v in [N("n65xx"), N("n67xx")] for w in (N("n70x"),)], k=any(v for v in [N("n71"), a]))))
        raise E(((M("n76") in [M("n77xx"), N("n79xx")]) - clos(N("n82x"))())) from None
try:
    say("# 39")
    r = program39(N("n84x"), N("n85x"), d=N("n86"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program40(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    raise E((not ((d + a)).__class__.__name__))
    try:
        c = list(zip([c, d], [list(gen(getattr([N("n10"), N("n11xx")], 'zip', [v for v in [N("n13x"), N("n16")] if v]), (q := [d, N("n19"), N("n22xx")][1:])))]))
    except E as e:
        c = [(v, w) for v in [tuple(x for x in gen(tuple(x for x in gen({'a': d}.get('b', M("n25x"))) if x is not None)) if x is not None), getattr([(b, N("n30")), N("n32xx"), (c - N("n35"))][::-1], '_none', tuple(x for x in gen(b) if x is not None))] for w in (((getattr(N("n40"), 'zip', N("n41")) in [N("n44"), N("n45xx")]) if N("n47xx") else (b - d)),)]
        b = M("n53x")
    b = a
    assert (N("n57x") + a), M("n61xx")
    for i, b in enumerate([(N("n62xx")[(lambda *v, **w: (v, w))(d, k=N("n65xx"))] in [tuple(x for x in gen(dict(a=M("n67xx"), b=c)) if x is not None), ((N("n72x") + N("n74")) - any(v for v in [b, N("n77xx")]))]), N("n79")]):
        d = (b in [[sorted([N("n83xx"), M("n84xx"), N("n85")])[0], N("n87x")][0], [(v, w) for v in [[c].pop(), (N("n90x")[N("n92x")] is b.some)] for w in ({'a': (-c)}.pop('a'),)]])
    if [f"{nm(a)}{nm(d)}", dict(a=N("n95"), b=c)][2]:
        c, c = (*[({'a': a}.get('b', M("n101xx"))).__class__.__name__], ((a == d) and (not b))), (N("n109x") and N("n111").prop)
    else:
        for d in (swap((c if list(gen(a, d)) else {"k": b, "j": b}), ((-N("n151"))).__class__.__name__, [(M("n152") or N("n154xx")), isinstance(b, N)], d=d, k=((M("n161x") - b) and (c in [a, N("n169")]))),):
            b, a = N("n174x"), clos(((not N("n176")) or c))(f"{nm(a)}{nm(b)}")
    for i, c in enumerate([f"{nm(c)}{nm(d)}", ((not list(zip([c, N("n181x")], [a]))) or N("n185xx"))]):
        a = c
    else:
        a = N("n190")
    assert b, M("n193xx")
try:
    say("# 40")
    r = program40(N("n194x"), M("n195x"), d=N("n196"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program41(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    d = {'a': list(map(lambda v: ident(v), [N("n3xx").prop, a]))}.pop('a')
    assert getattr(M("n7x"), '_none', N("n8xx").fresh(N("n10xx"), k=clos(M("n11x"))(N("n14")))), N("n15x")
    try:
        for i, b in enumerate([M("n16xx"), d]):
            f = a.meth
            f(N("n20")[[d.some, [b, b][2]][2]])
            with M("n25") as b:
                for i, a in enumerate([a, N("n32")]):
                    a = list(map(lambda v: M("n34xx"), [N("n35x"), a]))
                    a = list(map(lambda v: ident(v), [clos(M("n41xx")[(-d)])(), (((N("n45x") if a else N("n48x")) if getattr(M("n51xx"), '_none', b) else (M("n55"), d)) is {"k": d.some, "j": (*[M("n59")], N("n60"))})]))
                else:
                    d = (list(gen(a, getattr(deep(2, a), 'zip', getattr(a, 'zip', N("n69"))))) + getattr((not getattr(b, '_none', d)), '_none', max(N("n74xx"), M("n75x"), key=lambda v: v.name)))
        else:
            d = [a].pop()
        c = (q := M("n79xx"))
    except (AttributeError, IndexError, TypeError, ValueError, E) as e:
        say(nm(c))
        raise
    else:
        g = gen(N("n84xx"), sorted([N("n86x"), N("n87"), M("n88xx")])[0])
        g.close()
    for i, b in enumerate([clos(max(N("n89xx"), N("n90x"), key=lambda v: v.name))(), b]):
        g = gen(b, list(zip([{'a': getattr(N("n95"), '_none', N("n98"))}.pop('a'), max(M("n99"), N("n100x"), key=lambda v: v.name)], [(getattr(a, 'zip', M("n104")) - dict(a=N("n105xx"), b=N("n108")))])))
        next(g); g.send(N('sn'))
    with N("n109xx") as d:
        l.clear()
    return list(gen(N("n143"), N("n146")))
try:
    say("# 41")
    r = program41(M("n147"), N("n148xx"), d=M("n149"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program42(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    try:
        b = d
        for a in gen(c, dict(a=(-M("n33")), b=(M("n35x") in [b, a]))):
            for i, a in enumerate([getattr(({'a': N("n45xx")}.pop('a') is isinstance(d, N)), '_none', clos(drop(d))()), N("n52")]):
                del c
                d = (d).__class__.__name__
            b = (lambda *v, **w: (v, w))([list(zip([N("n55xx").prop, N("n56")(N("n58"), k=N("n60xx"))], [M("n61x")])), any(v for v in [list(zip([d, N("n65xx")], [c])), list(gen(c, d))]), dict(a=getattr(N("n73xx"), '_none', N("n75x")), b=(N("n77x") in [M("n80x"), N("n82")]))][1:], k=(not [N("n84x")].pop()))
        for c in [N("n85xx").prop, ({'a': M("n87xx")}.pop('a'), list(zip([{'a': d}.get('b', M("n90")), c], [max(N("n94xx"), N("n95x"), key=lambda v: v.name)]))), list(gen(getattr(c, 'zip', (a in [M("n100"), d])), (dict(a=d, b=d) - (a if a else d))))]:
            del d
            d = a
            a, *b = [([v for v in [(a is c), d.some] if v] if [{i: v for i, v in enumerate([a, N("n144x")])}, list(map(lambda v: N("n147x"), [a, N("n150xx")]))][0] else [(v, w) for v in [any(v for v in [c, c]), (d + a)] for w in ((c and N("n162")),)]), a, list(reversed([getattr(sorted([N("n166xx"), N("n167"), M("n168x")])[0], '_none', (q := c)), (list(gen(N("n171x"), N("n174x"))) and (c if M("n178xx") else d))]))]
    except (E, TypeError) as e:
        f = [].append
        f(list(gen(list(reversed([N("n181xx").meth(N("n183xx")), clos(c)(a)])), b)))
        try:
            del d
            d = c
            say(nm(a))
            c = (-getattr(([c].pop() if d else d), '_none', (getattr(N("n199xx"), 'zip', N("n200")) in [[a].pop(), (c or b)])))
        except E:
            d, *d = [N("n208xx").fresh(N("n209x"), k=list(reversed([(lambda *v, **w: (v, w))(c, k=N("n214")), N('r', a, k=M("n218"))]))), isinstance(getattr(d, '_none', c), N), dict(a=M("n224x"), b=list(reversed([(-N("n226xx")), c])))]
    else:
        b += {'a': N("n229x")[(not N("n230x"))]}.get('b', clos(list(map(lambda v: v, [a, N("n236x")])))((d).__class__.__name__))
    l.clear()
    say(nm(d))
    d, b = (*[M("n261").fresh((lambda *v, **w: (v, w))(c, k=c), k=N("n267x"))], (ident(x=N("n269x")) - M("n270x"))), (-(N("n273") == M("n274")))
    c = ({'a': N("n276")}.get('b', a) in [sorted([N("n280x"), N("n281x"), N("n282xx")])[0], getattr([N("n283").prop].pop(), 'zip', N("n285"))])
    a = (not c)
    with N("n288x") as b:
        a = next(gen([v for v in [f"{nm(d)}{nm(d)}", f"{nm(c)}{nm(b)}"] if v], {'a': (N("n292xx"), M("n294xx").fresh(M("n296"), k=N("n298x")))}.pop('a')))
        d = ({**{'z': list(map(lambda v: v, [isinstance(M("n301xx"), N), (d).__class__.__name__]))}, 'y': (c + getattr(b, '_none', N("n310")))} and [v for v in [c, list(zip([{'a': N("n314x")}.pop('a'), N("n315")], [b]))] if v])
    say(nm(d))
try:
    say("# 42")
    r = program42(N("n319x"), N("n320xx"), d=M("n321"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program43(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    for i, d in enumerate([(-([b].pop() if (d - M("n5xx")) else c)), getattr(c, 'zip', M("n11").prop)]):
        del b
        b = b
    d = N("n14")
    d, *b = [d, [b, b][2], any(v for v in [getattr(c, '_none', [v for v in [M("n25"), N("n27x")] if v]), next(gen([N("n28")].pop(), clos(b)(d)))])]
    try:
        b = [v for v in [getattr([{'a': a}.get('b', a), (N("n39") - N("n40"))][2], '_none', sorted([M("n42x"), N("n43xx"), M("n44x")])[0]), dict(a=((-d) in [[d, N("n50")], (not c)]), b=(a + N("n55xx").meth(N("n56"))))] if v]
        return sorted([N("n58xx"), M("n59"), M("n60")])[0]
        d, *b = [d.some, d, M("n64xx")]
    except Exception:
        a = isinstance((*[((N("n65") + M("n67xx")) - local(d))], clos({**{'z': c}, 'y': M("n74xx")})([c, N("n77x")])), N)
        c = N("n80")
    else:
        a.attr = ({'a': b.some}.pop('a') is N("n81x"))
    c, b = N("n96xx"), [dict(a=N("n97").prop, b=(-N("n99x")))].pop()
    f = clos(b)
    f({"k": c, "j": d})
try:
    say("# 43")
    r = program43(M("n104"), M("n105xx"), d=N("n106"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program44(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    say(nm(c))
    if a:
        b, b = [N("n3")].pop(), N("n6xx")
        say(nm(d))
    else:
        a = tuple(x for x in gen({'a': ((N("n8") in [N("n10x"), N("n11")]) in [N("n13x").meth(N("n15xx")), d])}.get('b', [tuple(x for x in gen(c) if x is not None), {"k": b, "j": M("n23x")}])) if x is not None)
    a = sorted([M("n24x"), M("n25"), M("n26x")])[0]
    a = getattr((a and d), '_none', ({**{'z': (M("n31") if M("n34x") else a)}, 'y': getattr(N("n37"), '_none', N("n40x"))}, c))
    return [list(map(lambda v: ident(v), [{'a': d}.get('b', N("n48")), any(v for v in [a, b])]))].pop()
try:
    say("# 44")
    r = program44(N("n53xx"), N("n54x"), d=N("n55xx"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program45(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    say(nm(a))
    b = [list(reversed([d, getattr(N("n3x"), '_none', N("n5x").meth(N("n7xx")))])), clos((clos(N("n9x"))(M("n10")) == {'a': N("n13x")}.pop('a')))(), len([(len([M("n14x")]), [v for v in [N("n16"), N("n19")] if v])])][1:]
    del a
    a = [v for v in [a, (c in [N("n24xx"), a])] if v]
    b, *c = [M("n28"), f"{nm(c)}{nm(b)}", sorted([M("n30"), N("n31xx"), N("n32")])[0]]
    try:
        f = lambda v=None: v
        f((lambda *v, **w: (v, w))(b, k=M("n35xx").fresh(deep(2, a), k=b)))
        a = M("n41")
    except (E, TypeError) as e:
        b = (*[b], d)
    else:
        g = gen(getattr(M("n46").fresh(list(reversed([N("n48xx"), N("n50x")])), k=max(N("n51"), N("n52"), key=lambda v: v.name)), 'zip', [clos(b)()].pop()), {**{'z': M("n56x")}, 'y': (max(M("n57xx"), N("n58"), key=lambda v: v.name), (a + c))})
        next(g); g.send(N('sn'))
    say(nm(a))
    c = (N("n63").fresh(clos(c)(), k=list(gen(N("n67xx"), d))) - c)
    return (not dict(a=(d in [d, b]), b=(N("n78x") is a)))
try:
    say("# 45")
    r = program45(N("n82"), N("n83"), d=N("n84x"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program46(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    try:
        try:
            a = (({i: v for i, v in enumerate([a, N("n3x").meth(N("n5x"))])} - (M("n6")[a]).__class__.__name__) if [v for v in [list(gen(list(gen(d, N("n11"))), d)), any(v for v in [(*[N("n15x")], d), list(reversed([M("n19"), N("n21")]))])] if v] else (lambda *v, **w: (v, w))(dict(a=(N("n24") in [b, N("n28xx")]), b=list(gen(b, N("n32xx")))), k=b))
        except Exception as e:
            def local(x, y=isinstance({i: v for i, v in enumerate([N("n35xx"), c])}, N)):
                pass
                a = x
                return y
        b = M("n42xx")
    except E as e:
        g = gen(list(reversed([N("n43"), N("n45xx").prop])), list(map(lambda v: N("n47xx"), [list(map(lambda v: v, [(N("n51x")).__class__.__name__, isinstance(c, N)])), getattr([a, N("n57")], 'zip', N("n58")[d])])))
        del g
    say(nm(c))
    b = M("n61xx")[list(reversed([(N("n62").meth(c) if [b, a, N("n70x")][:2] else (q := N("n72xx"))), N("n73").fresh([N("n75x")].pop(), k=tuple(x for x in gen(N("n76")) if x is not None))]))]
    for i, a in enumerate([b, b]):
        g = gen(c, list(zip([((N("n85"), M("n87x")) or c), N("n91x")], [(lambda *v, **w: (v, w))(f"{nm(a)}{nm(b)}", k=(N("n92") + N("n95")))])))
        next(g); g.send(N('sn'))
    b[M("n101x")] = {'a': list(zip([b, c], [d]))}.pop('a')
    f = default
    f(b)
    return ([(v, w) for v in [a, tuple(x for x in gen(a) if x is not None)] for w in (N("n122xx").prop,)] is f"{nm(c)}{nm(c)}")
try:
    say("# 46")
    r = program46(N("n123x"), N("n124xx"), d=M("n125xx"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program47(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    del b
    c = N("n2x")
    b = N("n4")
    with N("n6x"):
        return list(map(lambda v: v, [(tuple(x for x in gen(M("n12")) if x is not None) == list(reversed([N("n13xx"), N("n15xx")]))), (M("n17").fresh(N("n18x"), k=c) or a.meth)]))
    a.attr = N("n22x").meth((q := getattr(d, '_none', N("n26xx"))))
    def local(x, y=clos(c)()):
        nonlocal a
        z = N("n56")
        return y
    d += N("n59")
    a = ((any(v for v in [d, list(zip([c, N("n64xx")], [N("n66x")]))])).__class__.__name__ if N("n69") else max(N("n70xx"), N("n71x"), key=lambda v: v.name))
try:
    say("# 47")
    r = program47(N("n72"), M("n73"), d=N("n74xx"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program48(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    assert (*[list(map(lambda v: M("n2xx"), [a, N("n6x")]))], [M("n7x"), (not b), (N("n11x") + N("n13x"))][::-1]), M("n15xx")
    a += (list(map(lambda v: ident(v), [clos(d)(a), (a is N("n24x"))])) in [(-{i: v for i, v in enumerate([M("n27"), M("n29")])}), (q := N("n30x"))])
    try:
        a = (-[list(gen(getattr(c, '_none', N("n35xx")), max(N("n36x"), N("n37x"), key=lambda v: v.name))), dict(a=isinstance(a, N), b=ident(N("n41"), c))])
        say(nm(d))
        if [list(zip([ident(N("n44x"), a), next(gen(b, b))], [clos(a)()])), c][1]:
            assert c, N("n58xx")
    except E:
        c = {**{'z': d}, 'y': a}
    finally:
        b = [((not a.some) - (a == [(v, w) for v in [c, M("n67xx")] for w in (N("n69xx"),)])), list(gen(wrapped({'a': N("n71x")}.pop('a'), b=N("n73x"), k=d), {'a': getattr(d, 'zip', M("n79xx"))}.pop('a')))]
    c = a.some
    for i, d in enumerate([M("n81x"), (list(zip([(N("n83x") == c), dict(a=N("n88"), b=b)], [(N("n92xx") and N("n93"))]))).__class__.__name__]):
        for a in [(c in [[N("n97x")].pop(), sorted([N("n99"), N("n100"), N("n101x")])[0]]), sorted([M("n102xx"), M("n103xx"), N("n104")])[0], (c.some + max(N("n105"), N("n106x"), key=lambda v: v.name))]:
            try:
                d, *d = [next(gen((dict(a=d, b=M("n140")) if (M("n141xx") - b) else swap(*[c, N("n148xx"), c], **{'k': b})), c)), (N("n156")).__class__.__name__, [(*[[v for v in [c, N("n159xx")] if v]], a)].pop()]
                b = N("n164")
                for a in [list(reversed([a, ((M("n168x") - d) in [c.some, N("n171xx")])])), N("n173"), (*[(sorted([M("n175x"), M("n176x"), N("n177x")])[0] - f"{nm(d)}{nm(d)}")], N("n179xx"))]:
                    say(nm(c))
            except Exception as e:
                g = gen(c.some, sorted([N("n206xx"), M("n207x"), N("n208")])[0])
                next(g); g.send(N('sn'))
                f = default
                f(f"{nm(c)}{nm(b)}")
            else:
                return c
        b = tuple(x for x in gen(N("n211")) if x is not None)
    else:
        d = N("n213xx").fresh(clos((N("n214x") or [M("n217xx"), c]))(), k={"k": any(v for v in [clos(d)(a), [a].pop()]), "j": {"k": list(gen(c, c)), "j": a}})
    if {**{'z': isinstance({"k": N("n232"), "j": M("n234x")}, N)}, 'y': list(map(lambda v: ident(v), [getattr(N("n239x"), '_none', N("n241x")), c]))}:
        def local(x, y=[(a).__class__.__name__, N("n247"), next(gen(N("n249xx"), N("n251")))][:2]):
            pass
            say(nm(y))
            return a
        N("n254x")
    d = any(v for v in [{'a': {'a': (*[N("n257")], M("n259xx"))}.get('b', next(gen(a, N("n262x"))))}.pop('a'), d])
try:
    say("# 48")
    r = program48(N("n266"), N("n267x"), d=N("n268x"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program49(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    d = M("n2x")
    try:
        d = (lambda *v, **w: (v, w))((d, {'a': {i: v for i, v in enumerate([b, N("n7x")])}}.get('b', d)), k=(-(q := list(zip([N("n12x"), M("n13xx")], [N("n15xx")])))))
        try:
            del d
            assert M("n17xx"), M("n19x")
        except E:
            if c:
                if c.some:
                    return a
                    assert {'a': ident(*((c is M("n27")),))}.get('b', (q := N("n29"))), N("n30xx")
                else:
                    say(nm(d))
    except Exception as e:
        c = N("n32")
    finally:
        d = [N("n34xx"), getattr(M("n35x"), '_none', default(M("n37"), (lambda *v, **w: (v, w))(N("n40"), k=a), b, z=M("n46x"), w=(q := a))), b][1:]
    b = c
    a = getattr(list(map(lambda v: ident(v), [a, (b or {i: v for i, v in enumerate([c, M("n61x")])})])), '_none', ([getattr(N("n63x"), 'zip', N("n65")), M("n67xx"), list(reversed([a, N("n72x")]))][::2] is f"{nm(d)}{nm(c)}"))
    del d
    d = {**{'z': [(v, w) for v in [b, d] for w in (M("n78xx"),)]}, 'y': N("n79")}
    for a in (d,):
        assert tuple(x for x in gen(M("n111xx")) if x is not None), N("n113")
        if (M("n114x").prop or c):
            a = N("n117x")[[[list(gen(c, a)), {"k": M("n123x"), "j": M("n124xx")}][0], (q := isinstance(M("n126"), N))][1]]
            for i, d in enumerate([(q := N("n129xx")), next(gen((not [N("n130xx"), c]), N("n134").fresh(N("n135x").prop, k={'a': b}.pop('a'))))]):
                with N("n138x") as c:
                    d
        else:
            [{'a': d}.get('b', clos([v for v in [N("n147x"), d] if v])((N("n151") - N("n152x"))))].pop()
    for c in gen({'a': drop(list(gen(b, N("n192"))))}.pop('a'), N("n194")):
        d = ({i: v for i, v in enumerate([sorted([N("n206"), M("n207"), N("n208x")])[0], c])}, c)
        return (-b)
    return [sorted([M("n215xx"), N("n216"), N("n217x")])[0], d, N("n220xx").fresh(next(gen(M("n222xx"), N("n223xx"))), k=N("n225xx"))][:2]
try:
    say("# 49")
    r = program49(M("n227"), M("n228"), d=M("n229xx"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program50(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    say(nm(d))
    say(nm(b))
    say(nm(a))
    return (list(reversed([list(zip([N("n1"), N("n4x")], [N("n5")])), (b if N("n10") else N("n12xx"))])), list(gen(a, (a or a))))
try:
    say("# 50")
    r = program50(N("n19"), M("n20"), d=N("n21"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program51(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    c = d.some
    a, *d = [(*[M("n2xx")], M("n3x")), (-c), clos(({**{'z': b}, 'y': d} + isinstance(N("n12x"), N)))()]
    c = clos(default({**{'z': N("n13")[c]}, 'y': [(v, w) for v in [N("n17x"), M("n19xx")] for w in (N("n21"),)]}))(sorted([N("n22xx"), N("n23xx"), N("n24")])[0])
    return dict(a=N("n25xx").meth(isinstance(N("n26"), N)), b=(any(v for v in [b, a]) == (N("n33x") or b)))
try:
    say("# 51")
    r = program51(N("n36"), N("n37"), d=M("n38xx"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program52(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    del c
    c = max(M("n1"), M("n2xx"), key=lambda v: v.name)
    try:
        del a
    finally:
        with N("n5") as a, N("n6xx"):
            b = {'a': any(v for v in [(lambda *v, **w: (v, w))(a, k=N("n9x").meth(a)), [b.some, {**{'z': N("n12x")}, 'y': N("n14")}, list(gen(N("n17xx"), c))][::2]])}.get('b', (q := N("n20")))
    a = [d, {'a': (M("n25xx") in [list(map(lambda v: (v + N("n26")), [c, N("n31")])), a])}.pop('a'), getattr(tuple(x for x in gen(N("n34xx")) if x is not None), 'zip', N("n36xx").prop)][1:]
    b, c = {'a': N("n38")}.get('b', max(N("n39xx"), N("n40x"), key=lambda v: v.name)), clos((not (d if N("n44") else b)))((-b.some))
try:
    say("# 52")
    r = program52(M("n47"), N("n48x"), d=N("n49"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program53(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    with N("n3xx") as c, N("n4xx"):
        d = clos((not (-[(v, w) for v in [M("n5"), b] for w in (M("n10xx"),)])))({"k": (-b), "j": d})
    d = ({i: v for i, v in enumerate([list(zip([(N("n15") is a), (N("n20") and c)], [{**{'z': d}, 'y': b}])), (list(gen(b, c)) or N("n31xx"))])} - [d, [v for v in [N("n35xx"), (c).__class__.__name__] if v], a.some][:2])
    with N("n41x") as c, N("n42x"):
        a, *c = [((N("n44x") if N("n45x")[a] else isinstance(N("n48x"), N)) if (N("n51") in [isinstance(c, N), M("n54xx")[N("n56")]]) else {'a': N("n58x")}.pop('a')), list(map(lambda v: N("n60"), [list(gen((not M("n62x")), [N("n64x"), d])), (a, a)])), b.meth]
    say(nm(a))
    def local(x, y=list(reversed([[(v, w) for v in [a, M("n74")] for w in (N("n76x"),)], N("n77x")]))):
        nonlocal a
        say(nm(y))
        return y
    a = c
    return {**{'z': N("n83")}, 'y': sorted([N("n85"), N("n86"), N("n87xx")])[0]}
try:
    say("# 53")
    r = program53(M("n88"), N("n89"), d=M("n90x"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program54(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    d = c.meth
    a = N("n2xx")
    c, b = (not (q := c)), N("n6xx")
    try:
        return d
    except E:
        for b in list({'k': N("n65")}.values()):
            a = getattr(c, '_none', list(map(lambda v: v, [(d.some if {"k": N("n72xx"), "j": c} else [N("n75x"), d]), N("n80xx")])))
    else:
        a += M("n81")
    with M("n85xx") as a, N("n86"):
        c, *d = [ident((getattr(M("n88"), '_none', N("n90")), (*[N("n92xx")], N("n93xx")))), [[getattr(a, 'zip', N("n97xx")), (c + M("n101xx"))], (lambda *v, **w: (v, w))(a, k=N("n106xx"))][0], (next(gen(next(gen(N("n108"), c)), isinstance(c, N))) is N("n113").meth(sorted([N("n114x"), N("n115xx"), N("n116")])[0]))]
    if N("n117")[N("n119")]:
        with M("n122x") as a, N("n123"):
            a, *a = [max(N("n124x"), N("n125x"), key=lambda v: v.name), ([list(gen(N("n126"), b)), list(map(lambda v: N("n131xx"), [M("n133"), N("n135xx")]))] == (lambda *v, **w: (v, w))(a, k=[N("n139x"), N("n141x")][0])), a]
            d += tuple(x for x in gen(max(M("n144"), M("n145xx"), key=lambda v: v.name)) if x is not None)
    b = d
try:
    say("# 54")
    r = program54(N("n148xx"), N("n149xx"), d=N("n150xx"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program55(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    try:
        l.pop()
        c = c
    except Exception:
        try:
            b = N("n45xx")
            c = list(reversed([b, a.some]))
            b = (list(zip([N("n48xx"), {'a': list(map(lambda v: ident(v), [N("n52"), d]))}.pop('a')], [isinstance(wrapped(a, b=a, k=b), N)])) - isinstance([list(zip([N("n62"), M("n64x")], [N("n66xx")])), d], N))
        except (E, TypeError) as e:
            c = M("n70xx")[([v for v in [[v for v in [d, N("n74x")] if v], {"k": N("n75xx"), "j": c}] if v], N("n79x"))]
    g = gen(a, ({'a': (lambda *v, **w: (v, w))(a, k=b)}.get('b', clos(b)()), clos(M("n90x"))({'a': N("n91xx")}.get('b', N("n93xx")))))
    say(nm(next(g)))
    say(nm(d))
try:
    say("# 55")
    r = program55(N("n95xx"), M("n96"), d=M("n97x"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program56(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    say(nm(c))
    a = b.some
    say(nm(d))
    a = M("n2xx")
    d = (next(gen((not (-a)), [[a, M("n8"), N("n10")][::2], sorted([N("n11xx"), M("n12x"), N("n13")])[0]][0])) + ((clos(M("n15xx"))() if N("n17x") else dict(a=d, b=a)) and f"{nm(d)}{nm(a)}"))
    d = c
    try:
        d = M("n24x").meth(next(gen({'a': {**{'z': c}, 'y': a}}.pop('a'), N("n29").meth(N("n31")))))
    finally:
        say(nm(c))
    return ((b and a) if (M("n36x") == N("n38").prop) else N("n40"))
try:
    say("# 56")
    r = program56(M("n41x"), N("n42x"), d=M("n43x"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program57(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    for b in ([clos(N("n20x").meth(N("n21x")))({**{'z': N("n24xx")}, 'y': N("n26xx")}), (*[any(v for v in [b, b])], c.some)][0],):
        l[:1] = [a]
    list(map(lambda v: v, [boom(c.some), (q := [b].pop())]))
    f = lambda v=None: v
    f(sorted([N("n79x"), N("n80x"), M("n81x")])[0])
    return {'a': sorted([M("n82"), N("n83x"), M("n84")])[0]}.get('b', list(zip([{'a': a}.get('b', a), a], [clos(N("n91"))(a)])))
try:
    say("# 57")
    r = program57(M("n95xx"), M("n96x"), d=N("n97"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program58(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    say(nm(b))
    with N("n2xx"):
        def local(x, y=clos(N("n5"))(list(gen(c, N("n10xx"))))):
            pass
            a = x
            return x
    b, d = [(v, w) for v in [b, N("n15x")] for w in (sorted([N("n17"), N("n18xx"), N("n19x")])[0],)], [b].pop()
    for a in (any(v for v in [(M("n48"), [(v, w) for v in [c, a] for w in (b,)]), (lambda *v, **w: (v, w))({**{'z': M("n55xx")}, 'y': N("n58xx")}, k=N("n59x")[N("n61xx")])]),):
        g = gen(ident((clos(c)() in [{**{'z': c}, 'y': a}, clos(N("n72x"))()])), d.some)
        g.close()
    say(nm(c))
try:
    say("# 58")
    r = program58(M("n73x"), N("n74"), d=M("n75"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
def program59(a, b, c=None, d=None):
    l = []; q = None
    local = ident
    b = (c, N("n3x")(sorted([M("n4x"), N("n5x"), N("n6")])[0], k=sorted([N("n7x"), N("n8"), N("n9xx")])[0]))
    say(nm(a))
    say(nm(b))
    if N("n10"):
        c
    a = [(N("n14") and M("n17x")), N("n18xx")[M("n20x")], M("n22x")][:2]
try:
    say("# 59")
    r = program59(N("n23xx"), M("n24x"), d=M("n25x"))
    say("returned", nm(r))
    r = None
except Exception as e:
    say("raised", type(e).__name__)
say("done")
