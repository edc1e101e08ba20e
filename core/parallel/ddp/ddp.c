#include "parallel/ddp/ddp.h"

#include "parallel/programs.h"
#include "torch/autograd.h"
#include "torch/work.h"

#include <string.h>

struct bucket {
    val flat;
    uint32_t begin, end; /* in ddp.assignment.indices */
    uint32_t pending;
    uint32_t sent; /* its message */
};

struct ddp {
    struct run *r;
    struct ddp_options options;
    uint32_t n;
    const val *params;
    struct ddp_tensor *tensors;
    struct ddp_assignment assignment;
    struct bucket *buckets;
    uint32_t *bucket_of; /* by parameter */
    uint32_t *index_of;  /* by value: parameter + 1 */
    val last_param;
    uint32_t *arrived; /* parameters in the order in which their gradients came */
    uint32_t n_arrived;
    uint32_t next_bucket; /* that is reduced next */
    uint32_t n_ready, n_used; /* gradients that came in this backward; in the one before, where parameters may be unused */
    bool sync, rebuilt, unfinished; /* unfinished: a reduction has begun */
    val used_map;
};

/* --------------------------------------------------------------------------------------------------------------- buckets */
static val *gradient(const struct ddp *d, uint32_t param)
{
    return grad_of(d->r, d->params[param]);
}

/* The gradient becomes a view of its place in the bucket; what it was dies. */
static void make_view(struct ddp *d, uint32_t param)
{
    struct run *r = d->r;
    const struct bucket *b = &d->buckets[d->bucket_of[param]];
    const struct value *p = &r->values[d->params[param]];
    val *grad = gradient(d, param), old = *grad, view;

    if (r->values[old].storage == r->values[b->flat].storage)
        return;
    view = owned(r, value_alias(r, b->flat));
    if (!view)
        return;
    r->values[view].ndim = p->ndim;
    r->values[view].contiguous = p->contiguous;
    memcpy(r->values[view].size, p->size, sizeof p->size);
    memcpy(r->values[view].stride, p->stride, sizeof p->stride);
    r->values[view].view = true;
    *grad = view;
    value_unref(r, old);
}

/* Reducer::initialize_buckets: the old ones go first; gradients that are views move over. */
static void allocate(struct ddp *d)
{
    struct run *r = d->r;
    const struct ddp_assignment *a = &d->assignment;

    for (uint32_t b = 0; b < a->n_buckets; b++) {
        struct bucket *k = &d->buckets[b];
        int64_t elems = 0;

        *k = (struct bucket){.begin = b ? a->ends[b - 1] : 0, .end = a->ends[b]};
        for (uint32_t i = k->begin; i < k->end; i++) {
            d->bucket_of[a->indices[i]] = b;
            elems += numel(r, d->params[a->indices[i]]);
        }
        k->pending = k->end - k->begin;
        k->flat = owned(r, value_empty(r, OP_EMPTY, d->tensors[a->indices[k->begin]].dtype, 1, &elems));
        mark_block(r, k->flat, d->options.bucket_view ? MARK_GRADIENT : MARK_COMMUNICATION);
        for (uint32_t i = k->begin; i < k->end && d->options.bucket_view && k->flat; i++)
            if (*gradient(d, a->indices[i]))
                make_view(d, a->indices[i]);
    }
}

static void drop_buckets(struct ddp *d, uint32_t n_buckets)
{
    for (uint32_t b = 0; b < n_buckets; b++)
        value_unref(d->r, d->buckets[b].flat);
}

/* list(reversed(buckets)): their order turns, that of the tensors in each stays */
static void reverse(struct ddp *d)
{
    struct ddp_assignment *a = &d->assignment;
    uint32_t *indices = d->arrived, at = 0; /* not in use before the first backward */

    for (uint32_t b = a->n_buckets; b-- > 0;) {
        uint32_t begin = b ? a->ends[b - 1] : 0;

        memcpy(indices + at, a->indices + begin, (a->ends[b] - begin) * sizeof *indices);
        at += a->ends[b] - begin;
        d->bucket_of[a->n_buckets - 1 - b] = at; /* the new ends */
    }
    memcpy(a->indices, indices, d->n * sizeof *indices);
    memcpy(a->ends, d->bucket_of, a->n_buckets * sizeof *a->ends);
}

static bool make_room(struct ddp *d, uint32_t n)
{
    struct run *r = d->r;

    for (uint32_t i = 0; i < n; i++)
        if (d->params[i] > d->last_param)
            d->last_param = d->params[i];
    d->tensors = run_room(r, sizeof *d->tensors, n);
    d->assignment.indices = run_room(r, sizeof *d->assignment.indices, n);
    d->assignment.ends = run_room(r, sizeof *d->assignment.ends, n);
    d->buckets = run_room(r, sizeof *d->buckets, n);
    d->bucket_of = run_room(r, sizeof *d->bucket_of, n);
    d->arrived = run_room(r, sizeof *d->arrived, n);
    d->index_of = run_room(r, sizeof *d->index_of, d->last_param + (size_t)1);
    return !run_dead(r);
}

/* -------------------------------------------------------------------------------------------------------------- the hook */
/* Reducer::finalize_backward: waits for every bucket, and copies each back, leaf by leaf. */
static void finalize(struct ddp *d)
{
    d->unfinished = false;
    for (uint32_t b = 0; b < d->assignment.n_buckets; b++)
        work_wait(d->r, d->buckets[b].sent);
    if (!d->options.bucket_view)
        for (uint32_t i = 0; i < d->n; i++)
            work_add(d->r, OP_CLONE, 0, 2 * d->tensors[i].bytes, 1);
    if (d->options.find_unused_parameters)
        work_wait(d->r, work_send_counts(d->r, COLLECTIVE_ALL_REDUCE, d->n));
}

/* Reducer::mark_bucket_ready: buckets are reduced in their order, whichever is full first. */
static void reduce_ready(struct ddp *d)
{
    while (d->next_bucket < d->assignment.n_buckets && !d->buckets[d->next_bucket].pending) {
        struct bucket *b = &d->buckets[d->next_bucket++];

        b->sent = work_send_native(d->r, COLLECTIVE_ALL_REDUCE, d->r->storages[d->r->values[b->flat].storage].bytes);
    }
    if (d->next_bucket == d->assignment.n_buckets)
        finalize(d);
}

/* Parameters that no backward reaches are found from the outputs and marked ready before it (Reducer::search_unused_parameters); here once the others came. */
static void mark_unused(struct ddp *d)
{
    for (uint32_t b = d->next_bucket; b < d->assignment.n_buckets; b++)
        d->buckets[b].pending = 0;
    reduce_ready(d);
}

/* Reducer::autograd_hook. The copy into the bucket divides; nothing is allocated. */
static void grad_ready(void *of, val leaf)
{
    struct ddp *d = of;
    uint32_t param = leaf <= d->last_param ? d->index_of[leaf] : 0;

    if (!param-- || !d->sync)
        return;
    if (!d->rebuilt && d->n_arrived < d->n)
        d->arrived[d->n_arrived++] = param;
    work_add(d->r, OP_MUL, 0, 2 * d->tensors[param].bytes, 1);
    if (d->options.bucket_view)
        make_view(d, param);
    d->unfinished = true;
    d->n_ready++;
    if (--d->buckets[d->bucket_of[param]].pending == 0)
        reduce_ready(d);
    if (d->unfinished && d->options.find_unused_parameters && d->n_ready == d->n_used)
        mark_unused(d);
}

/* ------------------------------------------------------------------------------------------------------------- the model */
struct ddp *ddp_new(struct run *r, const struct ddp_options *options, uint32_t n, const val *params)
{
    struct ddp *d = run_dead(r) ? NULL : run_room(r, sizeof *d, 1);
    uint64_t limits[2] = {options->first_bucket_bytes, options->bucket_bytes}, none = UINT64_MAX;
    bool find = options->find_unused_parameters;

    if (!d)
        return NULL;
    *d = (struct ddp){.r = r, .options = *options, .n = n, .params = params, .sync = true, .rebuilt = find};
    if (!make_room(d, n))
        return NULL;
    for (uint32_t i = 0; i < n; i++) {
        d->index_of[params[i]] = i + 1;
        d->tensors[i] = (struct ddp_tensor){(uint64_t)numel(r, params[i]) * dtype_bytes(dtype_of(r, params[i])), dtype_of(r, params[i])};
    }
    ddp_assign(n, d->tensors, NULL, find ? 2 : 1, find ? limits : &none, &d->assignment); /* one bucket until the order is known */
    reverse(d);
    allocate(d);
    if (find) {
        d->used_map = owned(r, value_empty(r, OP_EMPTY, DTYPE_INT32, 1, (const int64_t[]){n}));
        mark_block(r, d->used_map, MARK_COMMUNICATION);
    }
    r->grad_ready = grad_ready;
    r->grad_ready_of = d;
    return d;
}

void ddp_sync(struct ddp *d, bool sync)
{
    d->sync = sync;
}

/* Reducer::sync_bucket_indices: rank 0's lists go around as int32, first all indices and their number, then the buckets' sizes. */
static void agree(struct ddp *d)
{
    struct run *r = d->r;
    val indices = owned(r, value_empty(r, OP_EMPTY, DTYPE_INT32, 1, (const int64_t[]){d->n + 1}));
    val sizes = owned(r, value_empty(r, OP_EMPTY, DTYPE_INT32, 1, (const int64_t[]){d->assignment.n_buckets}));
    uint8_t stage = r->stage;

    r->stage = STAGE_INIT; /* once in a run: no part of a step */
    work_wait(r, work_send_counts(d->r, COLLECTIVE_BROADCAST, (uint64_t)d->n + 1));
    work_wait(r, work_send_counts(d->r, COLLECTIVE_BROADCAST, d->assignment.n_buckets));
    r->stage = stage;
    value_unref(r, sizes);
    value_unref(r, indices);
}

/* Reducer::rebuild_buckets, once: the first backward that reduced has shown the order. */
static void rebuild(struct ddp *d)
{
    uint64_t limits[2] = {d->options.first_bucket_bytes, d->options.bucket_bytes};
    uint32_t n_old = d->assignment.n_buckets;

    d->rebuilt = true;
    ddp_assign(d->n, d->tensors, d->arrived, 2, limits, &d->assignment);
    agree(d);
    drop_buckets(d, n_old);
    allocate(d);
}

void ddp_pre_forward(struct ddp *d)
{
    if (run_dead(d->r))
        return;
    if (d->unfinished && !d->options.find_unused_parameters) { /* Reducer::ensure_prior_reduction_finished */
        run_fail(d->r, ERR_FIELD_CONFLICT, "/training/find_unused_parameters",
                 "parameters of this model get no gradient from its batch: DistributedDataParallel raises in the second step unless "
                 "find_unused_parameters is true");
        return;
    }
    d->unfinished = false;
    d->n_used = d->n_ready ? d->n_ready : d->n_used;
    d->n_ready = 0;
    if (!d->rebuilt && d->n_arrived == d->n)
        rebuild(d);
    d->next_bucket = 0;
    for (uint32_t b = 0; b < d->assignment.n_buckets; b++)
        d->buckets[b].pending = d->buckets[b].end - d->buckets[b].begin;
}

/* _DDPSink.forward: clones, of one node; MAX_EDGES at a time, which differs in nothing that takes memory. */
static void clone_outputs(struct run *r, uint32_t n, const val *in, val *out)
{
    for (uint32_t at = 0; at < n; at += MAX_EDGES) {
        uint32_t m = n - at < MAX_EDGES ? n - at : MAX_EDGES, node = attach(r, OP_PASS_EACH, (int)m, in + at);

        for (uint32_t i = 0; i < m; i++) {
            const struct value *x = &r->values[in[at + i]];

            out[at + i] = owned(r, in[at + i] ? value_empty(r, OP_CLONE, (enum dtype)x->dtype, x->ndim, x->size) : 0);
            if (out[at + i] && x->requires_grad)
                attach_output(r, node, out[at + i], (int)i);
        }
    }
}

void ddp_post_forward(struct ddp *d, uint32_t n, val *outputs)
{
    struct run *r = d->r;
    unsigned char *mark = r->arena->cur;
    val *out;

    if (!d->options.find_unused_parameters || run_dead(r))
        return;
    out = run_room(r, sizeof *out, n);
    if (!out)
        return;
    clone_outputs(r, n, outputs, out);
    for (uint32_t i = 0; i < n && !run_dead(r); i++) {
        bool kept = !out[i] || !r->values[out[i]].requires_grad; /* what has no grad_fn is handed on as it was */
        val gone = kept ? out[i] : outputs[i];

        outputs[i] = kept ? outputs[i] : out[i];
        value_unref(r, gone);
    }
    arena_rewind(r->arena, mark);
}

/* ----------------------------------------------------------------------------------------------------------- the program */
static void *wrap(struct wrapping *w)
{
    const struct ddp_settings *s = &w->o->ddp;
    struct ddp_options o = {s->bucket_bytes, s->first_bucket_bytes, s->find_unused_parameters, s->bucket_view};

    w->place(w);
    wrapping_train_all(w);
    return ddp_new(w->r, &o, w->leaves.n, w->leaves.leaf);
}

static void begin_micro_step(void *of, bool sync)
{
    ddp_sync(of, sync);
}

static void pre_forward(void *of)
{
    ddp_pre_forward(of);
}

static void post_forward(void *of, uint32_t n, val *outputs)
{
    ddp_post_forward(of, n, outputs);
}

const struct method_program ddp_program = {
    .source = "torch/nn/parallel/distributed.py, torch/csrc/distributed/c10d/reducer.cpp",
    .wrap = wrap,
    .begin_micro_step = begin_micro_step,
    .pre_forward = pre_forward,
    .post_forward = post_forward,
    .steps = 3, /* buckets are made anew in the second */
};
