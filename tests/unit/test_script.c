/*
 * The interpreter of modelling code. tests/data/script/NAME.out is what CPython 3.11 prints for NAME.py (make_out.sh): values, and in
 * lives_*.py the order of births and deaths.
 */
#include "script/freeze.h"
#include "script/script.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 64 << 20 };

struct said {
    char *text;
    size_t n, room;
};

static void print(void *of, const char *text, size_t bytes)
{
    struct said *said = of;

    while (said->n + bytes + 1 > said->room)
        said->text = realloc(said->text, said->room = said->room * 2 + 4096);
    memcpy(said->text + said->n, text, bytes);
    said->n += bytes;
    said->text[said->n] = '\0';
}

static char *file(const char *name)
{
    char path[256], *text = calloc(1, 1 << 20);
    FILE *f;

    snprintf(path, sizeof path, "tests/data/script/%s", name);
    f = fopen(path, "rb");
    ck_assert_msg(f != NULL, "no file %s", path);
    ck_assert(fread(text, 1, (1 << 20) - 1, f) > 0);
    fclose(f);
    return text;
}

/* What the program prints; *ret what ended it. */
static struct said run_text(const char *name, const char *text, size_t room, enum err_code *ret, struct err *err)
{
    void *block = malloc(room);
    struct arena arena;
    struct image *im = NULL;
    struct script *s = NULL;
    struct said said = {0};
    struct script_host host = {.print = print, .of = &said};
    enum err_code rc;

    memset(err, 0, sizeof *err);
    print(&said, "", 0);
    arena_init(&arena, block, room);
    rc = image_new(&arena, NULL, &im, err);
    if (!rc)
        rc = image_source(im, "__main__", name, text, strlen(text), false, err);
    if (!rc)
        rc = script_new(&arena, im, NULL, &host, &s, err);
    if (!rc && !sv_ok(script_import(s, "__main__")))
        rc = script_error(s, err);
    free(block);
    *ret = rc;
    return said;
}

static const char *const programs[] = {"language", "library", "hidden", "matches", "lives_calls", "lives_errors", "lives_random"};

START_TEST(does_what_python_does)
{
    char name[64];
    struct err err;
    enum err_code rc;
    char *text, *want;
    struct said said;
    size_t at = 0, line = 1;

    snprintf(name, sizeof name, "%s.py", programs[_i]);
    text = file(name);
    snprintf(name, sizeof name, "%s.out", programs[_i]);
    want = file(name);
    said = run_text(programs[_i], text, ROOM, &rc, &err);
    for (; want[at] && want[at] == said.text[at]; at++)
        line += want[at] == '\n';
    ck_assert_msg(!rc, "%s: %s", err_slug(rc), err.detail);
    ck_assert_msg(want[at] == said.text[at], "%s.out, line %zu: '%.60s' is wanted, not '%.60s'", programs[_i], line, want + at,
                  said.text + at);
    free(text);
    free(want);
    free(said.text);
}
END_TEST

/* Steps come from the budget in slices: wherever one ends, in a loop, a function, a class or a native, the program goes on. */
START_TEST(goes_on_where_a_slice_of_steps_ends)
{
    static const char text[] = "class A:\n    def f(self): return 1\n"
                               "n = 0\nfor i in range(30000):\n    n += A().f() + len((1, 2)) + int('3') + max(1, i) - i\nprint(n)\n";
    struct err err;
    enum err_code rc;
    struct said said = run_text("slices", text, ROOM, &rc, &err);

    ck_assert_msg(!rc, "%s: %s", err_slug(rc), err.detail);
    ck_assert_str_eq(said.text, "180001\n");
    free(said.text);
}
END_TEST

static const struct {
    const char *what, *text, *again; /* `again`, many times behind it */
    enum err_code code;
    const char *says;
} hostile[] = {
    {"a loop", "while True: pass\n", NULL, ERR_SCRIPT_BUDGET, ":1: "},
    {"a loop that catches all", "while True:\n try:\n  while True: pass\n except BaseException: pass\n", NULL, ERR_SCRIPT_BUDGET, ":3: "},
    {"recursion", "def f(): f()\nf()\n", NULL, ERR_SCRIPT_RAISED, "RecursionError"},
    {"recursion through natives", "class A:\n def __repr__(self): return repr(self)\nrepr(A())\n", NULL, ERR_SCRIPT_RAISED,
     "RecursionError"},
    {"a long list", "[0] * (1 << 40)\n", NULL, ERR_SCRIPT_BUDGET, ":1: "},
    {"a long text", "'a' * 10**12\n", NULL, ERR_SCRIPT_BUDGET, ":1: "},
    {"doubling", "s = 'a'\nwhile True: s += s\n", NULL, ERR_NOMEM, ":2: "},
    {"width", "f'{1:>1000000000}'\n", NULL, ERR_SCRIPT_RAISED, "format"},
    {"big numbers", "x = 7\nx = x ** 40\n", NULL, ERR_LEAVES_LANGUAGE, ":2: an integer beyond 64 bits"},
    {"a big literal", "def f(): return 1 << 3\n100000000000000000000\nf()\n1 + 100000000000000000000\n", NULL, ERR_LEAVES_LANGUAGE,
     "64 bits"},
    {"parentheses", "x = ", "(", ERR_LEAVES_LANGUAGE, "nested"},
    {"brackets", "x = ", "[", ERR_LEAVES_LANGUAGE, "nested"},
    {"lambdas", "x = ", "lambda: ", ERR_LEAVES_LANGUAGE, "nested"},
    {"sums", "x = 1", "+1", ERR_LEAVES_LANGUAGE, "nested"},
    {"attributes", "x", ".x", ERR_LEAVES_LANGUAGE, "nested"},
    {"not", "x = ", "not ", ERR_LEAVES_LANGUAGE, "nested"},
    {"the machine", "import os\nos.system('ls')\n", NULL, ERR_LEAVES_LANGUAGE, ":2: os.system()"},
    {"files", "open('/etc/passwd')\n", NULL, ERR_LEAVES_LANGUAGE, ":1: open()"},
    {"code", "exec('1')\n", NULL, ERR_LEAVES_LANGUAGE, ":1: exec()"},
    {"what is not there", "import nothing_of_that_name\n", NULL, ERR_SCRIPT_RAISED, "No module named"},
    {"coroutines", "async def f(): pass\n", NULL, ERR_LEAVES_LANGUAGE, ":1: async"},
    {"no Python", "x = = 1\n", NULL, ERR_LEAVES_LANGUAGE, ":1: invalid syntax"},
    {"indentation", "if 1:\n    x = 1\n  y = 2\n", NULL, ERR_LEAVES_LANGUAGE, ":3: unindent"},
    {"an evil comparison", "class A:\n def __lt__(s, o): l.append(1); return True\nl = [A(), A()]\nl.sort()\n", NULL, ERR_SCRIPT_RAISED,
     "modified during sort"},
    {"a dict that grows", "d = {1: 1}\nfor k in d: d[k + 1] = 1\n", NULL, ERR_SCRIPT_RAISED, "changed size during iteration"},
    {"a dict that shrinks",
     "class K:\n def __hash__(s): return 1\n def __eq__(s, o): d.clear(); return False\nd = {}\nfor i in range(9): d[K()] = i\n", NULL,
     ERR_SCRIPT_RAISED, "changed during a look-up"},
    {"keys of one hash", "class K:\n def __hash__(s): return 1\nd = {}\nfor i in range(10**6): d[K()] = i\n", NULL, ERR_SCRIPT_BUDGET,
     ":4: "},
    {"a deep death", "x = None\nfor i in range(200000): x = [x]\nx = None\nraise ValueError('done')\n", NULL, ERR_SCRIPT_RAISED, "done"},
    {"classes", "class A: pass\nclass B(A): pass\nclass C(A, B): pass\n", NULL, ERR_SCRIPT_RAISED, "method resolution order"},
};

START_TEST(hostile_files_end_cleanly)
{
    size_t room = 200000;
    char *text = calloc(1, room);
    struct err err;
    enum err_code rc;
    size_t n = strlen(hostile[_i].text);

    memcpy(text, hostile[_i].text, n);
    for (size_t k = hostile[_i].again ? strlen(hostile[_i].again) : 0; k && n + k < room - 1; n += k)
        memcpy(text + n, hostile[_i].again, k);
    free(run_text("file.py", text, ROOM, &rc, &err).text);
    ck_assert_msg(rc == hostile[_i].code && strstr(err.detail, hostile[_i].says), "%s: %s: %s", hostile[_i].what, err_slug(rc), err.detail);
    free(text);
}
END_TEST

/* ---- natives */

struct counter {
    struct script_object base;
    int64_t n;
};
static int alive;

static sv counter_init(struct script *s, const struct script_args *a)
{
    struct counter *c = (struct counter *)(void *)a->v[0].o;

    if (sv_ok(a->v[1]) && !script_int(s, a->v[1], &c->n))
        return sv_null();
    alive++;
    return sv_none();
}

static void counter_die(struct script *s, struct obj *o)
{
    (void)s;
    (void)o;
    alive--;
}

static sv counter_add(struct script *s, const struct script_args *a)
{
    int64_t by = 1;

    if (sv_ok(a->v[1]) && !script_int(s, a->v[1], &by))
        return sv_null();
    ((struct counter *)(void *)a->v[0].o)->n += by * (int64_t)a->def->data;
    return sv_keep(a->v[0]);
}

static sv counter_n(struct script *s, sv self, uint32_t data)
{
    (void)s;
    (void)data;
    return sv_int(((struct counter *)(void *)self.o)->n);
}

static const struct script_native counter_methods[] = {{"__init__", counter_init, "self, n=", 0, NATIVE_PLAIN},
                                                       {"add", counter_add, "self, by=", 1, NATIVE_PLAIN},
                                                       {"sub", counter_add, "self, by=", (uint32_t)-1, NATIVE_PLAIN},
                                                       {NULL, NULL, NULL, 0, NATIVE_PLAIN}};
static const struct script_member counter_members[] = {{"n", counter_n, NULL, 0}, {NULL, NULL, NULL, 0}};
static sv counter_call(struct script *s, sv self, const struct script_args *a)
{
    return script_call_method_args(s, self, script_symbol(s, "forward"), a);
}
static sv counter_binary(struct script *s, enum script_binary op, sv a, sv b, bool in_place)
{
    (void)s;
    (void)a;
    (void)b;
    (void)in_place;
    return op == BINARY_MATMUL ? sv_int(42) : sv_not_implemented();
}
static const struct script_class counter_class = {.name = "nn.Counter",
                                                  .bytes = sizeof(struct counter),
                                                  .methods = counter_methods,
                                                  .members = counter_members,
                                                  .die = counter_die,
                                                  .call = counter_call,
                                                  .binary = counter_binary};
static const struct script_class *const classes[] = {&counter_class, NULL};
static const struct script_module module = {"things", NULL, classes, NULL, NULL};

START_TEST(natives_are_part_of_the_language)
{
    static const char text[] = "from things import nn\n"
                               "import things.nn as t\n"
                               "class Mine(t.Counter):\n"
                               "    def __init__(self, n):\n"
                               "        super().__init__(n)\n"
                               "        self.other = nn.Counter(n=2)\n"
                               "    def forward(self, x, *, k=0): return self.n + x + k\n"
                               "m = Mine(3)\n"
                               "result = (m.add().add(by=5).n, m(1, k=2), m.other.n, m @ 1, isinstance(m, nn.Counter))\n"
                               "m = None\n";
    static char block[8 << 20];
    struct arena arena;
    struct image *im, *top;
    struct script *s;
    struct err err = {0};
    uint32_t n;
    const sv *items;
    sv main, result;

    arena_init(&arena, block, sizeof block);
    ck_assert_msg(!image_new(&arena, NULL, &im, &err) && !image_native(im, &module, &err), "%s", err.detail);
    ck_assert_msg(!image_new(&arena, im, &top, &err) && !image_source(top, "m", "m.py", text, sizeof text - 1, false, &err), "%s",
                  err.detail);
    for (int i = 0; i < 2; i++) { /* an image may be run more than once */
        alive = 0;
        ck_assert(!script_new(&arena, top, NULL, NULL, &s, &err));
        main = script_import(s, "m");
        ck_assert_msg(!script_error(s, &err), "%s", err.detail);
        result = script_get(s, main, script_symbol(s, "result"));
        items = seq_items(result, &n);
        ck_assert_uint_eq(n, 5);
        ck_assert_int_eq(items[0].i, 9);
        ck_assert_int_eq(items[1].i, 12);
        ck_assert_int_eq(items[2].i, 2);
        ck_assert_int_eq(items[3].i, 42);
        ck_assert(items[4].b);
        ck_assert_int_eq(alive, 0);
    }
}
END_TEST

static struct script *imported(void *of, struct arena *arena, struct arena *apart, void **root)
{
    struct script *s;
    struct err err;

    *root = arena_new(arena, uint64_t);
    if (!*root || script_new_apart(arena, apart, of, &script_limits_default, &(struct script_host){0}, &s, &err) || !sv_ok(script_import(s, "m")))
        return NULL;
    return s;
}

/* What hashes by where it lies is found again where a script is thawed, and does not keep it from being kept. */
START_TEST(is_kept_with_tables_by_identity)
{
    static const char text[] = "class A:\n"
                               "    def f(self): pass\n"
                               "class B: pass\n"
                               "a = A()\n"
                               "table = {A: 1, B: 2, a: 4, a.f: 8, list[int]: 16, len: 32, int: 64}\n"
                               "classes = {A, B, int}\n"
                               "def check():\n"
                               "    class C: pass\n"
                               "    table[C] = 128\n"
                               "    return sum([table[k] for k in (A, B, a, a.f, list[int], len, int, C)]) + (256 if B in classes and C not in classes else 0)\n";
    static char block[16 << 20], keep_block[8 << 20];
    struct arena arena, keep;
    struct image *im;
    struct script *s;
    struct err err = {0};
    const struct frozen *frozen;
    void *root;

    arena_init(&arena, block, sizeof block);
    arena_init(&keep, keep_block, sizeof keep_block);
    ck_assert_msg(!image_new(&arena, NULL, &im, &err) && !image_source(im, "m", "m.py", text, sizeof text - 1, false, &err), "%s", err.detail);
    frozen = script_freeze(&keep, &arena, imported, im);
    ck_assert(frozen);
    for (int i = 0; i < 2; i++) {
        sv main, said;

        s = script_thaw(frozen, &arena, &arena, &script_limits_default, &(struct script_host){0}, &root);
        ck_assert(s);
        main = script_import(s, "m");
        said = script_call(s, script_get(s, main, script_symbol(s, "check")), 0, NULL);
        ck_assert_msg(sv_ok(said) || !script_error(s, &err), "%s", err.detail);
        ck_assert_int_eq(said.i, 511);
    }
}
END_TEST

/* Whatever writes into what was thawed is seen, so that it is put back; what is remembered, learned or counted is not. */
START_TEST(writing_what_was_thawed_is_seen)
{
    static const char head[] = "import functools\n"
                               "class A:\n"
                               "    kind = 1\n"
                               "    def __init__(self): self.x = 1\n"
                               "    @property\n"
                               "    def twice(self): return 2 * self.x\n"
                               "class S(dict): pass\n"
                               "class L(list): pass\n"
                               "class E(Exception): pass\n"
                               "a = A(); many = A(); many.__dict__; d = {'k': 1, 'l': 2}; e = {}; big = {i: i for i in range(40)}; l = [3, 1, 2]; s = {1, 2}; g = 0\n"
                               "sub = S(); lsub = L(); it = iter([1, 2]); error = E('x'); zipped = zip(l, l)\n"
                               "def outer():\n"
                               "    n = 0\n"
                               "    def inner():\n"
                               "        nonlocal n\n"
                               "        n += 1\n"
                               "        return n\n"
                               "    return inner\n"
                               "count = outer()\n"
                               "@functools.lru_cache\n"
                               "def cached(i): return i\n"
                               "def f(i=1, *, k=2): return i\n"
                               "def check():\n";
    static const struct {
        const char *does;
        bool stirs;
    } rows[] = {
        {"return len(l)", false},
        {"return a.x", false},
        {"return d['k']", false},
        {"return A.kind", false},
        {"return f()", false},
        {"return a.twice", false},
        {"b = A(); b.y = 2; b.z = [1]; return sorted(l)", false},
        {"b = dict(d); b['n'] = 1; c = l[:]; c.append(1); return [i for i in big]", false},
        {"class B(A):\n        other = 3\n    return B().x", false},
        {"try:\n        raise E('y')\n    except E as x: return str(x)", false},
        {"b = a; c = [a, b, d]; del c; return (b, d)", false},
        {"a.x = 2", true},
        {"a.new = 2", true},
        {"del a.x", true},
        {"many.x = 3", true},
        {"many.__dict__['x'] = 3", true},
        {"a.__dict__", true},
        {"A.kind = 2", true},
        {"A.__name__ = 'B'", true},
        {"d['k'] = 2", true},
        {"d['new'] = 2", true},
        {"del d['k']", true},
        {"d.pop('k')", true},
        {"d.popitem()", true},
        {"d.clear()", true},
        {"d.update(x=1)", true},
        {"d.setdefault('z', 1)", true},
        {"e[1] = 1", true},
        {"big[99] = 1", true},
        {"l.append(4)", true},
        {"l.extend(i for i in [4])", true},
        {"l += [4]", true},
        {"l *= 2", true},
        {"l[0] = 9", true},
        {"l[0:1] = [9]", true},
        {"l[::2] = [9, 9]", true},
        {"del l[0]", true},
        {"l.pop()", true},
        {"l.insert(0, 1)", true},
        {"l.remove(1)", true},
        {"l.reverse()", true},
        {"l.sort()", true},
        {"l.clear()", true},
        {"l.__init__([1])", true},
        {"s.add(5)", true},
        {"s.discard(1)", true},
        {"s |= {7}", true},
        {"s.pop()", true},
        {"sub.y = 1", true},
        {"lsub.y = 1", true},
        {"f.y = 1", true},
        {"f.__defaults__ = (2,)", true},
        {"return f.__annotations__", true},
        {"global g\n    g = 1", true},
        {"return count()", true},
        {"return cached(3)", true},
        {"return next(it)", true},
        {"return next(zipped)", true},
        {"try:\n        raise error\n    except E: pass", true},
        {"error.args = (1,)", true},
        {"error.y = 1", true},
        {"import math", true},
    };
    static char block[24 << 20], keep_block[8 << 20], apart_block[4 << 20];

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct arena arena, keep, apart, run;
        struct image *im;
        struct script *s;
        struct err err = {0};
        const struct frozen *frozen;
        char text[4096], *itself;
        void *root;
        sv main, f, said;

        arena_init(&arena, block, sizeof block);
        arena_init(&keep, keep_block, sizeof keep_block);
        arena_init(&apart, apart_block, sizeof apart_block);
        (void)snprintf(text, sizeof text, "%s    %s%s\n", head, strstr(rows[i].does, " += ") || strstr(rows[i].does, " *= ") || strstr(rows[i].does, " |= ")
                                                                  ? "global l, s\n    " : "", rows[i].does);
        ck_assert_msg(!image_new(&arena, NULL, &im, &err) && !image_source(im, "m", "m.py", text, strlen(text), false, &err), "%s: %s", rows[i].does, err.detail);
        frozen = script_freeze(&keep, &arena, imported, im);
        ck_assert_msg(frozen, "%s", rows[i].does);
        itself = malloc(script_itself_bytes());
        s = script_thaw(frozen, &arena, &apart, &script_limits_default, &(struct script_host){0}, &root);
        ck_assert(s);
        script_may_stay(s, frozen);
        main = script_import(s, "m");
        f = script_get(s, main, script_symbol(s, "check"));
        script_stands(s, itself);
        ck_assert(!script_is_stirred(s));
        arena_init(&run, arena.end - (4 << 20), 4 << 20);
        arena.end -= 4 << 20;
        script_moves_on(s, &run);
        said = script_call(s, f, 0, NULL);
        ck_assert_msg(sv_ok(said) || !script_error(s, &err), "%s: %s", rows[i].does, err.detail);
        ck_assert_msg(script_is_stirred(s) == rows[i].stirs, "%s", rows[i].does);
        free(itself);
    }
}
END_TEST

/* Numbers of objects and what is printed of them are the same wherever memory lies: equal requests take equal steps, and nobody learns an address. */
START_TEST(places_are_the_same_everywhere)
{
    static const char text[] = "class A:\n"
                               "    def f(self): pass\n"
                               "a = A()\n"
                               "things = [A, a, A.f, len, int, str.upper, list[int], Exception, object(), a.f, iter([])]\n"
                               "print(*[id(t) for t in things], *[hash(t) for t in things], *things, object.__hash__(a), a.f)\n"
                               "assert id(1 << 62) == id(1 << 62) and len({id(t) for t in things}) == len(things)\n";
    size_t pages[] = {1, 16, 17, 1024};
    struct said first = {0};

    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        void *between = malloc(pages[i] * 4096), *block = malloc(ROOM);
        struct arena low, high;
        struct image *im = NULL, *top = NULL;
        struct script *s = NULL;
        struct said said = {0};
        struct script_host host = {.print = print, .of = &said};
        struct err err = {0};

        arena_init(&low, (char *)block + pages[i] * 4096, ROOM / 4); /* an image above its script, and below it */
        arena_init(&high, (char *)block + ROOM / 2, ROOM / 2);
        ck_assert(!image_new(i % 2 ? &high : &low, NULL, &im, &err));
        ck_assert(!image_new(i % 2 ? &low : &high, im, &top, &err) && !image_source(top, "m", "m.py", text, sizeof text - 1, false, &err));
        ck_assert(!script_new(i % 2 ? &low : &high, top, NULL, &host, &s, &err));
        ck_assert_msg(sv_ok(script_import(s, "m")) || !script_error(s, &err), "%s", err.detail);
        if (i)
            ck_assert_str_eq(said.text, first.text);
        else
            first = said;
        if (i)
            free(said.text);
        free(between);
        free(block);
    }
    free(first.text);
}
END_TEST

START_TEST(survives_any_arena_size)
{
    char *text = file("lives_errors.py");
    struct err err;
    enum err_code rc;

    for (size_t room = 1 << 16; room < 8 << 20; room += 90001) {
        free(run_text("lives_errors.py", text, room, &rc, &err).text);
        ck_assert_msg(!rc || rc == ERR_NOMEM, "room %zu: %s", room, err.detail);
    }
    ck_assert_int_eq(rc, ERR_OK);
    free(text);
}
END_TEST

/* Wherever memory ends while functions within functions are compiled, nobody writes to one that is gone. */
START_TEST(compiles_in_any_arena_size)
{
    static const char text[] = "def f(a=[i for i in (1, 2)], *b, c=lambda d=[x for x in {y: 1 for y in (1, 2)}]: d):\n"
                               "    class C:\n"
                               "        def g(self, h=lambda: [f(k) for k in c()]):\n"
                               "            return {f'{e}' for e in h()}\n"
                               "    return C\n";
    static unsigned char block[1 << 20];
    enum err_code rc = ERR_NOMEM;

    for (size_t room = 1000; room < 1 << 16; room += 112) {
        struct arena arena;
        struct image *im;
        struct err err = {0};

        arena_init(&arena, block, sizeof block);
        ck_assert(!image_new(&arena, NULL, &im, &err));
        arena.end = arena.cur + room;
        rc = image_source(im, "m", "m.py", text, sizeof text - 1, false, &err);
        ck_assert_msg(!rc || rc == ERR_NOMEM, "room %zu: %s", room, err.detail);
    }
    ck_assert_int_eq(rc, ERR_OK);
}
END_TEST

UNIT_TESTS("script/script", unit_rows(does_what_python_does, programs); unit_test(goes_on_where_a_slice_of_steps_ends); unit_rows(hostile_files_end_cleanly, hostile);
           unit_test(natives_are_part_of_the_language); unit_test(is_kept_with_tables_by_identity); unit_test(writing_what_was_thawed_is_seen); unit_test(places_are_the_same_everywhere);
           unit_test(survives_any_arena_size);
           unit_test(compiles_in_any_arena_size);)
