# itertools, as generators


def chain(*iterables):
    for it in iterables:
        yield from it


def _from_iterable(iterables):
    for it in iterables:
        yield from it


chain.from_iterable = _from_iterable


def accumulate(iterable, func=None, *, initial=None):
    it = iter(iterable)
    total = initial
    if initial is None:
        try:
            total = next(it)
        except StopIteration:
            return
    yield total
    for element in it:
        total = total + element if func is None else func(total, element)
        yield total


def count(start=0, step=1):
    while True:
        yield start
        start += step


def cycle(iterable):
    saved = []
    for element in iterable:
        yield element
        saved.append(element)
    while saved:
        yield from saved


def repeat(obj, times=None):
    if times is None:
        while True:
            yield obj
    for _ in range(times):
        yield obj


def islice(iterable, *args):
    s = slice(*args)
    start, stop, step = s.start or 0, s.stop, s.step or 1
    at = start
    if stop is not None and at >= stop:
        return
    for i, element in enumerate(iterable):
        if i == at:
            yield element
            at += step
            if stop is not None and at >= stop:
                return


def starmap(function, iterable):
    for args in iterable:
        yield function(*args)


def takewhile(predicate, iterable):
    for x in iterable:
        if not predicate(x):
            break
        yield x


def dropwhile(predicate, iterable):
    it = iter(iterable)
    for x in it:
        if not predicate(x):
            yield x
            break
    yield from it


def zip_longest(*args, fillvalue=None):
    lists = [list(a) for a in args]
    for i in range(max([len(l) for l in lists], default=0)):
        yield tuple([l[i] if i < len(l) else fillvalue for l in lists])


def product(*args, repeat=1):
    pools = [tuple(pool) for pool in args] * repeat
    result = [[]]
    for pool in pools:
        result = [x + [y] for x in result for y in pool]
    for prod in result:
        yield tuple(prod)


def permutations(iterable, r=None):
    pool = tuple(iterable)
    n = len(pool)
    for indices in product(range(n), repeat=n if r is None else r):
        if len(set(indices)) == len(indices):
            yield tuple([pool[i] for i in indices])


def combinations(iterable, r):
    pool = tuple(iterable)
    for indices in product(range(len(pool)), repeat=r):
        if all([a < b for a, b in zip(indices, indices[1:])]):
            yield tuple([pool[i] for i in indices])


def pairwise(iterable):
    it = iter(iterable)
    a = next(it, None)
    for b in it:
        yield a, b
        a = b


def groupby(iterable, key=None):
    group, last = [], None
    for x in iterable:
        k = x if key is None else key(x)
        if group and k != last:
            yield last, iter(group)
            group = []
        group.append(x)
        last = k
    if group:
        yield last, iter(group)
