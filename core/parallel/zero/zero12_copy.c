/* zero12_copy.c - where averaged gradients of the rank's share go: a block on the device, or the host. */
#include "parallel/zero/inside12.h"
#include "torch/work.h"

#include <string.h>

void zero12_clear_gradient(struct zero12 *z, uint32_t param)
{
    val *grad = zero12_gradient(z, param), old;

    if (!grad || !*grad)
        return;
    old = *grad;
    *grad = 0;
    value_unref(z->r, old);
}

val zero12_slice(struct run *r, val of, uint64_t elems)
{
    val v = owned(r, value_alias(r, of));

    if (!v)
        return 0;
    r->values[v].ndim = 1;
    r->values[v].size[0] = (int64_t)elems;
    value_strides(&r->values[v]);
    r->values[v].view = true;
    return v;
}

/* ------------------------------------------------------------------------------------------------------- on the device */
/* One block for every whole parameter that the share touches. */
static void make_block(struct zero12 *z)
{
    uint64_t elems = 0;

    for (uint32_t i = 0; i < z->n; i++)
        elems += z->params[i].mine ? z->params[i].elems : 0;
    z->block = zero_flat(z->r, OP_EMPTY, z->dtype, elems);
    mark_block(z->r, z->block, MARK_GRADIENT);
}

static void keep_on_device(struct zero12 *z, uint32_t param)
{
    struct run *r = z->r;
    val grad = *zero12_gradient(z, param), view;

    if (!z->block)
        make_block(z);
    view = value_alias(r, z->block);
    if (!view || !grad)
        return;
    r->values[view].ndim = r->values[grad].ndim;
    memcpy(r->values[view].size, r->values[grad].size, sizeof r->values[view].size);
    value_strides(&r->values[view]);
    set_data(r, grad, view);
    work_add(r, OP_CLONE, 0, 2 * z->params[param].elems * dtype_bytes(z->dtype), 1);
}

/* --------------------------------------------------------------------------------------------------------- on the host */
static void over_the_bus(struct zero12 *z, enum collective way, uint64_t bytes)
{
    (void)work_send(z->r, (struct work_sending){.what = way, .bytes = bytes, .stream = STREAM_COPY, .after_compute = true});
}

/* _wait_for_offload_copies */
static void wait_for_copies(struct zero12 *z)
{
    if (z->pending_copies && z->r->q->zero_guards_offload)
        host_waits(z->r);
    z->pending_copies = false;
}

/* async_accumulate_grad_in_cpu_via_gpu: what the host has is added on the device; whether it goes back at the boundary hangs on the release */
static void accumulate(struct zero12 *z, const struct zero12_param *p)
{
    uint64_t bytes = p->elems * dtype_bytes(z->dtype);

    wait_for_copies(z);
    z->accumulated = true;
    if (z->micro_step > 1) {
        over_the_bus(z, COLLECTIVE_FROM_HOST, bytes);
        work_add(z->r, OP_ADD, p->elems, 3 * bytes, 1);
    }
    if (!z->boundary || z->r->q->zero_guards_offload)
        over_the_bus(z, COLLECTIVE_TO_HOST, bytes);
    z->pending_copies = true;
}

static bool accumulates(const struct zero12 *z)
{
    return z->r->q->zero_guards_offload ? z->micro_step > 1 || !z->boundary : z->o->gradient_accumulation_steps > 1;
}

/* set_norm_for_param_grad_in_gpu */
static void take_norm(struct zero12 *z, uint32_t param, val grad)
{
    struct run *r = z->r;
    struct zero12_param *p = &z->params[param];
    val own = zero12_slice(r, grad, p->end - p->begin), old = p->norm;

    p->norm = zero_norm(r, own);
    value_unref(r, old);
    value_unref(r, own);
    if (!old)
        z->norm_order[z->n_norms++] = param;
}

/* async_inplace_copy_grad_to_fp32_buffer_from_gpu */
static void send_to_master(struct zero12 *z, uint32_t param)
{
    struct run *r = z->r;
    const struct zero12_param *p = &z->params[param];
    val wide = z->dtype == DTYPE_FP32 ? 0 : zero_flat(r, OP_TO_COPY, DTYPE_FP32, p->end - p->begin);

    work_add(r, OP_TO_COPY, 0, 6 * (p->end - p->begin), 1);
    over_the_bus(z, COLLECTIVE_TO_HOST, 4 * (p->end - p->begin));
    z->pending_copies = true;
    value_unref(r, wide);
    zero12_clear_gradient(z, param);
}

static void keep_on_host(struct zero12 *z, uint32_t param)
{
    struct run *r = z->r;
    val grad = *zero12_gradient(z, param);

    if (accumulates(z))
        accumulate(z, &z->params[param]);
    if (!z->boundary || run_dead(r))
        return;
    take_norm(z, param, grad);
    value_unref(r, zero_has_inf_or_nan(r, grad));
    host_waits(r);
    send_to_master(z, param);
}

void zero12_keep_gradient(struct zero12 *z, uint32_t param)
{
    if (run_dead(z->r))
        return;
    if (z->offload)
        keep_on_host(z, param);
    else
        keep_on_device(z, param);
}

/* Tensors under 64 KiB do not count. */
static uint64_t counted(uint64_t bytes)
{
    enum { COUNTED_FROM = 64 << 10 };

    return bytes >= COUNTED_FROM ? bytes : 0;
}

/* Ranks whose share a parameter touches: all, or this one alone. */
static uint64_t ranks_of(const struct zero12 *z, const struct zero12_param *p, bool of_all)
{
    uint64_t share = z->groups[p->group].share, first = p->offset / share, last = (p->offset + p->elems + share - 1) / share;

    return of_all ? last - first : first <= z->rank && z->rank < last;
}

/* accumulated_grads_in_cpu: whole parameters that a rank's share touches */
static uint64_t accumulated_bytes(const struct zero12 *z, bool of_all)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < z->n && z->accumulated; i++)
        sum += ranks_of(z, &z->params[i], of_all) * counted(z->params[i].elems * dtype_bytes(z->dtype));
    return sum;
}

/* What every rank holds alike: fp32 weights, gradient and two states; the half weights on their way to the device, since 0.19;
 * temp_grad_buffer_for_cpu_offload */
static uint64_t share_bytes(const struct zero12 *z)
{
    unsigned half = dtype_bytes(z->dtype), states = z->o->optimizer == OPTIM_SGD ? 0 : 2;
    uint64_t sum = 0;

    sum += counted(z->largest * half);
    for (uint32_t i = 0; i < z->n_groups; i++) {
        uint64_t share = z->groups[i].share;

        sum += (2 + states) * counted(4 * share);
        sum += z->r->q->zero_updates_by_fp32 ? 0 : counted(half * share);
    }
    return sum;
}

static uint64_t page_bytes(const struct zero12 *z)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < z->n_groups; i++)
        sum += z->groups[i].optim.page_bytes;
    return sum;
}

uint64_t zero12_host_bytes(const struct zero12 *z)
{
    return z->offload ? share_bytes(z) + accumulated_bytes(z, false) : page_bytes(z);
}

uint64_t zero12_host_bytes_of_all(const struct zero12 *z)
{
    return z->offload ? z->ranks * share_bytes(z) + accumulated_bytes(z, true) : z->ranks * page_bytes(z);
}
