/* zero12_step.c - DeepSpeedZeroOptimizer.step() at the boundary: overflow, norm, fp32 gradient of the share, update, weights to all ranks. */
#include "parallel/zero/inside12.h"
#include "torch/autograd.h"
#include "torch/work.h"

/* ------------------------------------------------------------------------------------------------------- on the device */
static uint32_t all_averaged(struct zero12 *z)
{
    uint32_t n = 0;

    for (uint32_t g = 0; g < z->n_groups; g++)
        for (uint32_t i = 0; i < z->groups[g].n_averaged; i++)
            z->list[n++] = z->groups[g].averaged[i];
    return n;
}

static val global_norm(struct zero12 *z)
{
    struct run *r = z->r;
    val norms[ZERO_GROUPS], norm;

    for (uint32_t i = 0; i < z->n_groups; i++) {
        const struct zero12_group *g = &z->groups[i];

        norms[i] = zero_norm_of(r, g->mine_end - g->mine_begin, g->averaged); /* without the padding */
    }
    norm = zero_combine_norms(r, z->n_groups, norms);
    if (r->q->zero_checks_norm)
        zero_check_norm(r, norm);
    zero_take_norm(&z->engine);
    return norm;
}

/* self.flatten(averaged_gradients).to(fp32); one tensor alone is not copied first */
static val flat_gradient(struct zero12 *z, const struct zero12_group *g)
{
    struct run *r = z->r;
    val flat = g->n_averaged > 1 ? zero_flat(r, OP_CAT, z->dtype, g->share) : owned(r, value_alias(r, g->averaged[0])), full;

    if (g->n_averaged > 1)
        work_add(r, OP_CAT, 0, 2 * g->share * dtype_bytes(z->dtype), 1);
    if (z->dtype == DTYPE_FP32)
        return flat;
    full = zero_flat(r, OP_TO_COPY, DTYPE_FP32, g->share);
    work_add(r, OP_TO_COPY, 0, 6 * g->share, 1);
    value_unref(r, flat);
    return full;
}

static void drop_averaged(struct zero12 *z, struct zero12_group *g)
{
    for (uint32_t i = 0; i < g->n_averaged; i++)
        value_unref(z->r, g->averaged[i]);
    g->n_averaged = 0;
}

static void copy_back(struct zero12 *z, const struct zero12_group *g)
{
    work_add(z->r, OP_TO_COPY, 0, 6 * g->share, 1);
}

static void update(struct zero12 *z, struct zero12_group *g, val norm)
{
    struct run *r = z->r;
    val *grad = grad_of(r, g->master);

    *grad = flat_gradient(z, g);
    mark_block(r, *grad, MARK_GRADIENT);
    drop_averaged(z, g);
    zero_unscale(&z->engine, norm, *grad);
    zero_optim_step(r, &g->optim, &z->groups[0].optim);
    value_unref(r, *grad);
    *grad = 0;
    copy_back(z, g);
}

/* all_gather_into_tensor over each flat buffer, in place */
static void gather(struct zero12 *z)
{
    for (uint32_t i = 0; i < z->n_groups && z->ranks > 1; i++) {
        struct work_sending s = {.what = COLLECTIVE_ALL_GATHER,
                                 .bytes = z->groups[i].flat_elems * dtype_bytes(z->dtype),
                                 .stream = STREAM_GATHER,
                                 .after_compute = true};

        work_wait(z->r, work_send(z->r, s));
    }
}

static void step_on_device(struct zero12 *z)
{
    struct run *r = z->r;
    val norm;

    if (zero_checks_overflow(&z->engine))
        zero_check_overflow(r, all_averaged(z), z->list);
    norm = global_norm(z);
    for (uint32_t i = 0; i < z->n_groups && !run_dead(r); i++)
        update(z, &z->groups[i], norm);
    gather(z);
    value_unref(r, norm);
}

/* --------------------------------------------------------------------------------------------------------- on the host */
/* complete_grad_norm_calculation_for_cpu_offload: each norm is read, their sum goes around */
static void norms_of_host(struct zero12 *z)
{
    struct run *r = z->r;

    for (uint32_t i = 0; i < z->n_groups; i++) {
        val sum;

        host_waits(r);
        sum = zero_scalar(r, OP_TO_COPY, DTYPE_FP32);
        work_message(r, COLLECTIVE_ALL_REDUCE, 4);
        value_unref(r, sum);
    }
}

/* Once the fp32 share comes to the device to be cast there; later a half copy, cast on the host, comes straight into the flat buffer. */
static void bring_back(struct zero12 *z, const struct zero12_group *g)
{
    struct run *r = z->r;
    bool full = r->q->zero_updates_by_fp32;
    struct work_sending host = {.what = COLLECTIVE_HOST_STEP, .bytes = 4 * g->share, .stream = STREAM_COPY, .after_compute = true};
    struct work_sending back = {.what = COLLECTIVE_FROM_HOST,
                                .bytes = (full ? 4 : dtype_bytes(z->dtype)) * g->share,
                                .stream = STREAM_COPY};
    val share = 0;

    work_wait(r, work_send(r, host));
    if (full)
        share = zero_flat(r, OP_TO_COPY, DTYPE_FP32, g->share);
    work_wait(r, work_send(r, back));
    value_unref(r, share);
}

static void step_on_host(struct zero12 *z)
{
    struct run *r = z->r;

    host_waits(r);
    z->pending_copies = false;
    if (zero_checks_overflow(&z->engine))
        zero_share_overflow(r);
    norms_of_host(z);
    for (uint32_t i = 0; i < z->n_groups; i++)
        bring_back(z, &z->groups[i]);
    for (uint32_t i = 0; i < z->n_norms; i++) {
        value_unref(r, z->params[z->norm_order[i]].norm);
        z->params[z->norm_order[i]].norm = 0;
    }
    z->n_norms = 0;
    gather(z);
}

void zero12_step(struct zero12 *z)
{
    if (run_dead(z->r))
        return;
    z->micro_step = 0;
    if (z->offload)
        step_on_host(z);
    else
        step_on_device(z);
    zero_step_ends(&z->engine);
}
