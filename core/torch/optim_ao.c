/*
 * optim_ao.c - torchao's AdamW with states of 8 or 4 bits, as the Trainer makes it (blocks of 256): a parameter at a time, its update compiled by Inductor.
 * Each state has a table of its values of its own. Beside them stands what Inductor's code of the update hands from kernel to kernel (quirk ao_update).
 * fully_shard hands over DTensors, whose local tensors it works on.
 */
#include "torch/optim_inside.h"

/* torchao 0.18.0 optim/adam.py _new_buffer: smaller ones, and what blocks do not divide, have zeros_like(p); subclass_8bit.py, subclass_4bit.py zeros() */
enum { MIN_ELEMS = 4096, BLOCK = 256 };

static val state_of(struct run *r, enum op op, enum dtype dtype, int ndim, const int64_t *size)
{
    val v = owned(r, value_empty(r, op, dtype, ndim, size));

    mark_block(r, v, MARK_OPTIMIZER_STATE);
    return v;
}

static bool is_packed(const struct run *r, val leaf)
{
    int64_t n = numel(r, leaf);

    return n >= MIN_ELEMS && n % BLOCK == 0;
}

static unsigned bits_of(const struct optim *o)
{
    return o->kind == OPTIM_AO_ADAMW_8BIT ? 8 : 4;
}

void optim_ao_init(struct run *r, struct optim *o, struct optim_state *s, val leaf)
{
    int64_t n = numel(r, leaf);

    s->stands = true;
    for (int i = 0; i < 2; i++) {
        val *codes = i ? &s->exp_avg_sq : &s->exp_avg;

        if (!is_packed(r, leaf)) {
            *codes = optim_state_like(r, OP_ZEROS_LIKE, leaf);
            continue;
        }
        *codes = state_of(r, OP_ZEROS, DTYPE_UINT8, SHAPE(n * bits_of(o) / 8));
        s->absmax[i] = state_of(r, OP_ZEROS, DTYPE_FP32, SHAPE(n / BLOCK));
        s->qmap[i] = state_of(r, OP_TO_COPY, DTYPE_FP32, SHAPE(bits_of(o) == 8 ? 256 : 16));
    }
}

/* What is born together and dies in another order. */
struct held {
    val v[6];
    unsigned n;
};

static void hold(struct run *r, struct held *h, enum dtype dtype, int64_t n)
{
    h->v[h->n++] = owned(r, value_empty(r, OP_EMPTY_STRIDED, dtype, 1, &n));
}

static void let_go(struct run *r, const struct held *h, const char *order)
{
    for (; *order; order++)
        value_unref(r, h->v[*order - '0']);
}

/* torch 2.4 */
static void keep_states(struct run *r, unsigned bits, int64_t n)
{
    struct held h = {.n = 0};

    for (int i = 0; i < 2; i++)
        hold(r, &h, DTYPE_FP32, n);
    for (int i = 0; i < 2; i++)
        hold(r, &h, DTYPE_FP32, n / BLOCK);
    for (int i = 0; i < 2 && bits == 4; i++)
        hold(r, &h, DTYPE_UINT8, n);
    let_go(r, &h, bits == 4 ? "042513" : "0123");
}

/* 2.7, of 4 bits */
static void keep_codes(struct run *r, int64_t n)
{
    struct held h = {.n = 0};

    for (int i = 0; i < 4; i++)
        hold(r, &h, i % 2 ? DTYPE_INT64 : DTYPE_FP32, n);
    let_go(r, &h, "0123");
}

/* 2.15, of 4 bits: maxima of few blocks come in two steps, the first of two halves each (_inductor/ir.py num_splits). */
static void keep_maxima(struct run *r, int64_t n)
{
    struct held h = {.n = 0}, halves = {.n = 0};
    int64_t blocks = n / BLOCK;
    bool splits = blocks < 64 * (int64_t)r->device.multiprocessors;

    for (int i = 0; i < 2 && splits; i++)
        hold(r, &halves, DTYPE_FP32, 2 * blocks);
    for (int i = 0; i < 2; i++) {
        hold(r, &h, DTYPE_FP32, blocks);
        let_go(r, &halves, !splits ? "" : i ? "1" : "0");
    }
    for (int i = 0; i < 2; i++)
        hold(r, &h, DTYPE_FP32, n);
    for (int i = 0; i < 2; i++)
        hold(r, &h, DTYPE_INT64, n);
    let_go(r, &h, "240351");
}

static void update(struct run *r, unsigned bits, int64_t n)
{
    if (r->q->ao_update == AO_KEEPS_STATES)
        keep_states(r, bits, n);
    else if (bits == 4 && r->q->ao_update == AO_KEEPS_CODES)
        keep_codes(r, n);
    else if (bits == 4)
        keep_maxima(r, n);
}

static void step_one(struct run *r, struct optim *o, struct optim_state *s, val leaf)
{
    uint64_t n = (uint64_t)numel(r, leaf);
    unsigned own = dtype_bytes(dtype_of(r, leaf));

    if (!s->stands)
        optim_ao_init(r, o, s, leaf);
    if (s->absmax[0])
        update(r, bits_of(o), (int64_t)n);
    work_add(r, OP_ADD, 60 * n, n * 3 * own + (s->absmax[0] ? n * bits_of(o) / 2 : 4 * n * own), 2);
}

void optim_ao_step(struct run *r, struct optim *o)
{
    for (int g = 0; g < OPTIM_GROUPS; g++)
        for (uint32_t i = 0; i < o->n_group[g] && !run_dead(r); i++)
            if (optim_has_grad(r, o->group[g][i]))
                step_one(r, o, &o->state[g][i], o->group[g][i]);
}
