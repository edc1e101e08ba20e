/* zero3.c - a model on the device becomes shards: conversion, flat buffers, fp32 partitions, the bucket; and the table of the program. */
#include "parallel/zero/inside3.h"

#include "parallel/programs.h"
#include "torch/autograd.h"

/* ---------------------------------------------------------------------------------------------------------- partitions */
static val flat(struct zero3 *z, enum op op, enum dtype dtype, int64_t elems, enum mark mark)
{
    val v = owned(z->r, value_empty(z->r, op, dtype, 1, &elems));

    mark_block(z->r, v, mark);
    return v;
}

/* _partition_param: the shard is born, the whole dies. What parameter offload keeps on the host stands there at once. */
static void partition(struct zero3 *z)
{
    for (uint32_t i = 0; i < z->n && !run_dead(z->r); i++) {
        struct zero3_param *p = &z->params[i];

        if (!z->offload_params)
            p->shard = flat(z, OP_EMPTY, z->dtype, p->shard_elems, p->trained ? MARK_NONE : MARK_PARAMETER);
        set_data(z->r, p->value, 0);
        p->status = ZERO3_ABSENT;
    }
}

/* defragment(): over the host into one flat buffer */
static void defragment(struct zero3 *z, int64_t elems)
{
    for (uint32_t i = 0; i < z->n; i++)
        if (z->params[i].trained) {
            value_unref(z->r, z->params[i].shard);
            z->params[i].shard = 0;
        }
    if (z->offload_params)
        return;
    empty_cache(z->r);
    z->half = flat(z, OP_TO_COPY, z->dtype, elems, MARK_PARAMETER);
}

/* _create_fp16_sub_groups: one closes when it reaches the size; each of the optimizer's groups starts anew. */
static int64_t sub_groups(struct zero3 *z)
{
    int64_t all = 0;
    uint32_t at = 0;

    for (uint8_t group = 0; group < 2; group++) {
        struct zero3_sub_group *g = NULL;

        for (uint32_t i = 0; i < z->n; i++) {
            if (!z->params[i].trained || z->params[i].p->group != group)
                continue;
            if (!g || (uint64_t)g->elems >= z->o->zero.sub_group_elems) {
                g = &z->sub_groups[z->n_sub_groups++];
                *g = (struct zero3_sub_group){.first = at, .group = group};
            }
            z->trained[at++] = i;
            g->n++;
            g->elems += z->params[i].shard_elems;
            all += z->params[i].shard_elems;
        }
    }
    return all;
}

/* 0.19 casts and clones, 0.14 clones and casts; of fp32 weights the cast is the share itself. 0.19 means to take that share for the master, where it asks
 * whether a torch.device equals the device's name, which it never does. `converted`: a name that is bound anew. */
static val make_weights(struct zero3 *z, int64_t elems, val *converted)
{
    struct run *r = z->r;
    bool casts = r->q->zero3_casts_then_clones;
    val first, master;

    if (z->dtype == DTYPE_FP32 && casts)
        return flat(z, OP_CLONE, DTYPE_FP32, elems, MARK_PARAMETER);
    first = flat(z, OP_TO_COPY, casts ? DTYPE_FP32 : z->dtype, elems, MARK_NONE);
    value_unref(r, *converted);
    *converted = first;
    if (z->dtype == DTYPE_FP32) {
        *converted = 0;
        return first;
    }
    master = flat(z, OP_CLONE, DTYPE_FP32, elems, MARK_PARAMETER);
    if (!casts) {
        *converted = 0;
        value_unref(r, first);
    }
    return master;
}

/* _create_fp32_partitions */
static void make_masters(struct zero3 *z, struct wrapping *w)
{
    val converted = 0;

    for (uint32_t i = 0; i < z->n_sub_groups; i++) {
        struct zero3_sub_group *g = &z->sub_groups[i];

        g->master = make_weights(z, g->elems, &converted);
        wrapping_train(w, g->master, g->group);
        g->optim = zero_optim(z->o);
        g->optim.n_group[0] = 1;
        g->optim.group[0] = &g->master;
        g->optim.state[0] = &g->state;
    }
    value_unref(z->r, converted);
}

static int64_t largest_group(const struct zero3 *z)
{
    int64_t most = 0;

    for (uint32_t i = 0; i < z->n_sub_groups; i++)
        most = z->sub_groups[i].elems > most ? z->sub_groups[i].elems : most;
    return most;
}

/* create_reduce_and_remove_grad_hooks: each is gathered once, so that its node can be had; 0.14 copies it out of the buffer. */
static void gather_each(struct zero3 *z)
{
    for (uint32_t i = 0; i < z->n_trained; i++) {
        int64_t elems = z->params[z->trained[i]].shard_elems * z->ranks;
        val whole = flat(z, OP_EMPTY, z->dtype, elems, MARK_NONE), copy = 0;

        if (!z->r->q->zero3_owns_recomputed)
            copy = flat(z, OP_CLONE, z->dtype, elems, MARK_NONE);
        value_unref(z->r, whole);
        value_unref(z->r, copy);
    }
}

static void make_buffers(struct zero3 *z, struct wrapping *w)
{
    int64_t all = sub_groups(z), reduce = (int64_t)z->o->zero.reduce_elems;

    if (!z->offload || !z->r->q->zero3_casts_for_host) /* later where the gradients are */
        z->tracker = flat(z, OP_ZEROS, DTYPE_BOOL, 1, MARK_COMMUNICATION);
    defragment(z, all);
    if (!z->offload)
        make_masters(z, w);
    if (!z->offload)
        value_unref(z->r, flat(z, OP_ZEROS, DTYPE_FP32, largest_group(z), MARK_NONE)); /* initialize_optimizer_states */
    z->bucket = flat(z, OP_EMPTY, z->dtype, reduce, MARK_COMMUNICATION);
    if (!z->offload)
        z->gradients = flat(z, OP_ZEROS, z->dtype, all, MARK_GRADIENT);
    gather_each(z);
}

static void train(struct zero3 *z)
{
    for (uint32_t i = 0; i < z->n; i++)
        if (z->params[i].trained) {
            require_grad(z->r, z->params[i].value);
            pin_leaf(z->r, z->params[i].value);
        }
    z->r->grad_ready = zero3_gradient_ready;
    z->r->grad_ready_of = z;
    z->r->grad_ready_of_tensors = true;
}

/* ------------------------------------------------------------------------------------------------------------- program */
/* DeepSpeedZeRoOffload: shards, and the coordinator that gathers them. */
static struct zero3 *begin(struct wrapping *w)
{
    struct run *r = w->r;
    struct zero3 *z = run_dead(r) ? NULL : run_room(r, sizeof *z, 1);
    bool overlap = w->o->zero.overlap_comm;

    if (!z)
        return NULL;
    *z = (struct zero3){
        .r = r,
        .o = w->o,
        .engine = {.r = r, .o = w->o},
        .ranks = w->o->at.data_parallel,
        .dtype = w->o->compute,
        .root = w->tree->root,
        .embeddings = w->embeddings,
        .offload = w->o->offload != OFFLOAD_NONE,
        .offload_params = w->o->offload == OFFLOAD_OPTIMIZER_PARAMS,
        .gather_stream = overlap ? STREAM_GATHER : STREAM_COMPUTE,
        .reduce_stream = overlap ? STREAM_REDUCE : STREAM_COMPUTE,
        .trace = r->q->zero3_resets_before_forward ? ZERO3_TRACE_INVALID : ZERO3_TRACE_RECORD,
    };
    if (!zero3_number(z, w->tree))
        return NULL;
    zero_place(w);
    if (run_dead(r) || !zero3_index_values(z))
        return NULL;
    zero3_index_modules(z, w->tree);
    r->views_keep_weights = true;
    r->linear_is_function = r->q->zero3_wraps_linears || w->o->zero.zero_init;
    partition(z);
    zero3_hook(z, w->tree);
    return run_dead(r) ? NULL : z;
}

static void *wrap(struct wrapping *w)
{
    struct zero3 *z = begin(w);

    if (!z)
        return NULL;
    make_buffers(z, w);
    train(z);
    return run_dead(w->r) ? NULL : z;
}

/* An engine without an optimizer: engine.py _configure_zero_optimizer(DummyOptim). */
static void *refer(struct wrapping *w)
{
    struct zero3 *z = begin(w);

    if (z && z->gather_stream == STREAM_GATHER) /* each engine makes its own */
        z->gather_stream = STREAM_BESIDE_GATHER;
    return z;
}

static void prepare(void *of)
{
    struct zero3 *z = of;

    for (uint32_t i = 0; i < z->n_sub_groups; i++)
        zero_optim_prepare(z->r, &z->sub_groups[i].optim, &z->sub_groups[0].optim);
}

static void begin_micro_step(void *of, bool sync)
{
    ((struct zero3 *)of)->boundary = sync;
}

/* fp32 weights, gradients and two states; gradients as they accumulate; with parameter offload the shards. */
static uint64_t host_bytes(const void *of)
{
    const struct zero3 *z = of;
    uint64_t bytes = 0, half = dtype_bytes(z->dtype);

    for (uint32_t i = 0; i < z->n_sub_groups && !z->offload; i++)
        bytes += z->sub_groups[i].optim.page_bytes;
    for (uint32_t i = 0; i < z->n && z->offload; i++) {
        const struct zero3_param *p = &z->params[i];
        uint64_t shard = (uint64_t)p->shard_elems;

        if (p->trained)
            bytes += shard * (4 * 4 + half);
        if (z->offload_params)
            bytes += shard * half;
    }
    return bytes;
}

const struct method_program zero3_program = {
    .source = "deepspeed runtime/zero/stage3.py, parameter_offload.py, partitioned_param_coordinator.py, partition_parameters.py",
    .wrap = wrap,
    .refer = refer,
    .begin_micro_step = begin_micro_step,
    .post_forward = zero3_post_forward,
    .backward = zero3_backward,
    .end_micro_step = zero3_end_micro_step,
    .prepare = prepare,
    .host_bytes = host_bytes,
    .records_streams = true,
    .cuts_layers = true, /* prefetch and live windows are in elements */
    .learns_order = true, /* partitioned_param_coordinator.py fetch_sub_module: no prefetch before a complete trace */
};
