/*
 * calls.h - what a module's forward asks of a run, written down once and asked again where the same comes by: without the program that said it.
 *
 * Purpose   layers are alike, and methods run the same model: the interpreter's share of a run is saved. What is asked again runs as ever: operators, hooks,
 *           modules, with the values, streams and switches of the run that it is asked of.
 * Exact     a program's way hangs on constants, on what it is given (the caller's key) and on what it reads off its tensors. The last is checked as it is
 *           asked again: a result of other sizes, strides, dtype or graph ends the run as `diverged`, and who began it begins anew by hand.
 * Written   operators that are rows of calls.def, modules' beginnings and ends, which results are held and let go of, in their order; and, as one
 *           thing, what a program does by hand each time (an autograd.Function). Whatever else
 *           touches the run, or comes from outside of the module, is not written down: the key is known from then on as one that has no calls.
 * Owner     the book: a block of the caller's, given up whole when it is full.
 * Threads   none.
 */
#ifndef TORCH_CALLS_H
#define TORCH_CALLS_H

#include "torch/run.h"

struct module;

enum called {
#define CALL(name, make) CALLED_##name,
#include "torch/calls.def"
#undef CALL
    CALLED_module, /* call(): a module that runs in core/torch */
    CALLED_ENTER,
    CALLED_LEAVE,
    CALLED_READ,   /* module_read() */
    CALLED_HAND,   /* by_hand() of who asks again: its result is held once */
    CALLED_HOLD,   /* a reference more; of a temporary: it becomes the holder's */
    CALLED_LEND,   /* a reference more in any case */
    CALLED_DROP,
    CALLED_CONSUME,
    CALLED_SINK    /* what frame_leave() gave, and nobody takes */
};

enum { CALLS_KEY_WORDS = 192, CALLS_INPUTS = 24, CALLS_RESULTS = 6 };

struct calls_key {
    uint32_t n;
    bool beyond; /* it has no room, or holds what no key can */
    uint64_t word[CALLS_KEY_WORDS];
};

static inline void calls_key_add(struct calls_key *k, uint64_t word)
{
    if (k->n < CALLS_KEY_WORDS)
        k->word[k->n++] = word;
    else
        k->beyond = true;
}

struct calls;
struct calls_book;

struct calls_book *calls_book(void *room, size_t bytes); /* NULL: too small */

/* Known: *ret is set, NULL where it has no calls. */
bool calls_find(const struct calls_book *b, const struct calls_key *key, const struct calls **ret);

/* Begins to write what r is asked within `unit` for `in`. False: something is being written. */
bool calls_begin(struct run *r, struct calls_book *b, const struct calls_key *key, struct module *unit, int n, const val *in);
/* It is done: `out` are held by the caller's objects, once each, and are none of `in`. form: the caller's; steps: what the program took, by_hand: of
 * them what is done by hand. */
void calls_end(struct run *r, int n, const val *out, uint32_t form, uint64_t steps, uint64_t by_hand);
void calls_give_up(struct run *r); /* of what is being written */

void calls_key_value(struct calls_key *k, const struct run *r, val v); /* all that can be read off it */

uint64_t calls_steps(const struct calls *c); /* that it counts as where it is asked again; what is by hand counts itself */
uint32_t calls_form(const struct calls *c);
uint64_t calls_count(const struct calls *c); /* about as many events as it makes and steps that it takes by hand, at most */
/* What is done by hand: the same numbers and values of the same kind as when it was written; the result is held by the caller, 0: the run says why. */
struct calls_host {
    val (*by_hand)(void *of, int n, const val *v, const int64_t *i);
    void *of;
};
/* The same of another unit and other values; ret: the caller holds them, once each. */
void calls_again(struct run *r, const struct calls *c, const struct calls_host *host, struct module *unit, const val *in, val *ret);

/* ---- for those who are asked; nothing where nothing is written */
val calls_ask(struct run *r, enum called what, int n, const val *v, int n_i, const int64_t *i);
void calls_ask_many(struct run *r, enum called what, int n, const val *v, int n_i, const int64_t *i, int n_ret, val *ret);
void calls_split(struct run *r, enum called what, val a, int dim, int n, const int64_t *sizes, val *ret);
val calls_module(struct run *r, struct module *m, val x);
struct frame calls_enter(struct run *r, struct module *m, val *x);
val calls_leave(struct run *r, struct frame f, val result); /* frame_leave() of what module_enter_with() began */
void calls_read(struct run *r, struct module *m);
/* What follows is done by hand, and is one call: nothing within is written. NULL: nothing is being written. */
struct calls_writer *calls_hand_begins(struct run *r, int n, const val *v, int n_i, const int64_t *i);
void calls_hand_ends(struct run *r, struct calls_writer *w, int n, const val *v, val out); /* out: held once; 0: it made none */
void calls_write_held(struct run *r, enum called what, val v);

/* Happens to what a program's object refers to, and is written down. */
static inline void calls_held(struct run *r, enum called what, val v)
{
    if (r->calls)
        calls_write_held(r, what, v);
    else if (what == CALLED_DROP)
        value_unref(r, v);
    else if (what == CALLED_CONSUME)
        consume(r, v);
    else if (what == CALLED_SINK)
        r->values[v].floating = false, value_unref(r, v);
    else if (what == CALLED_HOLD && r->values[v].floating)
        (void)owned(r, v);
    else
        value_ref(r, v);
}

#define ASKED(r, what, n, v, n_i, i)                               \
    if ((r)->calls)                                                \
    return calls_ask(r, CALLED_##what, n, v, n_i, i)
#define ASKED_V(r, what, a)         ASKED(r, what, 1, (&(const val){a}), 0, NULL)
#define ASKED_VV(r, what, a, b)     ASKED(r, what, 2, ((const val[]){a, b}), 0, NULL)
#define ASKED_VVV(r, what, a, b, c) ASKED(r, what, 3, ((const val[]){a, b, c}), 0, NULL)
#define ASKED_VI(r, what, a, ...)   ASKED(r, what, 1, (&(const val){a}), CALLS_COUNT(__VA_ARGS__), ((const int64_t[]){__VA_ARGS__}))
#define ASKED_TWO(r, what, a, n_i, i, ret) /* of an operator with two results */ \
    if ((r)->calls) {                                                               \
        calls_ask_many(r, CALLED_##what, 1, &(a), n_i, i, 2, ret);                  \
        return;                                                                     \
    }
#define CALLS_COUNT(...)            (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static inline void calls_unheard(struct run *r) /* something happens to the run that cannot be written down */
{
    if (r->calls)
        calls_give_up(r);
}
static inline int64_t calls_bits(double d)
{
    union {
        double d;
        int64_t i;
    } u = {.d = d};

    return u.i;
}
static inline double calls_double(int64_t i)
{
    union {
        int64_t i;
        double d;
    } u = {.i = i};

    return u.d;
}

#endif
