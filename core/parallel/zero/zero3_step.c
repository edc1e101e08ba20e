/* zero3_step.c - stage3.py step(): norms, then sub-group by sub-group the fp32 gradient, the update, the copy back to half. */
#include "parallel/zero/inside3.h"
#include "torch/autograd.h"
#include "torch/work.h"

/* The new one stands before the old one dies. */
static void bind_to(struct run *r, val *name, val v)
{
    value_unref(r, *name);
    *name = v;
}

/* ------------------------------------------------------------------------------------------------------------ overflow */
static void any_of(struct run *r, val flags)
{
    val any = zero_scalar(r, OP_ALL, DTYPE_BOOL);

    reduce_scratch(r, OP_ALL, flags, 1, 1);
    value_unref(r, flags);
    value_unref(r, any);
}

/* has_overflow of fp16: isinf() takes the absolute values first. On the reduce stream; the host reads the answer. */
static void check_overflow(struct zero3 *z)
{
    struct run *r = z->r;
    val magnitude, flags, copy, byte;

    r->stream = z->reduce_stream;
    if (z->gradients) {
        int64_t n = numel(r, z->gradients);

        magnitude = owned(r, value_empty(r, OP_ABS, z->dtype, 1, &n));
        flags = owned(r, value_empty(r, OP_EQ, DTYPE_BOOL, 1, &n));
        value_unref(r, magnitude);
        any_of(r, flags);
        any_of(r, owned(r, value_empty(r, OP_NE, DTYPE_BOOL, 1, &n)));
    }
    copy = zero_scalar(r, OP_CLONE, DTYPE_BOOL);
    byte = zero_scalar(r, OP_TO_COPY, DTYPE_UINT8);
    value_unref(r, copy);
    r->stream = STREAM_COMPUTE;
    host_waits(r);
    value_unref(r, byte);
}

/* --------------------------------------------------------------------------------------------------------------- norms */
/* A part of the flat buffer, for as long as it takes to look at its sizes. */
static val norm_of(struct zero3 *z, int64_t elems)
{
    val part = value_alias(z->r, z->gradients), norm;

    if (!part)
        return 0;
    z->r->values[part].size[0] = elems;
    norm = zero_norm(z->r, owned(z->r, part));
    value_unref(z->r, part);
    return norm;
}

/* get_grad_norm_direct; the norms of all gradients stand until it returns. */
static val group_norm(struct zero3 *z, const struct zero3_sub_group *g)
{
    struct run *r = z->r;
    unsigned char *mark = r->arena->cur;
    val *norms = run_room(r, sizeof *norms, g->n), stacked, powers, total;
    int64_t n = g->n;

    if (!norms)
        return 0;
    for (uint32_t i = 0; i < g->n; i++)
        norms[i] = norm_of(z, z->params[z->trained[g->first + i]].shard_elems);
    stacked = owned(r, value_empty(r, OP_CAT, DTYPE_FP64, 1, &n));
    powers = owned(r, value_empty(r, OP_POW, DTYPE_FP64, 1, &n));
    value_unref(r, stacked);
    total = zero_scalar(r, OP_SUM, DTYPE_FP64);
    value_unref(r, powers);
    work_wait(r, work_send(r, (struct work_sending){COLLECTIVE_ALL_REDUCE, 8, {0, 0}, STREAM_COMPUTE, true}));
    bind_to(r, &total, zero_scalar(r, OP_WHERE, DTYPE_FP64));
    for (uint32_t i = g->n; i-- > 0;)
        value_unref(r, norms[i]);
    arena_rewind(r->arena, mark);
    return total;
}

/* complete_grad_norm_calculation_for_cpu_offload: the norms that were kept with each gradient, summed up and read by the host. */
static void norms_on_host(struct zero3 *z)
{
    struct run *r = z->r;

    for (uint32_t i = 0; i < z->n_sub_groups; i++) {
        val sum = zero_scalar(r, OP_TO_COPY, DTYPE_FP32);

        host_waits(r);
        value_unref(r, sum);
    }
}

/* combine_grad_norm_groups, 0.14: torch.norm(torch.stack(..)); then is_invalid_grad_norm */
static val norms(struct zero3 *z)
{
    struct run *r = z->r;
    unsigned char *mark = r->arena->cur;
    val *groups = run_room(r, sizeof *groups, z->n_sub_groups), total;

    if (!groups)
        return 0;
    if (z->offload) {
        norms_on_host(z);
        return 0;
    }
    for (uint32_t i = 0; i < z->n_sub_groups; i++) { /* norm_groups: a name of step() */
        groups[i] = z->sub_groups[i].norm = group_norm(z, &z->sub_groups[i]);
        value_ref(r, groups[i]);
    }
    total = zero_combine_norms(r, z->n_sub_groups, groups);
    if (r->q->zero_checks_norm)
        zero_check_norm(r, total);
    arena_rewind(r->arena, mark);
    return total;
}

/* -------------------------------------------------------------------------------------------------------------- update */
static val made_of(struct run *r, enum op op, val old)
{
    val v = zero_scalar(r, op, DTYPE_FP64);

    value_unref(r, old);
    return v;
}

/* unscale_and_clip_grads: 1 / (max(1, norm / max_norm) * loss_scale), a scalar on the device; before, the host asks whether it clips. */
static void unscale(struct zero3 *z, const struct zero3_sub_group *g)
{
    struct run *r = z->r;
    val excess, combined, inverse;

    work_add(r, OP_MUL, (uint64_t)g->elems, 8 * (uint64_t)g->elems, 1);
    if (z->o->max_grad_norm <= 0)
        return;
    excess = made_of(r, OP_DIV, made_of(r, OP_ADD, zero_scalar(r, OP_DIV, DTYPE_FP64)));
    if (r->q->zero_clamps_clip) {
        excess = made_of(r, OP_CLAMP, excess);
        combined = zero_scalar(r, OP_MUL, DTYPE_FP64);
        inverse = made_of(r, OP_MUL, zero_scalar(r, OP_RECIPROCAL, DTYPE_FP64));
        value_unref(r, inverse);
        value_unref(r, combined);
    } else {
        value_unref(r, zero_scalar(r, OP_GT, DTYPE_BOOL));
        host_waits(r);
    }
    value_unref(r, excess);
}

/* _prepare_fp32_grad_for_sub_group: a flat copy, then its cast; a single part is flat already. */
static val flat_gradient(struct zero3 *z, const struct zero3_sub_group *g)
{
    struct run *r = z->r;
    val flat, wide;

    flat = g->n == 1 ? owned(r, value_alias(r, z->gradients)) : owned(r, value_empty(r, OP_CAT, z->dtype, 1, &g->elems));
    work_add(r, OP_CAT, 0, 2 * (uint64_t)g->elems * dtype_bytes(z->dtype), 1);
    if (z->dtype == DTYPE_FP32)
        return flat;
    wide = owned(r, value_empty(r, OP_TO_COPY, DTYPE_FP32, 1, &g->elems));
    work_add(r, OP_TO_COPY, 0, 6 * (uint64_t)g->elems, 1);
    value_unref(r, flat);
    return wide;
}

static void on_host(struct zero3 *z, const struct zero3_sub_group *g)
{
    struct run *r = z->r;

    work_wait(r, work_send(r, (struct work_sending){COLLECTIVE_HOST_STEP, 4 * (uint64_t)g->elems, {0, 0}, STREAM_COPY, true}));
    if (!z->offload_params)
        work_wait(r, work_send(r, (struct work_sending){COLLECTIVE_FROM_HOST, 2 * (uint64_t)g->elems, {0, 0}, STREAM_COPY, true}));
    host_waits(r);
}

static void update(struct zero3 *z, struct zero3_sub_group *g)
{
    struct run *r = z->r;
    val *grad;

    if (z->offload) {
        on_host(z, g);
        return;
    }
    grad = grad_of(r, g->master);
    if (!grad)
        return;
    *grad = flat_gradient(z, g);
    unscale(z, g);
    zero_optim_step(r, &g->optim, &z->sub_groups[0].optim);
    work_add(r, OP_TO_COPY, 0, 6 * (uint64_t)g->elems, 1);
    bind_to(r, grad_of(r, g->master), 0);
}

static void drop_group_norms(struct zero3 *z)
{
    for (uint32_t i = 0; i < z->n_sub_groups; i++)
        bind_to(z->r, &z->sub_groups[i].norm, 0);
}

/* reset_cpu_buffers */
static void forget_norms(struct zero3 *z)
{
    for (uint32_t i = 0; i < z->n && z->offload; i++)
        bind_to(z->r, &z->norms[i], 0);
}

void zero3_end_micro_step(void *of, bool boundary)
{
    struct zero3 *z = of;
    struct run *r = z->r;
    val norm, before = z->engine.global_norm;

    if (!boundary || run_dead(r))
        return;
    z->micro_step = 0;
    zero3_release_all(z);
    if (z->dtype == DTYPE_FP16)
        check_overflow(z);
    norm = norms(z);
    value_ref(r, before); /* the engine's own name for it */
    if (!z->offload)
        zero_take_norm(&z->engine);
    for (uint32_t i = 0; i < z->n_sub_groups && !run_dead(r); i++)
        update(z, &z->sub_groups[i]);
    forget_norms(z);
    zero3_gather_persistent(z);
    value_unref(r, norm);
    drop_group_norms(z);
    value_unref(r, before);
    zero_step_ends(&z->engine);
}
