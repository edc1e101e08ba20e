/*
 * optim_ao.c - torchao's AdamW with states of 8 or 4 bits, as the Trainer makes it (blocks of 256): a parameter at a time, its update compiled by Inductor.
 * Each state has a table of its values of its own. Of the compiled update what its source says is there: the maxima of each block before they are copied.
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

static void step_one(struct run *r, struct optim *o, struct optim_state *s, val leaf)
{
    uint64_t n = (uint64_t)numel(r, leaf);
    unsigned own = dtype_bytes(dtype_of(r, leaf));
    val maxima[2] = {0};

    if (!s->stands)
        optim_ao_init(r, o, s, leaf);
    for (int i = 0; i < 2 && s->absmax[i]; i++)
        maxima[i] = optim_like(r, OP_AMAX, s->absmax[i]);
    for (int i = 2; i-- > 0;)
        value_unref(r, maxima[i]);
    work_add(r, OP_ADD, 60 * n, n * 3 * own + (s->absmax[0] ? n * bits_of(o) / 2 : 4 * n * own), 2);
}

void optim_ao_step(struct run *r, struct optim *o)
{
    for (int g = 0; g < OPTIM_GROUPS; g++)
        for (uint32_t i = 0; i < o->n_group[g] && !run_dead(r); i++)
            if (optim_has_grad(r, o->group[g][i]))
                step_one(r, o, &o->state[g][i], o->group[g][i]);
}
