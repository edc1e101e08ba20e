/*
 * zero0.c - DeepSpeed's engine with ZeRO stage 0: a whole copy on every GPU, gradients averaged when the last micro-step has ended.
 *
 * Purpose   trained in half, each parameter has an fp32 copy beside it, which the optimizer steps (FP16_UnfusedOptimizer, of bf16 too); in fp32 the optimizer
 *           steps the parameters. Gradients go around in flat buffers of 500 M elements, which live one at a time.
 * Source    deepspeed 0.19.0 and 0.19.8: runtime/engine.py (_configure_optimizer, buffered_allreduce_fallback, _take_model_step), runtime/fp16/
 *           unfused_optimizer.py, runtime/utils.py (CheckOverflow, get_weight_norm, clip_grad_norm_).
 * Not modelled: FP16_Optimizer, which flattens for DeepSpeed's own FusedAdam; BF16_Optimizer, which bf16 had until 0.17.5; sparse gradients.
 * Units     elements. Owner: the run's arena.
 */
#include "parallel/zero/zero_common.h"

#include "parallel/programs.h"
#include "torch/autograd.h"
#include "torch/work.h"

enum { FLAT_ELEMS = 500000000 }; /* MEMORY_OPT_ALLREDUCE_SIZE */

struct zero0_group {
    uint32_t n;
    val *half, *full; /* of the model; what is stepped: the same in fp32 */
    struct optim_state *state;
};

struct zero0 {
    struct zero_engine engine;
    struct run *r;
    enum dtype dtype;
    bool boundary;
    uint32_t n, n_groups;
    const val *leaves; /* in the order of module.parameters() */
    struct zero0_group groups[ZERO_GROUPS];
    struct optim optim;
};

static bool has_copies(const struct zero0 *z)
{
    return z->dtype != DTYPE_FP32;
}

static void clear(struct run *r, val leaf)
{
    val *grad = grad_of(r, leaf), old = grad ? *grad : 0;

    if (!old)
        return;
    *grad = 0;
    value_unref(r, old);
}

static val like(struct run *r, enum op op, enum dtype dtype, val of)
{
    return owned(r, value_empty(r, op, dtype, r->values[of].ndim, r->values[of].size));
}

/* ----------------------------------------------------------------------------------------------------- the constructor */
static bool make_room(struct zero0 *z, struct zero0_group *g, uint32_t most)
{
    struct arena *a = z->r->arena;

    g->half = arena_array(a, val, most ? most : 1);
    g->full = has_copies(z) ? arena_array(a, val, most ? most : 1) : g->half;
    g->state = arena_array(a, struct optim_state, most ? most : 1);
    return g->half && g->full && g->state;
}

/* Groups without parameters are left out. */
static bool take_groups(struct zero0 *z, const struct leaves *l)
{
    for (unsigned k = 0; k < ZERO_GROUPS; k++) {
        struct zero0_group *g = &z->groups[z->n_groups];

        if (!make_room(z, g, l->n))
            return false;
        for (uint32_t i = 0; i < l->n; i++)
            if (l->group[i] == k)
                g->half[g->n++] = l->leaf[i];
        z->n_groups += g->n > 0;
    }
    return true;
}

/* p.clone().float().detach() */
static void copy_group(struct zero0 *z, struct zero0_group *g)
{
    struct run *r = z->r;

    for (uint32_t i = 0; i < g->n && !run_dead(r); i++) {
        val clone = like(r, OP_CLONE, z->dtype, g->half[i]);

        g->full[i] = like(r, OP_TO_COPY, DTYPE_FP32, g->half[i]);
        value_unref(r, clone);
        if (run_dead(r))
            return;
        mark_block(r, g->full[i], MARK_OPTIMIZER_STATE);
        require_grad(r, g->full[i]);
        pin_leaf(r, g->full[i]);
    }
}

static void give_zeros(struct run *r, uint32_t n, const val *leaves)
{
    for (uint32_t i = 0; i < n && !run_dead(r); i++)
        *grad_of(r, leaves[i]) = like(r, OP_ZEROS, dtype_of(r, leaves[i]), leaves[i]);
}

static void clear_all(struct run *r, uint32_t n, const val *leaves)
{
    for (uint32_t i = 0; i < n; i++)
        clear(r, leaves[i]);
}

/* initialize_optimizer_states: a step over zeros of both kinds */
static void try_step(struct zero0 *z)
{
    struct run *r = z->r;

    for (uint32_t k = 0; k < z->n_groups; k++)
        give_zeros(r, z->groups[k].n, z->groups[k].half);
    for (uint32_t k = 0; k < z->n_groups; k++)
        give_zeros(r, z->groups[k].n, z->groups[k].full);
    if (run_dead(r))
        return;
    optim_step(r, &z->optim);
    for (uint32_t k = 0; k < z->n_groups; k++)
        clear_all(r, z->groups[k].n, z->groups[k].half);
    for (uint32_t k = 0; k < z->n_groups; k++)
        clear_all(r, z->groups[k].n, z->groups[k].full);
}

static void start_optimizer(struct zero0 *z)
{
    const struct parallel_options *o = z->engine.o;

    z->optim = (struct optim){.kind = o->optimizer, .paged = o->paged};
    for (uint32_t k = 0; k < z->n_groups; k++) {
        z->optim.n_group[k] = z->groups[k].n;
        z->optim.group[k] = z->groups[k].full;
        z->optim.state[k] = z->groups[k].state;
    }
    optim_start(z->r, &z->optim);
}

static void *wrap(struct wrapping *w)
{
    struct run *r = w->r;
    struct zero0 *z = arena_new(r->arena, struct zero0);

    zero_place(w);
    wrapping_train_all(w);
    if (run_dead(r))
        return NULL;
    if (z)
        *z = (struct zero0){.engine = {.r = r, .o = w->o}, .r = r, .dtype = w->o->compute, .n = w->leaves.n, .leaves = w->leaves.leaf};
    if (!z || !take_groups(z, &w->leaves)) {
        run_fail(r, ERR_NOMEM, "", "the working memory of one request is too small for the engine's lists");
        return NULL;
    }
    for (uint32_t k = 0; k < z->n_groups && has_copies(z); k++)
        copy_group(z, &z->groups[k]);
    if (run_dead(r))
        return NULL;
    start_optimizer(z);
    if (has_copies(z))
        try_step(z);
    return run_dead(r) ? NULL : z;
}

/* --------------------------------------------------------------------------------------------------------- gradients */
/* allreduce_and_copy: flattened, which copies where they are more than one; averaged; copied back */
static void average(struct zero0 *z, uint32_t n, uint64_t elems)
{
    struct run *r = z->r;
    uint64_t bytes = elems * dtype_bytes(z->dtype);
    struct work_sending s = {.what = COLLECTIVE_ALL_REDUCE, .bytes = bytes, .stream = STREAM_ALL_REDUCE, .after_compute = true};
    val flat = n > 1 ? zero_flat(r, OP_CAT, z->dtype, elems) : 0;

    if (flat) {
        mark_block(r, flat, MARK_COMMUNICATION);
        work_add(r, OP_CAT, 0, 2 * bytes, 1);
    }
    work_wait(r, work_send(r, s));
    work_add(r, OP_MUL, 0, 2 * bytes, 1);
    work_add(r, OP_CLONE, 0, 2 * bytes, n);
    value_unref(r, flat);
}

/* engine.allreduce_gradients(): at the boundary alone; who has no gradient gets one of zeros */
static void epilogue(void *of)
{
    struct zero0 *z = of;
    struct run *r = z->r;
    uint64_t elems = 0;
    uint32_t n = 0;

    if (!z->boundary)
        return;
    for (uint32_t i = 0; i < z->n && !run_dead(r); i++)
        if (!*grad_of(r, z->leaves[i]))
            *grad_of(r, z->leaves[i]) = like(r, OP_ZEROS, z->dtype, z->leaves[i]);
    for (uint32_t i = 0; i < z->n && !run_dead(r); i++) {
        n++;
        elems += (uint64_t)numel(r, z->leaves[i]);
        if (elems > FLAT_ELEMS || i + 1 == z->n) {
            average(z, n, elems);
            elems = n = 0;
        }
    }
}

static void backward(void *of, val loss)
{
    struct zero0 *z = of;

    zero_backward(&z->engine, loss, &(struct zero_stage){.epilogue = epilogue, .of = z, .unscaled = true});
}

/* -------------------------------------------------------------------------------------------------------------- a step */
/* CheckOverflow.check(): each gradient is asked for by the host */
static void check_overflow(struct zero0 *z)
{
    struct run *r = z->r;
    val flag;

    for (uint32_t k = 0; k < z->n_groups; k++)
        for (uint32_t i = 0; i < z->groups[k].n && !run_dead(r); i++) {
            value_unref(r, zero_has_inf_or_nan(r, *grad_of(r, z->groups[k].half[i])));
            host_waits(r);
        }
    flag = zero_scalar(r, OP_TO_COPY, DTYPE_UINT8);
    host_waits(r);
    value_unref(r, flag);
}

/* x.float().norm(2.) */
static val norm_of(struct run *r, val gradient)
{
    bool full = dtype_of(r, gradient) == DTYPE_FP32;
    val wide = full ? gradient : like(r, OP_TO_COPY, DTYPE_FP32, gradient), norm = zero_scalar(r, OP_VECTOR_NORM, DTYPE_FP32);

    if (run_dead(r))
        return 0;
    reduce_scratch(r, OP_VECTOR_NORM, wide, (1U << r->values[wide].ndim) - 1, 4);
    if (!full) {
        zero_moved(r, OP_TO_COPY, gradient, 6);
        value_unref(r, wide);
    }
    zero_moved(r, OP_VECTOR_NORM, gradient, 4);
    return norm;
}

/* get_weight_norm(): total_norm += param_norm**2., then the host has it; names of the function hold the last ones to its end */
static void weight_norm(struct run *r, uint32_t n, const val *leaves)
{
    val total = 0, norm = 0, read;

    for (uint32_t i = 0; i < n && !run_dead(r); i++) {
        val old = norm, square;

        norm = norm_of(r, *grad_of(r, leaves[i]));
        value_unref(r, old);
        square = zero_scalar(r, OP_POW, DTYPE_FP32);
        total = total ? total : zero_scalar(r, OP_ADD, DTYPE_FP32); /* 0. + x, then in place */
        value_unref(r, square);
    }
    host_waits(r);
    read = zero_scalar(r, OP_TO_COPY, DTYPE_FP32);
    host_waits(r);
    DIE(r, total, norm, read);
}

/* Each group's norm, and its gradients in fp32 beside those in half. */
static void widen_gradients(struct zero0 *z, struct zero0_group *g)
{
    struct run *r = z->r;

    weight_norm(r, g->n, g->half);
    for (uint32_t i = 0; i < g->n && !run_dead(r); i++) {
        val *grad = grad_of(r, g->full[i]);

        *grad = like(r, OP_TO_COPY, DTYPE_FP32, g->half[i]);
        mark_block(r, *grad, MARK_GRADIENT);
        zero_moved(r, OP_TO_COPY, g->half[i], 6);
    }
}

/* The fp32 gradient goes, the parameter is what was stepped. */
static void take_over(struct zero0 *z, struct zero0_group *g)
{
    for (uint32_t i = 0; i < g->n && !run_dead(z->r); i++) {
        clear(z->r, g->full[i]);
        zero_moved(z->r, OP_TO_COPY, g->half[i], 6);
    }
}

static void step_copies(struct zero0 *z)
{
    struct run *r = z->r;

    check_overflow(z);
    for (uint32_t k = 0; k < z->n_groups; k++)
        widen_gradients(z, &z->groups[k]);
    for (uint32_t k = 0; k < z->n_groups; k++)
        for (uint32_t i = 0; i < z->groups[k].n; i++)
            zero_moved(r, OP_MUL, z->groups[k].full[i], 8);
    if (run_dead(r))
        return;
    optim_step(r, &z->optim);
    for (uint32_t k = 0; k < z->n_groups; k++)
        take_over(z, &z->groups[k]);
}

/* runtime/utils.py clip_grad_norm_, of fp32 alone: the mean of the ranks' norms */
static void clip(struct zero0 *z)
{
    struct run *r = z->r;
    unsigned char *mark = r->arena->cur;
    val *norms = arena_array(r->arena, val, z->n ? z->n : 1), total, mean, limit, one, factor, least;

    if (!norms) {
        run_fail(r, ERR_NOMEM, "", "the working memory of one request is too small for the gradients' norms");
        return;
    }
    for (uint32_t i = 0; i < z->n && !run_dead(r); i++)
        norms[i] = norm_of(r, *grad_of(r, z->leaves[i]));
    if (run_dead(r))
        return;
    factor = zero_flat(r, OP_CAT, DTYPE_FP32, z->n);
    total = zero_flat(r, OP_POW, DTYPE_FP32, z->n);
    value_unref(r, factor);
    total = zero_next(r, OP_SUM, DTYPE_FP32, total);
    total = zero_next(r, OP_POW, DTYPE_FP32, total);
    mean = zero_next(r, OP_DIV, DTYPE_FP32, zero_scalar(r, OP_MUL, DTYPE_FP32));
    work_message(r, COLLECTIVE_ALL_REDUCE, 4);
    value_unref(r, total);
    limit = zero_flat(r, OP_TO_COPY, DTYPE_FP32, 1);
    total = zero_scalar(r, OP_ADD, DTYPE_FP32);
    factor = zero_flat(r, OP_DIV, DTYPE_FP32, 1);
    value_unref(r, total);
    one = zero_flat(r, OP_TO_COPY, DTYPE_FP32, 1);
    least = zero_flat(r, OP_MIN, DTYPE_FP32, 1);
    value_unref(r, factor);
    for (uint32_t i = 0; i < z->n; i++)
        zero_moved(r, OP_MUL, z->leaves[i], 8);
    DIE(r, mean, limit, one, least);
    zero_die(r, (int)z->n, norms);
    arena_rewind(r->arena, mark);
}

static void begin_micro_step(void *of, bool sync)
{
    struct zero0 *z = of;

    z->boundary = sync;
}

/* engine._take_model_step() */
static void end_micro_step(void *of, bool boundary)
{
    struct zero0 *z = of;

    if (!boundary || run_dead(z->r))
        return;
    if (has_copies(z)) {
        step_copies(z);
    } else {
        if (z->engine.o->max_grad_norm > 0)
            clip(z);
        if (!run_dead(z->r))
            optim_step(z->r, &z->optim);
    }
    for (uint32_t k = 0; k < z->n_groups; k++)
        clear_all(z->r, z->groups[k].n, z->groups[k].half);
    zero_step_ends(&z->engine);
}

static void prepare(void *of)
{
    struct zero0 *z = of;

    optim_prepare(z->r, &z->optim);
}

const struct method_program zero0_program = {
    .source = "deepspeed runtime/engine.py, runtime/fp16/unfused_optimizer.py",
    .wrap = wrap,
    .begin_micro_step = begin_micro_step,
    .backward = backward,
    .end_micro_step = end_micro_step,
    .prepare = prepare,
    .cuts_layers = true,
};
