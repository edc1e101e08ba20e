/* optim_bnb.c - bitsandbytes' optimizers: states of 8 bits in blocks or of 32 bits, paged or not; a parameter at a time. See optim.h. */
#include "torch/autograd.h"
#include "torch/optim.h"
#include "torch/work.h"

/* optim/optimizer.py 0.50.2: min_8bit_size, blocksize; get_state_buffer() pages what has so many elements */
enum { MIN_8BIT_ELEMS = 4096, BLOCK = 256, PAGED_ELEMS = 100000, QMAP = 256 };

bool optim_is_bnb(enum optim_kind kind)
{
    return kind >= OPTIM_BNB_ADAMW_8BIT && kind <= OPTIM_BNB_LION_32BIT;
}

static bool has_two(enum optim_kind kind)
{
    return kind == OPTIM_BNB_ADAMW_8BIT || kind == OPTIM_BNB_ADAMW_32BIT;
}

static bool is_8bit(const struct optim *o, bool wide, int64_t elems)
{
    return (o->kind == OPTIM_BNB_ADAMW_8BIT || o->kind == OPTIM_BNB_LION_8BIT) && !wide && elems >= MIN_8BIT_ELEMS;
}

uint64_t optim_paged_bytes(const struct optim *o, int64_t elems, bool wide)
{
    if (!o->paged || elems < PAGED_ELEMS)
        return 0;
    return (uint64_t)elems * (1 + has_two(o->kind)) * (is_8bit(o, wide, elems) ? 1 : 4);
}

static val state_of(struct run *r, enum op op, enum dtype dtype, int ndim, const int64_t *size)
{
    val v = owned(r, value_empty(r, op, dtype, ndim, size));

    if (v)
        mark_block(r, v, MARK_OPTIMIZER_STATE);
    return v;
}

/* get_state_buffer(): pages are CUDA's managed memory, of which the caching allocator knows nothing */
static val buffer(struct run *r, const struct optim *o, val leaf, enum dtype dtype)
{
    if (o->paged && numel(r, leaf) >= PAGED_ELEMS)
        return 0;
    return state_of(r, OP_ZEROS_LIKE, dtype, value_of(r, leaf)->ndim, value_of(r, leaf)->size);
}

void optim_bnb_init(struct run *r, struct optim *o, struct optim_state *s, val leaf)
{
    int64_t n = numel(r, leaf), blocks = (n + BLOCK - 1) / BLOCK;
    bool small = is_8bit(o, s->wide, n), two = has_two(o->kind);
    enum dtype dtype = small ? DTYPE_UINT8 : DTYPE_FP32;

    for (int i = 0; i < 1 + two && small; i++) /* "dynamic", "udynamic": once */
        if (!o->qmap[i])
            o->qmap[i] = state_of(r, OP_TO_COPY, DTYPE_FP32, SHAPE(QMAP));
    s->exp_avg = buffer(r, o, leaf, dtype);
    if (two)
        s->exp_avg_sq = buffer(r, o, leaf, dtype);
    for (int i = 0; i < 1 + two && small; i++)
        s->absmax[i] = state_of(r, OP_ZEROS, DTYPE_FP32, SHAPE(blocks));
    s->stands = true;
}

void optim_bnb_step(struct run *r, struct optim *o, int g)
{
    for (uint32_t i = 0; i < o->n_group[g]; i++) {
        val leaf = o->group[g][i], *grad = grad_of(r, leaf);
        struct optim_state *s = &o->state[g][i];
        uint64_t n, states;

        if (!grad || !*grad || run_dead(r))
            continue;
        if (!s->stands)
            optim_bnb_init(r, o, s, leaf);
        n = (uint64_t)numel(r, leaf);
        states = (uint64_t)(1 + has_two(o->kind)) * (is_8bit(o, s->wide, (int64_t)n) ? 1 : 4);
        work_add(r, OP_ADD, 14 * n, n * (3 * dtype_bytes(dtype_of(r, leaf)) + 2 * states), 1);
    }
}
