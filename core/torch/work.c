#include "torch/work.h"

#include "torch/autograd.h"

bool work_init(struct work *w, struct arena *arena, struct work_limits l)
{
    *w = (struct work){.max_kernels = l.kernels, .max_messages = l.messages, .max_orders = l.orders};
    w->orders = arena_array_raw(arena, struct order, l.orders);
    w->messages = arena_array_raw(arena, struct message, l.messages);
    w->kernels = arena_array_raw(arena, struct kernel, l.kernels);
    return w->kernels && w->messages && w->orders;
}

uint32_t work_send(struct run *r, struct work_sending s)
{
    struct work *w = r->work;

    if (!w)
        return 0;
    if (w->n_messages == w->max_messages) {
        run_fail(r, ERR_NOMEM, "", "the working memory of one request is too small for the messages of a step");
        return 0;
    }
    w->messages[w->n_messages++] = (struct message){
        .bytes = s.bytes,
        .kernels_before = w->n_kernels,
        .waited_before = MESSAGE_UNWAITED,
        .group = s.group,
        .collective = (uint8_t)s.what,
        .stage = r->stage,
        .stream = (uint8_t)s.stream,
        .from = r->stream,
        .at = r->n_events,
        .after_compute = s.after_compute,
    };
    return w->n_messages;
}

uint32_t work_send_apart(struct run *r, struct work_sending s)
{
    uint32_t id = work_send(r, s);

    if (id)
        r->work->messages[id - 1].apart = true;
    return id;
}

static void order(struct run *r, enum order_kind kind, uint32_t of)
{
    struct work *w = r->work;

    if (!w || !w->max_orders)
        return;
    if (w->n_orders == w->max_orders) {
        run_fail(r, ERR_NOMEM, "", "the working memory of one request is too small for the waits of a step");
        return;
    }
    w->orders[w->n_orders++] = (struct order){w->n_kernels, w->n_messages, r->n_events, of, (uint8_t)kind, r->stream};
}

void stream_waits(struct run *r, unsigned stream)
{
    if (stream != r->stream)
        order(r, ORDER_STREAM_WAITS, stream);
}

uint32_t event_records(struct run *r)
{
    uint32_t number = r->work ? ++r->work->n_events : 0;

    order(r, ORDER_EVENT, number);
    return number;
}

void event_awaited(struct run *r, uint32_t number)
{
    order(r, ORDER_HOST_WAITS, number);
}

void stream_takes(struct run *r, uint32_t message)
{
    if (message)
        order(r, ORDER_TAKES, message - 1);
}

void streams_awaited(struct run *r)
{
    order(r, ORDER_HOST_SYNCS, 0);
}

void work_wait(struct run *r, uint32_t message)
{
    struct work *w = r->work;

    if (w && message && w->messages[message - 1].waited_before == MESSAGE_UNWAITED)
        w->messages[message - 1].waited_before = w->n_kernels;
    stream_takes(r, message);
}

void work_host_after(struct run *r, uint32_t message, uint32_t kernels)
{
    if (r->work && message)
        r->work->messages[message - 1].host_after = kernels;
}

void work_message(struct run *r, enum collective what, uint64_t bytes)
{
    (void)work_send(r, (struct work_sending){.what = what, .bytes = bytes, .stream = STREAM_ALL_REDUCE, .after_compute = true});
}

uint32_t work_send_native(struct run *r, enum collective what, uint64_t bytes)
{
    uint32_t id = work_send(r, (struct work_sending){.what = what, .bytes = bytes, .stream = STREAM_ALL_REDUCE, .after_compute = true});

    if (id)
        r->work->messages[id - 1].native = true;
    return id;
}

uint32_t work_send_counts(struct run *r, enum collective what, uint64_t n)
{
    uint32_t id = work_send_native(r, what, 4 * n);

    if (id)
        r->work->messages[id - 1].counts = true;
    return id;
}

/* ------------------------------------------------------------------------------------------------------------- sizes */
/* An expanded dimension is read once. */
static uint64_t moved_elems(const struct run *r, val v)
{
    const struct value *x = &r->values[v];
    uint64_t n = 1;

    for (int i = 0; i < x->ndim; i++)
        n *= x->stride[i] ? (uint64_t)x->size[i] : 1;
    return n;
}

static uint64_t moved_bytes(const struct run *r, val v)
{
    return v ? moved_elems(r, v) * dtype_bytes(dtype_of(r, v)) : 0;
}

/* ----------------------------------------------------------------------------------------------------------- kernels */
static struct kernel *append(struct run *r, enum op op, enum dtype dtype)
{
    struct work *w = r->work;
    struct kernel *k;

    if (!w->max_kernels)
        return NULL;
    if (w->n_kernels == w->max_kernels) {
        run_outgrew(r, "the working memory of one request is too small for the kernels of a step");
        return NULL;
    }
    k = &w->kernels[w->n_kernels++];
    *k = (struct kernel){
        .launches = 1,
        .op = (uint16_t)op,
        .calls = (uint16_t)(w->calls < UINT16_MAX ? w->calls + 1 : UINT16_MAX),
        .hooks = (uint16_t)(w->hooks < UINT16_MAX ? w->hooks : UINT16_MAX),
        .work = op_rows[op].work,
        .dtype = (uint8_t)dtype,
        .stage = r->stage,
        .stream = r->stream,
        .recompute = r->recompute,
        .at = r->n_events,
    };
    w->calls = w->hooks = 0;
    return k;
}

void work_launch(struct run *r, enum op op, val out, int n, const val *in)
{
    enum work_class work = (enum work_class)op_rows[op].work;
    struct kernel *k;

    if (!out || run_dead(r) || work == WORK_NONE || work >= WORK_MATMUL) /* products and attention know their shapes: they log themselves */
        return;
    k = append(r, op, dtype_of(r, out));
    if (!k)
        return;
    k->bytes = moved_bytes(r, out);
    for (int i = 0; i < n; i++)
        k->bytes += moved_bytes(r, in[i]);
    if (work == WORK_POINT)
        k->flops = (uint64_t)numel(r, out);
    else if (work == WORK_REDUCE)
        k->flops = (uint64_t)numel(r, n ? in[0] : out);
}

/* Kernels load several elements at once, where the distance from one row to the next, whichever way a matrix lies, allows it: not where halves lie
 * at an odd one. Even ones that are no multiple of 16 bytes are slower too; no figure of theirs was found. */
static bool rows_aligned(const struct run *r, val v)
{
    const struct value *x = value_of(r, v);
    int64_t down = x->stride[x->ndim - 2], along = x->stride[x->ndim - 1], leading = along == 1 ? down : along;

    return x->size[x->ndim - 2] == 1 || x->size[x->ndim - 1] == 1 || (uint64_t)leading * dtype_bytes(dtype_of(r, v)) % 4 == 0;
}

void work_product(struct run *r, enum op op, val out, val a, val b, val added)
{
    struct kernel *k = !out || run_dead(r) ? NULL : append(r, op, dtype_of(r, out));

    if (!k)
        return;
    k->rows = (uint32_t)size_of(r, out, -2);
    k->columns = (uint32_t)size_of(r, out, -1);
    k->inner = (uint32_t)size_of(r, a, -1);
    k->batch = value_of(r, out)->ndim > 2 ? (uint32_t)size_of(r, out, 0) : 1;
    k->flops = 2 * (uint64_t)numel(r, out) * k->inner;
    k->unaligned = !rows_aligned(r, out) || !rows_aligned(r, a) || !rows_aligned(r, b);
    k->bytes = moved_bytes(r, out) + moved_bytes(r, a) + moved_bytes(r, b) + moved_bytes(r, added);
}

/* `groups` products of rows x inner times inner x columns in one launch; each has its share of what was sorted. */
void work_grouped(struct run *r, enum op op, val out, val a, val b, int64_t groups, int64_t rows, int64_t inner, int64_t columns)
{
    struct kernel *k = !out || run_dead(r) || !groups ? NULL : append(r, op, dtype_of(r, out));

    if (!k)
        return;
    k->rows = (uint32_t)(rows ? rows : 1);
    k->columns = (uint32_t)columns;
    k->inner = (uint32_t)(inner ? inner : 1);
    k->batch = (uint32_t)groups;
    k->flops = 2 * (uint64_t)groups * (uint64_t)rows * (uint64_t)inner * (uint64_t)columns;
    k->unaligned = !rows_aligned(r, out) || !rows_aligned(r, a) || !rows_aligned(r, b);
    k->bytes = moved_bytes(r, out) + moved_bytes(r, a) + moved_bytes(r, b);
}

/* Forward multiplies twice (scores, output), backward five times: flash-attention recomputes the scores, then dv, dp, dq, dk. It reads
 * what forward read and wrote with the gradient of the output, writes three gradients, and adds to dq in fp32. */
void work_attention(struct run *r, enum op op, const struct attended *a, val q, val k)
{
    bool backward = op == OP_FLASH_BACKWARD || op == OP_EFFICIENT_BACKWARD || op == OP_CUDNN_ATTENTION_BACKWARD;
    uint64_t pairs =
        (uint64_t)(a->batch * a->heads) * (uint64_t)(a->causal ? a->queries * (2 * a->keys - a->queries + 1) / 2 : a->queries * a->keys);
    uint64_t q_bytes, kv_bytes;
    struct kernel *x = run_dead(r) ? NULL : append(r, op, dtype_of(r, q));

    if (!x)
        return;
    q_bytes = (uint64_t)numel(r, q) * dtype_bytes(dtype_of(r, q));
    kv_bytes = 2 * (uint64_t)numel(r, k) * dtype_bytes(dtype_of(r, k));
    x->inner = (uint32_t)a->head_dim;
    x->rows = (uint32_t)a->queries;
    x->flops = pairs * (uint64_t)a->head_dim * (backward ? 10 : 4);
    x->bytes = backward ? 4 * q_bytes + 2 * kv_bytes + (uint64_t)numel(r, q) * 4 * 2 : 2 * q_bytes + kv_bytes;
}

void work_add(struct run *r, unsigned op, uint64_t flops, uint64_t bytes, uint32_t launches)
{
    struct kernel *k = !r->work || run_dead(r) || !launches ? NULL : append(r, (enum op)op, DTYPE_FP32);

    if (!k)
        return;
    k->flops = flops;
    k->bytes = bytes;
    k->launches = launches;
    k->calls = (uint16_t)(k->calls + work_calls(launches));
}

void work_add_product(struct run *r, unsigned op, unsigned dtype, uint64_t flops, uint64_t bytes)
{
    uint32_t n = r->work ? r->work->n_kernels : 0;

    work_add(r, op, flops, bytes, 1);
    if (r->work && r->work->n_kernels > n)
        r->work->kernels[n].dtype = (uint8_t)dtype;
}

enum { BLOCKS_MAX = 320 };                                          /* MultiTensorApply.cuh depth_to_max_blocks */
static const uint8_t tensors_max[] = {1, 110, 64, 48, 36, 30}; /* depth_to_max_tensors, by depth */

uint32_t work_launches(unsigned lists, uint64_t chunks, uint64_t tensors)
{
    return (uint32_t)(1 + chunks / BLOCKS_MAX + tensors / tensors_max[lists]);
}

void work_add_list(struct run *r, unsigned op, uint64_t flops, uint64_t bytes, unsigned lists, uint64_t chunks, uint64_t tensors)
{
    struct kernel *k;
    uint32_t n = r->work ? r->work->n_kernels : 0;

    work_add(r, op, flops, bytes, work_launches(lists, chunks, tensors));
    k = r->work && r->work->n_kernels > n ? &r->work->kernels[n] : NULL;
    if (!k)
        return;
    k->lists = (uint8_t)lists;
    k->chunks = (uint32_t)chunks;
    k->tensors = (uint32_t)tensors;
}
