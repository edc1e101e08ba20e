#include "torch/calls.h"

#include "base/arena.h"
#include "torch/module.h"
#include "torch/ops.h"
#include "torch/views.h"
#include "torch/work.h"

#include <string.h>

enum { MOST_CALLS = 4096, MOST_SLOTS = 4096, MOST_OPERANDS = 8192, MOST_NUMBERS = 40960, MOST_RETURNED = 64 }; /* of a forward */
enum { MOST_MODULES = 192, MOST_PARAMS = 384, DEEPEST = 24, BUCKETS = 256 };
enum { OF_PARAM = 1u << 31 }; /* of an operand: the rest is a parameter's place, not a slot's */

/* That are asked again count as one step of a program, beside their events. Empirical: a quarter of what a budget's event takes (tests/data/worst.jsonl). */
enum { CALLS_A_STEP = 4 };

struct call {
    uint8_t what, n, n_i, n_ret; /* enum called */
    uint32_t operands, numbers;  /* where its own begin: numbers it was given, then what each result looks like */
    uint32_t slot;               /* of its first result */
};

struct calls {
    struct calls *next;
    uint64_t hash;
    const uint64_t *key;
    uint32_t n_key, n;
    const struct call *list;
    const uint32_t *operands;
    const int64_t *numbers;
    uint64_t steps, events;
    uint32_t n_in, n_out, out[CALLS_RESULTS];
    uint32_t form;    /* the caller's */
    bool none, stops; /* nothing was written; the run stopped within */
};

/* What stands below the unit, children after their parent. */
struct below {
    uint32_t n, n_params;
    struct module *m[MOST_MODULES];
    struct param *p[MOST_PARAMS];
};

struct calls_writer {
    struct calls_book *book;
    uint64_t hash;
    struct calls_key key;
    struct below below;
    uint32_t n, n_operands, n_numbers, n_slots, n_in;
    struct call list[MOST_CALLS];
    uint32_t operands[MOST_OPERANDS];
    int64_t numbers[MOST_NUMBERS];
    val slot[MOST_SLOTS];
    uint16_t root[MOST_SLOTS]; /* the slot that has the same value from before */
    int16_t held[MOST_SLOTS];
    /* the run as it was left: whatever differs was not written down */
    uint32_t taken, events, kernels, begun, depth;
    uint64_t sequence;
    bool counts_evenly;
};

struct calls_book {
    struct arena arena;
    unsigned char *begin;
    struct calls *bucket[BUCKETS];
    struct calls_writer writer;
};

struct calls_book *calls_book(void *room, size_t bytes)
{
    struct arena a;
    struct calls_book *b;

    arena_init(&a, room, bytes);
    b = bytes > 2 * sizeof *b ? arena_new(&a, struct calls_book) : NULL;
    if (!b)
        return NULL;
    b->arena = a;
    b->begin = a.cur;
    return b;
}

static uint64_t hash_of(const struct calls_key *key)
{
    uint64_t hash = 7;

    for (uint32_t i = 0; i < key->n; i++) {
        hash = (hash ^ key->word[i]) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 29;
    }
    return hash;
}

bool calls_find(const struct calls_book *b, const struct calls_key *key, const struct calls **ret)
{
    uint64_t hash = hash_of(key);

    for (const struct calls *c = b->bucket[hash % BUCKETS]; c; c = c->next)
        if (c->hash == hash && c->n_key == key->n && !memcmp(c->key, key->word, key->n * sizeof *key->word)) {
            *ret = c->none ? NULL : c;
            return true;
        }
    return false;
}

static void list_below(struct below *b, struct module *m)
{
    if (b->n < MOST_MODULES)
        b->m[b->n] = m;
    b->n++;
    for (struct param *p = m->params; p; p = p->next, b->n_params++)
        if (b->n_params < MOST_PARAMS)
            b->p[b->n_params] = p;
    for (struct module *c = m->first; c; c = c->next)
        list_below(b, c);
}

/* --- written ------------------------------------------------------------------------------------------------------------- */
static void remember(struct run *r, struct calls_writer *w)
{
    w->taken = r->n_taken;
    w->events = r->n_events;
    w->sequence = r->sequence;
    w->kernels = r->work ? r->work->n_kernels : 0;
}

static bool is_as_left(const struct run *r, const struct calls_writer *w)
{
    return w->taken == r->n_taken && w->events == r->n_events && w->sequence == r->sequence && w->kernels == (r->work ? r->work->n_kernels : 0);
}

bool calls_begin(struct run *r, struct calls_book *b, const struct calls_key *key, struct module *unit, int n, const val *in)
{
    struct calls_writer *w = &b->writer;

    if (r->calls || key->beyond || n > CALLS_INPUTS)
        return false;
    w->below.n = w->below.n_params = 0;
    list_below(&w->below, unit);
    if (w->below.n > MOST_MODULES || w->below.n_params > MOST_PARAMS)
        return false;
    w->book = b;
    w->hash = hash_of(key);
    memcpy(&w->key, key, sizeof w->key);
    w->n = w->n_operands = w->n_numbers = 0;
    w->slot[0] = 0;
    w->n_slots = 1; /* 0 is None */
    for (int i = 0; i < n; i++)
        w->slot[w->n_slots++] = in[i];
    w->n_in = (uint32_t)n;
    memset(w->held, 0, sizeof w->held);
    for (uint32_t i = 0; i < w->n_slots; i++)
        w->root[i] = (uint16_t)i;
    w->begun = r->n_events;
    w->depth = 0;
    w->counts_evenly = r->counts_evenly;
    remember(r, w);
    r->calls = w;
    return true;
}

static void put(struct calls_writer *w, struct calls *c)
{
    c->hash = w->hash;
    c->n_key = w->key.n;
    c->next = w->book->bucket[w->hash % BUCKETS];
    w->book->bucket[w->hash % BUCKETS] = c;
}

static void *copied(struct arena *a, const void *of, size_t bytes)
{
    void *p = arena_push_raw(a, bytes ? bytes : 1, _Alignof(max_align_t), 1);

    if (p)
        memcpy(p, of, bytes);
    return p;
}

static struct calls *entry(struct calls_writer *w, bool written)
{
    struct arena *a = &w->book->arena;
    struct calls *c = arena_new(a, struct calls);

    if (!c)
        return NULL;
    *c = (struct calls){.none = !written};
    c->key = copied(a, w->key.word, w->key.n * sizeof *w->key.word);
    if (written) {
        c->n = w->n;
        c->list = copied(a, w->list, w->n * sizeof *w->list);
        c->operands = copied(a, w->operands, w->n_operands * sizeof *w->operands);
        c->numbers = copied(a, w->numbers, w->n_numbers * sizeof *w->numbers);
    }
    return a->full ? NULL : c;
}

/* A full book begins anew. */
static struct calls *keep(struct calls_writer *w, bool written)
{
    struct calls_book *b = w->book;
    struct calls *c = entry(w, written);

    if (!c) {
        arena_rewind(&b->arena, b->begin);
        b->arena.full = false;
        memset(b->bucket, 0, sizeof b->bucket);
        c = entry(w, written);
        b->arena.full = false;
    }
    if (c)
        put(w, c);
    return c;
}

void calls_give_up(struct run *r)
{
    struct calls_writer *w = r->calls;

    r->calls = NULL;
    if (w)
        (void)keep(w, false);
}

static bool is_balanced(const struct calls_writer *w, int n, const uint32_t *out)
{
    for (uint32_t i = 0; i < w->n_slots; i++) {
        int held = w->held[i];

        for (int k = 0; k < n; k++)
            held -= out[k] == i;
        if (held)
            return false;
    }
    return true;
}

static bool find(struct calls_writer *w, val v, uint32_t *ret)
{
    *ret = 0;
    if (!v)
        return true;
    for (uint32_t i = w->n_slots; i-- > 1;)
        if (w->slot[i] == v) {
            *ret = i;
            return true;
        }
    for (uint32_t i = 0; i < w->below.n_params; i++)
        if (w->below.p[i]->value == v && !w->below.p[i]->reads) {
            *ret = OF_PARAM | i;
            return true;
        }
    return false;
}

void calls_end(struct run *r, int n, const val *out, uint32_t form, uint64_t steps, uint64_t by_hand)
{
    struct calls_writer *w = r->calls;
    uint32_t slots[CALLS_RESULTS];
    struct calls *c;
    bool ok = w && is_as_left(r, w) && n <= CALLS_RESULTS && !r->error.code && w->counts_evenly == r->counts_evenly;

    for (int i = 0; ok && i < n; i++) {
        ok = find(w, out[i], &slots[i]) && !(slots[i] & OF_PARAM);
        slots[i] = ok ? w->root[slots[i]] : 0;
        ok = ok && slots[i] > w->n_in;
    }
    if (!ok || !is_balanced(w, n, slots)) {
        calls_give_up(r);
        return;
    }
    r->calls = NULL;
    c = keep(w, true);
    if (!c)
        return;
    c->steps = steps - by_hand < c->n / CALLS_A_STEP ? steps - by_hand : c->n / CALLS_A_STEP;
    c->form = form;
    c->events = r->n_events - w->begun + by_hand;
    c->n_in = w->n_in;
    c->n_out = (uint32_t)n;
    c->stops = r->stopped;
    memcpy(c->out, slots, (size_t)n * sizeof *slots);
}

/* What a program can read off a tensor, and which operand it is, from 1. */
static int64_t word_of(const struct value *x, int same)
{
    unsigned flags = (x->requires_grad ? 1U : 0U) | (x->floating ? 2U : 0U) | (x->contiguous ? 4U : 0U) | (x->leaf ? 8U : 0U) | (x->view ? 16U : 0U) |
                     (x->node ? 32U : 0U) | (x->storage ? 64U : 0U);

    return (int64_t)((uint64_t)x->dtype | (uint64_t)x->ndim << 8 | (uint64_t)flags << 16 | (uint64_t)(unsigned)same << 32);
}

void calls_key_value(struct calls_key *k, const struct run *r, val v)
{
    const struct value *x = &r->values[v];

    calls_key_add(k, (uint64_t)word_of(x, 0));
    for (int i = 0; i < x->ndim; i++) {
        calls_key_add(k, (uint64_t)x->size[i]);
        calls_key_add(k, (uint64_t)x->stride[i]);
    }
}

static void see(struct calls_writer *w, const struct run *r, val v, int same)
{
    const struct value *x = &r->values[v];

    w->numbers[w->n_numbers++] = v ? word_of(x, same) : -1;
    for (int i = 0; v && i < x->ndim; i++)
        w->numbers[w->n_numbers++] = x->size[i];
    for (int i = 0; v && i < x->ndim; i++)
        w->numbers[w->n_numbers++] = x->stride[i];
}

static int same_as(val out, int n, const val *v)
{
    for (int i = 0; i < n; i++)
        if (v[i] && v[i] == out)
            return i + 1;
    return 0;
}

/* false: it cannot be written down, and nothing is any more. */
static bool write(struct run *r, enum called what, int n, const val *v, int n_i, const int64_t *i, int n_ret)
{
    struct calls_writer *w = r->calls;
    bool ok = is_as_left(r, w) && w->n < MOST_CALLS && w->n_operands + (uint32_t)n <= MOST_OPERANDS && n <= UINT8_MAX && n_i <= UINT8_MAX &&
              n_ret <= MOST_RETURNED && w->n_slots + (uint32_t)n_ret <= MOST_SLOTS &&
              w->n_numbers + (uint32_t)n_i + (uint32_t)n_ret * (1 + 2 * MAX_DIMS) <= MOST_NUMBERS;
    struct call *c = &w->list[w->n];

    if (ok)
        *c = (struct call){(uint8_t)what, (uint8_t)n, (uint8_t)n_i, (uint8_t)n_ret, w->n_operands, w->n_numbers, w->n_slots};
    for (int k = 0; ok && k < n; k++)
        ok = find(w, v[k], &w->operands[w->n_operands++]);
    if (!ok) {
        calls_give_up(r);
        return false;
    }
    for (int k = 0; k < n_i; k++)
        w->numbers[w->n_numbers++] = i[k];
    w->n++;
    return true;
}

static void returned(struct run *r, struct calls_writer *w, int n, const val *v, int n_ret, const val *ret)
{
    const struct call *c = &w->list[w->n - 1];

    for (int k = 0; k < n_ret; k++) {
        int same = same_as(ret[k], n, v);
        uint32_t at = same ? w->operands[c->operands + (uint32_t)same - 1] : 0;

        see(w, r, ret[k], same);
        w->slot[w->n_slots] = ret[k];
        w->root[w->n_slots] = same && !(at & OF_PARAM) ? w->root[at] : (uint16_t)w->n_slots;
        w->n_slots++;
    }
    remember(r, w);
}

static val permuted(struct run *r, val a, int n, const int64_t *order)
{
    int places[MAX_DIMS];

    for (int i = 0; i < n && i < MAX_DIMS; i++)
        places[i] = (int)order[i];
    return permute(r, a, n, places);
}

static val make(struct run *r, enum called what, int n, const val *v, int n_i, const int64_t *i, val *ret)
{
    (void)n;
    switch (what) {
#define CALL(name, made) \
    case CALLED_##name:  \
        return made;
#include "torch/calls.def"
#undef CALL
    default:
        return 0;
    }
}

void calls_ask_many(struct run *r, enum called what, int n, const val *v, int n_i, const int64_t *i, int n_ret, val *ret)
{
    struct calls_writer *w = r->calls;
    bool written = write(r, what, n, v, n_i, i, n_ret);
    val first;

    r->calls = NULL;
    first = make(r, what, n, v, n_i, i, ret);
    if (n_ret)
        ret[0] = first;
    if (!written)
        return;
    r->calls = w;
    returned(r, w, n, v, n_ret, ret);
}

val calls_ask(struct run *r, enum called what, int n, const val *v, int n_i, const int64_t *i)
{
    val ret = 0;

    calls_ask_many(r, what, n, v, n_i, i, 1, &ret);
    return ret;
}

void calls_split(struct run *r, enum called what, val a, int dim, int n, const int64_t *sizes, val *ret)
{
    int64_t asked[1 + MOST_RETURNED] = {dim};

    if (n > MOST_RETURNED) {
        calls_give_up(r);
        (what == CALLED_split ? split : split_with_sizes)(r, a, dim, n, sizes, ret);
        return;
    }
    memcpy(asked + 1, sizes, (size_t)n * sizeof *sizes);
    calls_ask_many(r, what, 1, &a, 1 + n, asked, n, ret);
}

static int64_t place_of(const struct calls_writer *w, const struct module *m)
{
    for (uint32_t i = 0; i < w->below.n; i++)
        if (w->below.m[i] == m)
            return i;
    return -1;
}

/* False: it is something else's. n: of its input and its result, 0 or 1. */
static bool write_module(struct run *r, enum called what, const struct module *m, int n, const val *x)
{
    int64_t place = place_of(r->calls, m);

    if (place >= 0)
        return write(r, what, n, x, 1, &place, n);
    calls_give_up(r);
    return false;
}

val calls_module(struct run *r, struct module *m, val x)
{
    struct calls_writer *w = r->calls;
    bool written = write_module(r, CALLED_module, m, 1, &x);
    val out;

    r->calls = NULL;
    out = call(r, m, x);
    if (!written)
        return out;
    r->calls = w;
    returned(r, w, 1, &x, 1, &out);
    return out;
}

struct frame calls_enter(struct run *r, struct module *m, val *x)
{
    struct calls_writer *w = r->calls;
    bool written = write_module(r, CALLED_ENTER, m, 1, x);
    val given = *x;
    struct frame f;

    r->calls = NULL;
    f = module_enter_with(r, m, x);
    if (!written)
        return f;
    r->calls = w;
    returned(r, w, 1, &given, 1, x);
    if (++w->depth > DEEPEST)
        calls_give_up(r);
    return f;
}

val calls_leave(struct run *r, struct frame f, val result)
{
    struct calls_writer *w = r->calls;
    bool written = w->depth && write(r, CALLED_LEAVE, 1, &result, 0, NULL, 1);
    val out;

    if (r->calls && !written)
        calls_give_up(r);

    r->calls = NULL;
    out = frame_leave(r, f, result);
    if (!written)
        return out;
    r->calls = w;
    w->depth--;
    returned(r, w, 1, &result, 1, &out);
    return out;
}

void calls_read(struct run *r, struct module *m)
{
    struct calls_writer *w = write_module(r, CALLED_READ, m, 0, NULL) ? r->calls : NULL;

    r->calls = NULL;
    module_read(r, m);
    r->calls = w;
    if (w)
        remember(r, w);
}

struct calls_writer *calls_hand_begins(struct run *r, int n, const val *v, int n_i, const int64_t *i)
{
    struct calls_writer *w = r->calls && write(r, CALLED_HAND, n, v, n_i, i, 1) ? r->calls : NULL;

    r->calls = NULL;
    return w;
}

void calls_hand_ends(struct run *r, struct calls_writer *w, int n, const val *v, val out)
{
    r->calls = w;
    returned(r, w, n, v, 1, &out);
    if (out)
        w->held[w->root[w->n_slots - 1]]++;
}

static void take_hold(struct run *r, val v)
{
    if (r->values[v].floating)
        (void)owned(r, v);
    else
        value_ref(r, v);
}

static void sink(struct run *r, val v)
{
    r->values[v].floating = false;
    value_unref(r, v);
}

/* It is written before it happens. */
void calls_write_held(struct run *r, enum called what, val v)
{
    struct calls_writer *w = r->calls && v && write(r, what, 1, &v, 0, NULL, 0) ? r->calls : NULL;
    uint32_t at = w ? w->operands[w->n_operands - 1] : 0;

    if (at & OF_PARAM) {
        calls_give_up(r);
        w = NULL;
    }
    if (w)
        w->held[w->root[at]] = (int16_t)(w->held[w->root[at]] + (what == CALLED_HOLD || what == CALLED_LEND) - (what == CALLED_DROP));
    if (what == CALLED_HOLD)
        take_hold(r, v);
    else if (what == CALLED_LEND)
        value_ref(r, v);
    else if (what == CALLED_DROP)
        value_unref(r, v);
    else if (what == CALLED_CONSUME)
        consume(r, v);
    else
        sink(r, v);
    if (w)
        remember(r, w);
}

/* --- asked again ----------------------------------------------------------------------------------------------------------- */
uint64_t calls_steps(const struct calls *c)
{
    return c->steps;
}

uint64_t calls_count(const struct calls *c)
{
    return c->events;
}

uint32_t calls_form(const struct calls *c)
{
    return c->form;
}

/* Where it differs the program might have gone another way. Returns behind what it compared with; NULL: it differs. */
static const int64_t *looks(const struct run *r, val out, int n, const val *v, const int64_t *seen)
{
    const struct value *x = &r->values[out];

    if (*seen == -1)
        return out ? NULL : seen + 1;
    if (!out || *seen != word_of(x, same_as(out, n, v)))
        return NULL;
    seen++;
    for (int i = 0; i < x->ndim; i++)
        if (seen[i] != x->size[i] || seen[x->ndim + i] != x->stride[i])
            return NULL;
    return seen + 2 * x->ndim;
}

static void diverge(struct run *r)
{
    if (r->error.code == ERR_BUDGET || r->error.code == ERR_CANCELLED)
        return;
    r->diverged = true; /* an error too is to be told by who caused it */
    run_fail(r, ERR_INTERNAL, "", "a module that was taken for another went its own way");
}

void calls_again(struct run *r, const struct calls *c, const struct calls_host *host, struct module *unit, const val *in, val *ret)
{
    struct below below = {0};
    struct frame frames[DEEPEST];
    val slot[MOST_SLOTS], v[UINT8_MAX + 1], out[MOST_RETURNED];
    uint32_t depth = 0;

    list_below(&below, unit);
    slot[0] = 0;
    memcpy(slot + 1, in, c->n_in * sizeof *slot);
    for (const struct call *k = c->list, *end = k + c->n; k < end; k++) {
        const uint32_t *at = c->operands + k->operands;
        const int64_t *numbers = c->numbers + k->numbers, *seen = numbers + k->n_i;

        if (k->what == CALLED_DROP) { /* half of all */
            value_unref(r, slot[*at]);
            continue;
        }
        if (k->what == CALLED_HOLD) {
            take_hold(r, slot[*at]);
            continue;
        }
        for (unsigned i = 0; i < k->n; i++)
            v[i] = at[i] & OF_PARAM ? below.p[at[i] & ~OF_PARAM]->value : slot[at[i]];
        switch (k->what) {
        case CALLED_LEND:
            value_ref(r, v[0]);
            continue;
        case CALLED_CONSUME:
            consume(r, v[0]);
            continue;
        case CALLED_SINK:
            sink(r, v[0]);
            continue;
        case CALLED_module:
            out[0] = call(r, below.m[numbers[0]], v[0]);
            break;
        case CALLED_ENTER:
            out[0] = v[0];
            frames[depth++] = module_enter_with(r, below.m[numbers[0]], out);
            break;
        case CALLED_LEAVE:
            out[0] = frame_leave(r, frames[--depth], v[0]);
            break;
        case CALLED_READ:
            module_read(r, below.m[numbers[0]]);
            break;
        case CALLED_HAND:
            out[0] = host->by_hand(host->of, k->n, v, numbers);
            break;
        default:
            out[0] = make(r, (enum called)k->what, k->n, v, k->n_i, numbers, out);
        }
        for (unsigned i = 0; i < k->n_ret; i++) {
            seen = looks(r, out[i], k->n, v, seen);
            if (!seen) {
                diverge(r);
                return;
            }
            slot[k->slot + i] = out[i];
        }
    }
    if (r->stopped != c->stops) {
        diverge(r);
        return;
    }
    for (uint32_t i = 0; i < c->n_out; i++)
        ret[i] = slot[c->out[i]];
}
