/* optim_bnb.c - bitsandbytes' optimizers: states of 8 bits in blocks or of 32 bits, paged or not; a parameter at a time. See optim.h. */
#include "torch/optim_inside.h"

/* optim/optimizer.py 0.50.2: min_8bit_size; get_state_buffer() and optim/ademamix.py _get_state_double_buffer() page parameters of so many elements */
enum { MIN_8BIT_ELEMS = 4096, PAGED_ELEMS = 100000, QMAP = 256 };

/* How many tensors of the parameter's shape state1 and state2 are. */
static const struct row {
    uint8_t bits, first, second;
} rows[OPTIM_KINDS] = {
    [OPTIM_BNB_ADAMW_8BIT] = {8, 1, 1}, [OPTIM_BNB_ADAMW_32BIT] = {32, 1, 1},     [OPTIM_BNB_ADEMAMIX_8BIT] = {8, 2, 1},
    [OPTIM_BNB_ADEMAMIX_32BIT] = {32, 2, 1}, [OPTIM_BNB_LION_8BIT] = {8, 1, 0},   [OPTIM_BNB_LION_32BIT] = {32, 1, 0},
    [OPTIM_BNB_RMSPROP_8BIT] = {8, 1, 0},    [OPTIM_BNB_RMSPROP_32BIT] = {32, 1, 0},
};

bool optim_is_bnb(enum optim_kind kind)
{
    return rows[kind].bits;
}

static bool is_8bit(const struct optim *o, bool wide, int64_t elems)
{
    return rows[o->kind].bits == 8 && !wide && elems >= MIN_8BIT_ELEMS;
}

static bool is_paged(const struct optim *o, int64_t elems)
{
    return o->paged && elems >= PAGED_ELEMS;
}

uint64_t optim_paged_bytes(const struct optim *o, int64_t elems, bool wide)
{
    const struct row *row = &rows[o->kind];
    uint64_t times = is_paged(o, elems) ? row->first + row->second : 0U;

    return (uint64_t)elems * times * (is_8bit(o, wide, elems) ? 1 : 4);
}

static val state_of(struct run *r, enum op op, enum dtype dtype, int ndim, const int64_t *size)
{
    val v = owned(r, value_empty(r, op, dtype, ndim, size));

    if (v)
        mark_block(r, v, MARK_OPTIMIZER_STATE);
    return v;
}

/* Pages are CUDA's managed memory, of which the caching allocator knows nothing. */
static val buffer(struct run *r, const struct optim *o, val leaf, enum dtype dtype, unsigned times)
{
    const struct value *x = value_of(r, leaf);

    if (!times || is_paged(o, numel(r, leaf)))
        return 0;
    if (times == 1)
        return state_of(r, OP_ZEROS_LIKE, dtype, x->ndim, x->size);
    return state_of(r, OP_ZEROS, dtype, SHAPE(times, numel(r, leaf)));
}

static void make_absmax(struct run *r, struct optim_state *s, const struct row *row, int64_t blocks)
{
    s->absmax[0] = state_of(r, OP_ZEROS, DTYPE_FP32, SHAPE(row->first * blocks));
    if (row->second)
        s->absmax[1] = state_of(r, OP_ZEROS, DTYPE_FP32, SHAPE(blocks));
}

/* Optimizer2State.init_state makes its numbers a block last, AdEMAMix.init_state first. */
void optim_bnb_init(struct run *r, struct optim *o, struct optim_state *s, val leaf)
{
    const struct row *row = &rows[o->kind];
    int64_t n = numel(r, leaf), block = r->q->bnb_state_block, blocks = (n + block - 1) / block;
    bool small = is_8bit(o, s->wide, n);
    enum dtype dtype = small ? DTYPE_UINT8 : DTYPE_FP32;

    for (int i = 0; i < 1 + (row->second > 0) && small; i++) /* "dynamic", "udynamic": once */
        if (!o->qmap[i])
            o->qmap[i] = state_of(r, OP_TO_COPY, DTYPE_FP32, SHAPE(QMAP));
    if (small && row->first > 1)
        make_absmax(r, s, row, blocks);
    s->exp_avg = buffer(r, o, leaf, dtype, row->first);
    s->exp_avg_sq = buffer(r, o, leaf, dtype, row->second);
    if (small && row->first == 1)
        make_absmax(r, s, row, blocks);
    o->page_bytes += optim_paged_bytes(o, n, s->wide);
    s->stands = true;
}

static void step_group(struct run *r, struct optim *o, int g)
{
    const struct row *row = &rows[o->kind];

    for (uint32_t i = 0; i < o->n_group[g]; i++) {
        val leaf = o->group[g][i];
        struct optim_state *s = &o->state[g][i];
        uint64_t n, states;
        bool small;

        if (!optim_has_grad(r, leaf) || run_dead(r))
            continue;
        if (!s->stands)
            optim_bnb_init(r, o, s, leaf);
        n = (uint64_t)numel(r, leaf);
        small = is_8bit(o, s->wide, (int64_t)n);
        states = (uint64_t)(row->first + row->second) * (small ? 1 : 4);
        work_add(r, small ? OP_BLOCKWISE_STEP : OP_ADD, 14 * n, n * (3 * dtype_bytes(dtype_of(r, leaf)) + 2 * states), 1);
    }
}

void optim_bnb_step(struct run *r, struct optim *o)
{
    for (int g = 0; g < OPTIM_GROUPS; g++)
        step_group(r, o, g);
}
