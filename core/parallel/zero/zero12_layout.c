/* zero12_layout.c - flat buffers of half weights, and which rank owns what of them. */
#include "parallel/zero/inside12.h"
#include "torch/work.h"

#include <string.h>

enum { NCCL_START_ALIGNMENT = 2 }; /* stage_1_and_2.py nccl_start_alignment_factor: elements a rank's share is padded to */

static uint64_t round_to(uint64_t n, uint64_t m)
{
    return (n + m - 1) / m * m;
}

/* get_partition_info: the parameters that begin in the share, or straddle where it begins. */
void zero12_share(struct zero12 *z, struct zero12_group *g)
{
    uint64_t begin, end;
    bool found = false;

    g->flat_elems = round_to(g->elems, (uint64_t)NCCL_START_ALIGNMENT * z->ranks);
    g->share = g->flat_elems / z->ranks;
    begin = g->share * z->rank;
    end = begin + g->share;
    g->mine_begin = g->mine_end = g->end;
    for (uint32_t i = g->begin; i < g->end; i++) {
        struct zero12_param *p = &z->params[i];
        uint64_t last = p->offset + p->elems;

        p->mine = (p->offset >= begin && p->offset < end) || (p->offset < begin && last > begin);
        if (!p->mine)
            continue;
        p->begin = p->offset < begin ? begin - p->offset : 0;
        p->end = (last < end ? last : end) - p->offset;
        g->mine_begin = found ? g->mine_begin : i;
        g->mine_end = i + 1;
        found = true;
    }
}

/* p.data = flat_group.narrow(..).view(shape) */
static void view_of_flat(struct zero12 *z, const struct zero12_group *g, const struct zero12_param *p)
{
    struct run *r = z->r;
    const struct value *x = &r->values[p->leaf];
    val view = value_alias(r, g->flat);

    if (!view)
        return;
    r->values[view].offset = (int64_t)p->offset;
    r->values[view].ndim = x->ndim;
    r->values[view].contiguous = x->contiguous;
    memcpy(r->values[view].size, x->size, sizeof x->size);
    memcpy(r->values[view].stride, x->stride, sizeof x->stride);
    set_data(r, p->leaf, view);
}

/* Until 0.14 weights wait on the host while the buffer is made: param.data = torch.empty(1).to(device) */
static void move_to_host(struct zero12 *z, const struct zero12_group *g)
{
    struct run *r = z->r;

    for (uint32_t i = g->begin; i < g->end && !run_dead(r); i++) {
        struct value was = r->values[z->params[i].leaf];
        val leaf = z->params[i].leaf;

        set_data(r, leaf, value_empty(r, OP_TO_COPY, DTYPE_FP32, 1, (const int64_t[]){1}));
        r->values[leaf].ndim = was.ndim; /* its shape comes back with the view */
        r->values[leaf].dtype = was.dtype;
        r->values[leaf].contiguous = was.contiguous;
        memcpy(r->values[leaf].size, was.size, sizeof was.size);
        memcpy(r->values[leaf].stride, was.stride, sizeof was.stride);
    }
}

/* torch._utils._flatten_dense_tensors: one tensor is not copied. */
static val make_flat(struct zero12 *z, const struct zero12_group *g)
{
    struct run *r = z->r;
    uint64_t padding = g->flat_elems - g->elems;
    val pad = 0, flat;

    if (r->q->zero_flattens_on_host) {
        move_to_host(z, g);
        return zero_flat(r, OP_TO_COPY, z->dtype, g->flat_elems);
    }
    if (!padding && g->end - g->begin == 1)
        return owned(r, value_alias(r, z->params[g->begin].leaf));
    if (padding)
        pad = zero_flat(r, OP_ZEROS, z->dtype, padding);
    flat = zero_flat(r, OP_CAT, z->dtype, g->flat_elems);
    value_unref(r, pad);
    return flat;
}

/* weights_partition: a clone of the share, then fp32; on the host where the optimizer is */
static void make_master(struct zero12 *z, struct zero12_group *g)
{
    struct run *r = z->r;
    val half = 0;

    if (!z->offload || !r->q->zero_flattens_on_host)
        half = zero_flat(r, OP_CLONE, z->dtype, g->share);
    if (!z->offload && z->dtype == DTYPE_FP32) {
        g->master = half;
    } else {
        g->master = z->offload ? 0 : zero_flat(r, OP_TO_COPY, DTYPE_FP32, g->share);
        value_unref(r, half);
    }
    mark_block(r, g->master, MARK_PARAMETER);
}

void zero12_flatten(struct zero12 *z, struct zero12_group *g)
{
    struct run *r = z->r;

    g->flat = make_flat(z, g);
    mark_block(r, g->flat, MARK_PARAMETER);
    for (uint32_t i = g->begin; i < g->end && !run_dead(r); i++)
        view_of_flat(z, g, &z->params[i]);
    make_master(z, g);
}
