# operator


def add(a, b): return a + b
def sub(a, b): return a - b
def mul(a, b): return a * b
def truediv(a, b): return a / b
def floordiv(a, b): return a // b
def mod(a, b): return a % b
def pow(a, b): return a ** b
def matmul(a, b): return a @ b
def and_(a, b): return a & b
def or_(a, b): return a | b
def xor(a, b): return a ^ b
def neg(a): return -a
def not_(a): return not a
def eq(a, b): return a == b
def ne(a, b): return a != b
def lt(a, b): return a < b
def le(a, b): return a <= b
def gt(a, b): return a > b
def ge(a, b): return a >= b
def is_(a, b): return a is b
def contains(a, b): return b in a
def getitem(a, b): return a[b]


__add__, __mul__, __sub__ = add, mul, sub


def itemgetter(*items):
    if len(items) == 1:
        item = items[0]
        return lambda obj: obj[item]
    return lambda obj: tuple([obj[item] for item in items])


def _attr(obj, name):
    for part in name.split("."):
        obj = getattr(obj, part)
    return obj


def attrgetter(*names):
    if len(names) == 1:
        name = names[0]
        return lambda obj: _attr(obj, name)
    return lambda obj: tuple([_attr(obj, name) for name in names])


def methodcaller(name, /, *args, **kwargs):
    return lambda obj: getattr(obj, name)(*args, **kwargs)
