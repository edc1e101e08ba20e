"""What a file may do again and again: each is paid for, whatever it looks at. (name, what stands before the loop, what is repeated; or what hostile_files.request() takes)"""
from hostile_files import L


def again(before, repeated):
    return dict(fwd=before.replace("\n", L) + L + "while True:" + L + "    " + repeated.replace("\n", L + "    "))


LETTERS = "a = 'x' * 1000000 + 'a'\nb = 'x' * 1000000 + 'b'"
WIDE = "a = '\u00e4' * 300000"
ITEMS = "a = [0] * 200000"
NAMES = "a = {i: i for i in range(50000)}\nb = dict(a)"
SETS = "a = set(range(50000))\nb = set(a)"
GAPS = "d = {i: 0 for i in range(100000)}\n"
HALVES = "t = ()" + L + "u = ()" + L + "for i in range(60):" + L + "    t = (t, t)" + L + "    u = (u, u)" + L
NEST = "def g(n):\n    if n: yield from g(n - 1)\n    while True: yield 1"
ALIKE = "class K:\n    def __hash__(self): return 1"
CHILDREN = "self.l = nn.ModuleList([nn.Linear(1, 1) for _ in range(2000)])"

LOOPS = [(name, again(before, repeated)) for before, rows in (
    (LETTERS, (("equal letters", "a == b"), ("order of letters", "a < b"), ("beginning", "a.startswith(b)"), ("slice", "a[1:]"), ("upper", "a.upper()"),
               ("digits", "a.isdigit()"), ("identifier", "a.isidentifier()"), ("number", "try: float(a)\nexcept ValueError: pass"), ("find", "a.find('c')"),
               ("rfind", "a.rfind('b' + a[:1000])"), ("rpartition", "a.rpartition('b' + a[:1000])"), ("replace", "a.replace('c', 'd')"), ("strip", "a.strip('abcdefghijkly')"),
               ("repr", "repr(a)"), ("f-string", "f'{a}{b}'"), ("percent", "'%s%s' % (a, b)"), ("key", "{a: 1}[a[:-1] + 'a']"), ("attribute", "getattr(x, a, 0)"),
               ("print", "print(a)"), ("letters in a tuple", "b in (a, a, a)"))),
    ("a = 'x' * 250", (("repeat letters", "'x' * 250"), ("repr of a part", "repr((a,))"))),
    (WIDE, (("wide length", "len(a)"), ("wide item", "a[-1]"), ("wide slice", "a[::-1]"), ("wide find", "a.rfind('b')"), ("wide beginning", "a.startswith('b', -5)"))),
    (ITEMS, (("turn", "a.reverse()"), ("index", "try: a.index(1)\nexcept ValueError: pass"), ("count", "a.count(1)"), ("membership", "1 in a"), ("dunder", "a.__contains__(1)"),
             ("delete first", "del a[0]\na.append(0)"), ("delete a slice", "del a[0:1]\na.append(0)"), ("set a slice", "a[0:1] = [1]"), ("pop first", "a.append(a.pop(0))"),
             ("copy", "a.copy()"), ("sum", "sum(a)"), ("sort", "sorted(a)"), ("star", "(lambda *a: 0)(*a)"), ("tensor", "x[a]"))),
    ("t = tuple(range(200000))\nd = {}", (("hash of items", "hash(t)"), ("key of items", "d.get(t)"), ("isinstance", "isinstance('a', (int,) * 100000)"))),
    ("t = (KeyError,) * 100000", (("except", "try: raise ValueError\nexcept t: pass\nexcept ValueError: pass"),)),
    ("t = frozenset(range(200000))", (("hash of a set", "hash(t)"),)),
    (NAMES, (("equal names", "a == b"), ("update", "b.update(a)"), ("copy names", "a.copy()"), ("views", "a.keys() == b.keys()"))),
    (SETS, (("equal sets", "a == b"), ("subset", "a <= b"), ("union", "a | b"), ("difference", "a - b"), ("disjoint", "a.isdisjoint(b)"))),
    (GAPS + "for i in range(99999): del d[i]", (("first of gaps", "next(iter(d))"), ("all of gaps", "for k in d: pass"))),
    (GAPS + "for i in range(1, 100000): del d[i]", (("last of gaps", "next(reversed(d))"), ("popitem of gaps", "d.popitem()\nd[1] = 1"))),
    ("", (("round", "round(1e300, 200)"), ("text of a float", "repr(1e-300)"), ("digits of a float", "f'{1e300:.300f}'"), ("places", "f'{1:100000d}'"))),
    ("a = [x[:, :1]] * 1000", (("cat", "torch.cat(a, 1)"), ("stack", "torch.stack(a)"))),
) for name, repeated in rows] + [
    ("halves hashed", dict(fwd=HALVES + "hash(t)")),
    ("halves compared", dict(fwd=HALVES + "t == u")),
    ("halves in order", dict(fwd=HALVES + "t < u")),
    ("halves written", dict(fwd=HALVES + "repr(t)")),
    ("halves of classes", dict(fwd="t = (int,)" + L + "for i in range(60): t = (t, t)" + L + "isinstance('a', t)")),
    ("halves of subclasses", dict(fwd="t = (int,)" + L + "for i in range(60): t = (t, t)" + L + "issubclass(str, t)")),
    ("generators within each other", dict(top=NEST, fwd="for i in g(400): pass")),
    ("iterators within each other", dict(fwd="a = iter(int, 1)" + L + "for i in range(300): a = map(int, a)" + L + "for i in a: pass")),
    ("keys that share a hash", dict(top=ALIKE, fwd="d = {K(): i for i in range(600)}" + L + "while True: d.copy()")),
    ("a class of many", dict(top="class A: pass\n" + "\n".join("class A%d(A): pass" % i for i in range(3000)), fwd="while True: A.__len__ = 1")),
    ("ancestors", dict(top="class A0: pass\n" + "\n".join("class A%d(A%d): pass" % (i + 1, i) for i in range(60)),
                       fwd="o = A60()" + L + "i = 0" + L + "while True:" + L + "    i += 1" + L + "    getattr(o, 'z%d' % (i % 3000), 0)")),
    ("modules", dict(init=CHILDREN, fwd="while True: list(self.modules())")),
    ("parameters", dict(init=CHILDREN, fwd="while True: next(self.parameters())")),
    ("state_dict", dict(init=CHILDREN, fwd="while True: self.state_dict()")),
    ("deepcopy", dict(top="import copy", init=CHILDREN, fwd="while True: copy.deepcopy(self.l)")),
]
