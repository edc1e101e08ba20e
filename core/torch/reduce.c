/* reduce.c - reductions, norms, losses, embeddings: operators whose kernels take scratch that depends on the GPU. */
#include "torch/autograd.h"
#include "torch/calls.h"

#include <string.h>

/* ---------------------------------------------------------------------------------------- cuda/Reduce.cuh setReduceConfig */
static const int64_t LARGEST_TENSOR = INT64_C(512) << 30; /* bytes */

struct axis {
    int64_t size, in, out; /* strides in elements; out = 0: reduced */
};

static int64_t last_pow2(int64_t n)
{
    int64_t p = 1;

    while (2 * p <= n)
        p *= 2;
    return p;
}

/* TensorIterator for a reduction: reduced dimensions first, then by rising stride; what can be merged is. */
static int axes_of(const struct value *x, unsigned dims, struct axis *ret)
{
    struct axis all[MAX_DIMS];
    int64_t step = 1;
    int n = 0, m = 0;

    for (int i = x->ndim; i-- > 0;) {
        bool reduced = dims >> i & 1;

        all[i] = (struct axis){x->size[i], x->stride[i], reduced ? 0 : step};
        if (!reduced)
            step *= x->size[i];
    }
    for (int i = x->ndim; i-- > 0;)
        if (all[i].size != 1)
            ret[n++] = all[i];
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0; j--) {
            struct axis *a = &ret[j - 1], *b = &ret[j], t;
            bool ra = a->out == 0, rb = b->out == 0;

            if (ra != rb ? ra : a->in <= b->in)
                break;
            t = *a;
            *a = *b;
            *b = t;
        }
    for (int i = 0; i < n; i++) {
        struct axis *a = m ? &ret[m - 1] : NULL;

        if (a && (a->out == 0) == (ret[i].out == 0) && a->in * a->size == ret[i].in && a->out * a->size == ret[i].out)
            a->size *= ret[i].size;
        else
            ret[m++] = ret[i];
    }
    return m;
}

/* Bytes from the first element to the last; beyond INT32_MAX the iterator is cut. */
static int64_t extent_of(const struct axis *ax, int n, unsigned element)
{
    int64_t extent = 1;

    for (int i = 0; i < n; i++)
        extent += (ax[i].size - 1) * ax[i].in * element;
    return extent;
}

/* What was cut and took no scratch, by how often it was cut: of one size, halves of halves are of two, and one of each is looked at. */
enum { CUTS_MAX = 12 };

struct barren {
    struct axis ax[CUTS_MAX][2][MAX_DIMS];
    unsigned seen[CUTS_MAX];
};

static bool is_barren(const struct barren *b, int cut, const struct axis *ax, int n)
{
    for (unsigned i = 0; cut < CUTS_MAX && i < 2 && i < b->seen[cut]; i++)
        if (!memcmp(b->ax[cut][i], ax, sizeof *ax * (size_t)n))
            return true;
    return false;
}

static void reduce_part(struct run *r, enum op op, struct axis *ax, int n, unsigned acc_bytes, unsigned element, struct barren *barren, int cut)
{
    int64_t outputs = 1, inputs = 1, dim0, dim1, fastest, extent = extent_of(ax, n, element);
    int64_t step_in = 1, step_out = 1, width, height, values, grid, target, ctas = 1;
    int vec = 1, limit, n_reduced = 0;
    bool along, block_y = false;
    uint32_t buffer, semaphores;

    for (int i = 0; i < n; i++) {
        if (ax[i].out)
            outputs *= ax[i].size;
        else
            inputs *= ax[i].size, n_reduced++;
    }
    if (extent > INT32_MAX) { /* with_32bit_indexing: halves of the widest dimension, one after the other */
        int widest = 0;

        for (int i = 1; i < n; i++)
            if ((ax[i].size - 1) * ax[i].in >= (ax[widest].size - 1) * ax[widest].in)
                widest = i;
        struct axis half[MAX_DIMS];
        uint32_t before = r->n_events;

        if (is_barren(barren, cut, ax, n))
            return;
        memcpy(half, ax, sizeof half[0] * (size_t)n);
        half[widest].size = ax[widest].size / 2;
        reduce_part(r, op, half, n, acc_bytes, element, barren, cut + 1);
        if (extent > LARGEST_TENSOR) /* more than any GPU holds: the halves repeat each other, one stands for both */
            return;
        half[widest].size = ax[widest].size - ax[widest].size / 2;
        reduce_part(r, op, half, n, acc_bytes, element, barren, cut + 1);
        if (r->n_events == before && cut < CUTS_MAX)
            memcpy(barren->ax[cut][barren->seen[cut]++ % 2], ax, sizeof *ax * (size_t)n);
        return;
    }
    if (!n)
        return;
    along = n_reduced == n || (n_reduced && ax[0].in < ax[n_reduced].in);
    dim0 = along ? inputs : outputs;
    dim1 = along ? outputs : inputs;
    fastest = along ? ax[0].in : ax[n_reduced].in;
    if (fastest == 1) {
        if (along && dim0 >= 128 && n_reduced == 1) {
            dim0 /= 4;
        } else if (!along) { /* get_output_vec_size */
            vec = 4;
            while (ax[n_reduced].size % vec)
                vec /= 2;
            for (int i = 0; i < n; i++)
                while (i != n_reduced && ax[i].in % vec)
                    vec /= 2;
            dim0 /= vec;
        }
    }
    limit = 512 / vec;
    int64_t p0 = dim0 < limit ? last_pow2(dim0 > 0 ? dim0 : 1) : limit, p1 = dim1 < limit ? last_pow2(dim1) : limit;

    width = p0 < 32 ? p0 : 32;
    height = p1 < limit / width ? p1 : limit / width;
    width = p0 < limit / height ? p0 : limit / height;
    if (along)
        step_in *= width;
    else
        step_out *= width;
    values = div_up(inputs, step_in);
    if (values >= (height * 16 < 256 ? height * 16 : 256)) {
        block_y = true;
        step_in *= height;
    } else {
        step_out *= height;
    }
    step_out *= vec; /* grid.x counts vectors of outputs */
    grid = div_up(outputs, step_out);
    target = (int64_t)r->device.multiprocessors * (r->device.threads_per_multiprocessor / (width * height));
    values = div_up(inputs, step_in);
    if (!block_y || values < 256 || grid > target)
        return;
    int64_t c1 = div_up(target, grid), c2 = div_up(values, 16), c3 = div_up(values, 256);

    ctas = c1 < c3 ? c3 : c1 > c2 ? c2 : c1;
    if (ctas <= 1)
        return;
    buffer = scratch_take(r, op, (uint64_t)(acc_bytes * outputs * ctas * (along ? 1 : width * vec)), MARK_NONE);
    semaphores = scratch_take(r, op, (uint64_t)(4 * grid), MARK_NONE);
    scratch_give(r, semaphores);
    scratch_give(r, buffer);
}

void reduce_scratch(struct run *r, enum op op, val v, unsigned dims, unsigned acc_bytes)
{
    struct axis ax[MAX_DIMS];
    int64_t outputs = 1;
    struct barren barren;
    uint32_t sums = 0;
    unsigned element;
    int n;

    if (run_dead(r) || !numel(r, v)) /* of nothing no kernel is launched */
        return;
    n = axes_of(&r->values[v], dims, ax);
    element = dtype_bytes(dtype_of(r, v));
    for (int i = 0; i < n; i++)
        outputs *= ax[i].out ? ax[i].size : 1;
    if (element == 2 && extent_of(ax, n, element) > INT32_MAX) /* Reduce.cuh AccumulationBuffer: parts of a half sum meet outside it */
        sums = scratch_take(r, op, (uint64_t)outputs * acc_bytes, MARK_NONE);
    memset(barren.seen, 0, sizeof barren.seen);
    reduce_part(r, op, ax, n, acc_bytes, element, &barren, 0);
    scratch_give(r, sums);
}

/* ------------------------------------------------------------------------------------------------------------- sums */
static val sum_raw(struct run *r, val a, unsigned dims, bool keepdim, enum op op)
{
    const struct value *x = &r->values[a];
    enum dtype dtype = dtype_is_float((enum dtype)x->dtype) ? autocast_dtype(r, op, a, DTYPE_COUNT) : DTYPE_INT64;
    int64_t size[MAX_DIMS];
    uint32_t cast = 0;
    int nd = 0;
    val out;

    if (run_dead(r))
        return 0;
    for (int i = 0; i < x->ndim; i++)
        if (!(dims >> i & 1))
            size[nd++] = x->size[i];
        else if (keepdim)
            size[nd++] = 1;
    out = value_empty(r, op, dtype, nd, size);
    if (out && dtype == DTYPE_INT64 && x->dtype != (uint8_t)dtype && op == OP_SUM) { /* ReduceOps.cpp: integers are converted first */
        cast = scratch_take(r, OP_TO_COPY, (uint64_t)numel(r, a) * dtype_bytes(dtype), MARK_NONE);
        launch_move(r, OP_TO_COPY, (uint64_t)numel(r, a) * (dtype_bytes((enum dtype)x->dtype) + dtype_bytes(dtype)), 1);
    }
    launch(r, op, out, 1, &a);
    reduce_scratch(r, op, a, dims, dtype_bytes(dtype) < 4 ? 4 : dtype_bytes(dtype));
    scratch_give(r, cast);
    return out;
}

val argmax(struct run *r, val a, int dim, bool keepdim)
{
    ASKED_VI(r, argmax, a, dim, keepdim);
    int64_t size[MAX_DIMS];
    int nd = 0;
    val out;

    if (run_dead(r))
        return 0;
    for (int i = 0; i < r->values[a].ndim; i++)
        if (i != dim)
            size[nd++] = r->values[a].size[i];
        else if (keepdim)
            size[nd++] = 1;
    out = value_empty(r, OP_ARGMAX, DTYPE_INT64, nd, size);
    launch(r, OP_ARGMAX, out, 1, &a);
    reduce_scratch(r, OP_ARGMAX, a, 1U << dim, 16);
    consume(r, a);
    return out;
}

/* ExpandUtils.h sum_to: sums with keepdim, then views the leading ones away. */
val sum_to(struct run *r, val v, val like)
{
    const struct value *x = &r->values[v], *y = &r->values[like];
    int lead = x->ndim - y->ndim;
    unsigned dims = 0;
    val out;

    for (int i = 0; i < x->ndim; i++)
        if (i < lead || (y->size[i - lead] == 1 && x->size[i] != 1))
            dims |= 1u << i;
    if (!dims)
        return v;
    if (!y->ndim) /* tensor.sum(): no view of it */
        return sum_raw(r, v, dims, false, OP_SUM);
    out = sum_raw(r, v, dims, true, OP_SUM);
    return lead && out ? view(r, out, y->ndim, y->size) : out;
}

int64_t cub_states_bytes(int64_t n, int64_t tile, unsigned element)
{
    return div_up(2 * element * (div_up(n, tile) + 32), 256) * 256;
}

int64_t cub_scan_bytes(const struct run *r, int64_t n, unsigned element)
{
    return cub_states_bytes(n, 7168 / element, element) + r->q->cub_scan_tail_bytes;
}

/* cuda/ScanKernels.cpp: a tensor that is one row is scanned by cub, which takes scratch. */
val cumsum_raw(struct run *r, val a, int dim, enum dtype dtype)
{
    val out = value_empty(r, OP_CUMSUM, dtype, r->values[a].ndim, r->values[a].size), cast = 0, copy = 0;

    launch(r, OP_CUMSUM, out, 1, &a);
    if (dtype_of(r, a) != dtype) /* self.toType(dtype) */
        cast = owned(r, value_empty(r, OP_TO_COPY, dtype, r->values[a].ndim, r->values[a].size));
    if (!r->values[a].contiguous) /* ScanUtils.cuh: self.expect_contiguous() */
        copy = owned(r, value_empty(r, OP_CLONE, dtype, r->values[a].ndim, r->values[a].size));
    if (numel(r, a) == size_of(r, a, dim))
        scratch(r, OP_CUMSUM, (uint64_t)cub_scan_bytes(r, numel(r, a), dtype_bytes(dtype)));
    value_unref(r, cast);
    value_unref(r, copy);
    return out;
}

val cumsum_as(struct run *r, val a, int dim, enum dtype dtype)
{
    ASKED_VI(r, cumsum_as, a, dim, dtype);
    uint32_t node;
    val out;

    if (run_dead(r))
        return 0;
    node = attach(r, OP_CUMSUM, 1, &a);
    if (node) {
        meta_of(r, node, 0, a);
        r->nodes[node].at.dim = dim;
    }
    out = cumsum_raw(r, a, dim, dtype);
    attach_output(r, node, out, 0);
    consume(r, a);
    return out;
}

val cumsum(struct run *r, val a, int dim)
{
    return cumsum_as(r, a, dim, DTYPE_INT64);
}

/* What the backward of a reduction has to know: which dimensions went, and whether they are still there as 1. */
static uint32_t reduction(struct run *r, enum op op, val a, unsigned dims, bool keepdim)
{
    uint32_t node = attach(r, op, 1, &a);

    if (node) {
        meta_of(r, node, 0, a);
        r->nodes[node].at.dim = keepdim ? 0 : (int32_t)dims;
    }
    return node;
}

static val reduced(struct run *r, enum op op, val a, unsigned dims, bool keepdim)
{
    uint32_t node = reduction(r, op, a, dims, keepdim);
    val out = run_dead(r) ? 0 : sum_raw(r, a, dims, keepdim, op);

    attach_output(r, node, out, 0);
    consume(r, a);
    return out;
}

val sum_dims(struct run *r, val a, unsigned dims, bool keepdim)
{
    ASKED_VI(r, sum_dims, a, dims, keepdim);
    return reduced(r, OP_SUM, a, dims, keepdim);
}

val sum_all(struct run *r, val a)
{
    return sum_dims(r, a, (1u << r->values[a].ndim) - 1, false);
}

val sum_dim(struct run *r, val a, int dim, bool keepdim)
{
    return sum_dims(r, a, 1u << (dim < 0 ? dim + r->values[a].ndim : dim), keepdim);
}

val mean_dims(struct run *r, val a, unsigned dims, bool keepdim)
{
    ASKED_VI(r, mean_dims, a, dims, keepdim);
    return reduced(r, OP_MEAN, a, dims, keepdim);
}

val mean_last(struct run *r, val a)
{
    return mean_dims(r, a, 1u << (r->values[a].ndim - 1), true);
}

/* ReduceOps.cpp logsumexp_out_impl: the greatest of each row, infinite ones made 0; exp of what is above it, summed */
val logsumexp(struct run *r, val a, int dim)
{
    ASKED_VI(r, logsumexp, a, dim);
    int64_t size[MAX_DIMS];
    int nd = 0;
    enum dtype dtype;
    uint32_t node, sizes;
    val maxes, above, out;

    a = autocast_arg(r, OP_LOGSUMEXP, a);
    node = attach(r, OP_LOGSUMEXP, 1, &a);

    if (run_dead(r))
        return 0;
    dtype = dtype_of(r, a);
    for (int i = 0; i < r->values[a].ndim; i++)
        if (i != dim)
            size[nd++] = r->values[a].size[i];
    if (node)
        r->nodes[node].at.dim = dim;
    save(r, node, a);
    maxes = owned(r, factory(r, OP_AMAX, dtype, nd, size));
    sizes = scratch_take(r, OP_ABS, (uint64_t)numel(r, maxes) * dtype_bytes(dtype), MARK_NONE);
    scratch(r, OP_EQ, (uint64_t)numel(r, maxes));
    scratch_give(r, sizes);
    above = owned(r, value_empty(r, OP_SUB, dtype, r->values[a].ndim, r->values[a].size));
    out = value_empty(r, OP_LOGSUMEXP, dtype, nd, size);
    launch(r, OP_LOGSUMEXP, out, 1, &a);
    value_unref(r, above);
    value_unref(r, maxes);
    save_result(r, node, out);
    attach_output(r, node, out, 0);
    consume(r, a);
    return out;
}

/* ------------------------------------------------------------------------------------------------------ softmax, loss */
/* SoftMax.cpp: fp16 input with dtype=fp32 is one kernel; bf16 is cast first. */
/* SoftMax.cu host_softmax: input_.contiguous(), once the output stands */
static void laid_out_beside(struct run *r, val x)
{
    if (!r->values[x].contiguous)
        scratch(r, OP_CLONE, (uint64_t)numel(r, x) * dtype_bytes(dtype_of(r, x)));
}

val softmax(struct run *r, val a, enum dtype dtype)
{
    ASKED_VI(r, softmax, a, dtype);
    struct pins p = {0};
    val x, out;
    uint32_t node;

    if (run_dead(r))
        return 0;
    pin(r, &p, a);
    x = a;
    dtype = autocast_dtype(r, OP_SOFTMAX, a, dtype);
    if (dtype != dtype_of(r, x) && !(dtype_of(r, x) == DTYPE_FP16 && dtype == DTYPE_FP32))
        x = to_dtype(r, x, dtype);
    node = attach(r, OP_SOFTMAX, 1, &x);
    if (node)
        r->nodes[node].at.dim = (int32_t)dtype_of(r, x);
    out = value_empty(r, OP_SOFTMAX, dtype, r->values[x].ndim, r->values[x].size);
    laid_out_beside(r, x);
    launch(r, OP_SOFTMAX, out, 1, &x);
    save_result(r, node, out);
    attach_output(r, node, out, 0);
    consume(r, x);
    unpin(r, &p);
    return out;
}

val log_softmax(struct run *r, val a, enum dtype dtype)
{
    ASKED_VI(r, log_softmax, a, dtype);
    struct pins p = {0};
    val x, out;
    uint32_t node;

    if (run_dead(r))
        return 0;
    pin(r, &p, a);
    x = a;
    dtype = autocast_dtype(r, OP_LOG_SOFTMAX, a, dtype);
    if (dtype != dtype_of(r, x) && !(dtype_of(r, x) == DTYPE_FP16 && dtype == DTYPE_FP32))
        x = to_dtype(r, x, dtype);
    node = attach(r, OP_LOG_SOFTMAX, 1, &x);
    out = value_empty(r, OP_LOG_SOFTMAX, dtype, r->values[x].ndim, r->values[x].size);
    laid_out_beside(r, x);
    launch(r, OP_LOG_SOFTMAX, out, 1, &x);
    save_result(r, node, out);
    attach_output(r, node, out, 0);
    consume(r, x);
    unpin(r, &p);
    return out;
}

val cross_entropy(struct run *r, val logits, val target)
{
    ASKED_VV(r, cross_entropy, logits, target);
    struct pins p = {0};
    val x, half, logp, out, total;
    uint32_t node;

    if (run_dead(r))
        return 0;
    pin(r, &p, logits);
    pin(r, &p, target);
    x = logits; /* cross_entropy_loss names the dtype, so autocast leaves log_softmax in half */
    node = attach(r, OP_LOG_SOFTMAX, 1, &x);
    logp = value_empty(r, OP_LOG_SOFTMAX, autocast_dtype(r, OP_LOG_SOFTMAX, x, dtype_of(r, x)), r->values[x].ndim, r->values[x].size);
    launch(r, OP_LOG_SOFTMAX, logp, 1, &x);
    save_result(r, node, logp);
    attach_output(r, node, logp, 0);
    consume(r, x);
    half = logp;
    pin(r, &p, half);
    logp = autocast_arg(r, OP_NLL_LOSS, half);
    node = attach(r, OP_NLL_LOSS, 1, &logp);
    save(r, node, logp);
    save(r, node, target);
    out = value_empty(r, OP_NLL_LOSS, dtype_of(r, logp), 0, NULL);
    total = value_empty(r, OP_NLL_LOSS, dtype_of(r, logp), 0, NULL);
    launch(r, OP_NLL_LOSS, out, 1, &target); /* one element of each row */
    save(r, node, total);
    attach_output(r, node, out, 0);
    consume(r, total);
    consume(r, logp);
    unpin(r, &p);
    return out;
}

/* ------------------------------------------------------------------------------------------------- padding, convolution */
/* PadNd.cpp constant_pad_nd(): a clone in its own layout where nothing is added, else in the memory format that it suggests */
val pad_raw(struct run *r, val a, const int64_t *size, bool grows)
{
    val out;

    if (run_dead(r))
        return 0;
    out = grows && !suggests_channels_last(r, a) ? value_empty(r, OP_CONSTANT_PAD, dtype_of(r, a), r->values[a].ndim, size)
                                                 : empty_in_order(r, grows ? OP_CONSTANT_PAD : OP_CLONE, a, size);
    launch(r, OP_CONSTANT_PAD, out, 1, &a);
    return out;
}

val pad_constant(struct run *r, val a, const int64_t *size, bool grows)
{
    if (r->calls) {
        int64_t asked[1 + MAX_DIMS] = {grows};

        memcpy(asked + 1, size, (size_t)r->values[a].ndim * sizeof *size);
        return calls_ask(r, CALLED_pad_constant, 1, &a, 1 + r->values[a].ndim, asked);
    }
    uint32_t node = attach(r, OP_CONSTANT_PAD, 1, &a);
    val out;

    meta_of(r, node, 0, a);
    out = pad_raw(r, a, size, grows);
    attach_output(r, node, out, 0);
    consume(r, a);
    return out;
}

/* Convolution.cpp _convolution: the kernel wants a contiguous input, the node keeps what was given. */
val conv1d_depthwise(struct run *r, val x, val weight, val bias, struct conv1d_how how)
{
    ASKED(r, conv1d_depthwise, 3, ((const val[]){x, weight, bias}), 3, ((const int64_t[]){how.padding, how.stride, how.dilation}));
    struct pins p = {0};
    val in[3], out, held;
    uint32_t node;
    int64_t size[3];

    if (run_dead(r))
        return 0;
    pin(r, &p, x);
    in[2] = autocast_arg(r, OP_CONV_DEPTHWISE, bias);
    in[1] = autocast_arg(r, OP_CONV_DEPTHWISE, weight);
    in[0] = autocast_arg(r, OP_CONV_DEPTHWISE, x);
    for (int k = 0; k < 3; k++)
        pin(r, &p, in[k]);
    node = attach(r, OP_CONV_DEPTHWISE, 3, in);
    save(r, node, in[0]);
    save(r, node, in[1]);
    held = contiguous(r, in[0]); /* itself, where it lies so */
    for (int d = 0; d < 3; d++)
        size[d] = size_of(r, in[0], d);
    size[1] = size_of(r, in[1], 0);
    size[2] = (size[2] + 2 * how.padding - how.dilation * (size_of(r, in[1], -1) - 1) - 1) / how.stride + 1;
    out = value_empty(r, OP_CONV_DEPTHWISE, dtype_of(r, in[0]), 3, size);
    launch(r, OP_CONV_DEPTHWISE, out, 3, in);
    attach_output(r, node, out, 0);
    consume(r, held);
    for (int k = 0; k < 3; k++)
        consume(r, in[k]);
    unpin(r, &p);
    return out;
}

/* ------------------------------------------------------------------------------------------------------------- norms */
val layer_norm(struct run *r, val a, val weight, val bias)
{
    ASKED_VVV(r, layer_norm, a, weight, bias);
    struct pins p = {0};
    val in[3], out, mean, rstd, copy = 0;
    int64_t rows;
    uint32_t node;

    if (run_dead(r))
        return 0;
    pin(r, &p, a);
    in[2] = autocast_arg(r, OP_LAYER_NORM, bias);
    in[1] = autocast_arg(r, OP_LAYER_NORM, weight);
    in[0] = autocast_arg(r, OP_LAYER_NORM, a);
    if (!same_dtype(r, 3, in))
        return 0;
    node = attach(r, OP_LAYER_NORM, 3, in);
    save(r, node, in[2]);
    save(r, node, in[0]);
    save(r, node, in[1]);
    rows = count_rows(r, in[0]);
    if (!r->values[in[0]].contiguous) /* input.expect_contiguous(); the node keeps what was given */
        copy = owned(r, value_empty(r, OP_CLONE, dtype_of(r, in[0]), r->values[in[0]].ndim, r->values[in[0]].size));
    out = value_empty(r, OP_LAYER_NORM, dtype_of(r, in[0]), r->values[in[0]].ndim, r->values[in[0]].size);
    /* layer_norm_kernel.cu: statistics in fp32 */
    mean = value_empty(r, OP_LAYER_NORM, DTYPE_FP32, 1, &rows);
    rstd = value_empty(r, OP_LAYER_NORM, DTYPE_FP32, 1, &rows);
    launch(r, OP_LAYER_NORM, out, 3, in);
    save(r, node, mean);
    save(r, node, rstd);
    value_unref(r, copy);
    attach_output(r, node, out, 0);
    consume(r, mean);
    consume(r, rstd);
    for (int k = 0; k < 3; k++)
        consume(r, in[k]);
    unpin(r, &p);
    return out;
}

/* layer_norm_kernel.cu, RMSNormKernelImpl: the kernel wants a contiguous input; the node keeps what was given. */
val rms_norm_op(struct run *r, val a, val weight)
{
    ASKED_VV(r, rms_norm_op, a, weight);
    struct pins p = {0};
    val in[2], x, out, rstd;
    uint32_t node;
    int64_t rows;

    if (run_dead(r))
        return 0;
    pin(r, &p, a);
    in[1] = weight;
    in[0] = a;
    if (r->q->rms_norm_autocast) {
        in[1] = weight ? autocast_arg(r, OP_RMS_NORM, weight) : 0;
        in[0] = autocast_arg(r, OP_RMS_NORM, a);
    }
    a = in[0];
    weight = in[1];
    node = attach(r, OP_RMS_NORM, weight ? 2 : 1, in);
    save(r, node, a);
    if (weight)
        save(r, node, weight);
    rows = count_rows(r, a);
    value_ref(r, a);
    x = contiguous(r, detach(r, a));
    out = value_empty(r, OP_RMS_NORM, dtype_of(r, a), r->values[a].ndim, r->values[a].size);
    rstd = value_empty(r, OP_RMS_NORM, DTYPE_FP32, 1, &rows);
    launch(r, OP_RMS_NORM, out, weight ? 2 : 1, in);
    consume(r, x);
    value_unref(r, a);
    save(r, node, rstd);
    attach_output(r, node, out, 0);
    consume(r, rstd);
    consume(r, a);
    consume(r, weight);
    unpin(r, &p);
    return out;
}

/* -------------------------------------------------------------------------------------------------------- embeddings */
/* Embedding.cpp: weight.index_select(0, ids.reshape(-1)).view(..); the node keeps ids as they were given */
static bool has_room(struct run *r, int nd)
{
    if (nd > MAX_DIMS)
        run_fail(r, ERR_LEAVES_LANGUAGE, "", "a tensor of more than 8 dimensions");
    return nd <= MAX_DIMS;
}

static bool may_look_up(struct run *r, val weight, val ids)
{
    if (r->values[weight].ndim != 2)
        return run_raise(r, "'weight' must be 2-D");
    return has_room(r, r->values[ids].ndim + 1);
}

val embedding_op(struct run *r, val weight, val ids, bool has_padding_idx)
{
    ASKED(r, embedding_op, 2, ((const val[]){weight, ids}), 1, ((const int64_t[]){has_padding_idx}));
    uint32_t node = attach(r, OP_INDEX_SELECT, 1, &weight);
    int64_t size[MAX_DIMS], all;
    int nd;
    val out, flat;

    if (run_dead(r) || !may_look_up(r, weight, ids))
        return 0;
    nd = r->values[ids].ndim;
    memcpy(size, r->values[ids].size, sizeof size);
    size[nd] = size_of(r, weight, 1);
    if (node) {
        r->nodes[node].at.i[0] = size_of(r, weight, 0);
        r->nodes[node].at.i[1] = numel(r, ids);
        r->nodes[node].at.dim = has_padding_idx;
    }
    save(r, node, ids);
    all = numel(r, ids);
    flat = owned(r, reshape(r, value_alias(r, ids), 1, &all));
    out = value_empty(r, OP_INDEX_SELECT, dtype_of(r, weight), nd + 1, size);
    launch(r, OP_INDEX_SELECT, out, 2, (val[]){out, ids}); /* as many rows read as written */
    value_unref(r, flat);
    attach_output(r, node, out, 0);
    consume(r, ids);
    return out;
}

val index_rows(struct run *r, val table, val ids)
{
    ASKED_VV(r, index_rows, table, ids);
    int64_t size[MAX_DIMS];
    int nd = r->values[ids].ndim;
    val out;

    if (run_dead(r) || !has_room(r, nd + r->values[table].ndim - 1))
        return 0;
    memcpy(size, r->values[ids].size, sizeof size);
    for (int i = 1; i < r->values[table].ndim; i++)
        size[nd + i - 1] = r->values[table].size[i];
    out = value_empty(r, OP_INDEX, dtype_of(r, table), nd + r->values[table].ndim - 1, size);
    launch(r, OP_INDEX, out, 2, (val[]){out, ids});
    consume(r, ids);
    consume(r, table);
    return out;
}

static val rows_like(struct run *r, enum op op, val x, int dim, int64_t rows)
{
    int64_t size[MAX_DIMS];

    if (run_dead(r))
        return 0;
    memcpy(size, r->values[x].size, sizeof size);
    size[dim] = rows;
    return value_empty(r, op, dtype_of(r, x), r->values[x].ndim, size);
}

val index_first(struct run *r, enum op op, val x, val indices)
{
    return index_along(r, op, x, 0, indices);
}

val index_along(struct run *r, enum op op, val x, int dim, val indices)
{
    ASKED(r, index_along, 2, ((const val[]){x, indices}), 2, ((const int64_t[]){op, dim}));
    uint32_t node = attach(r, op, 1, &x);
    val out;

    if (run_dead(r))
        return 0;
    if (node) {
        r->nodes[node].at.i[0] = size_of(r, x, dim);
        r->nodes[node].at.dim = dim;
    }
    save(r, node, indices);
    out = rows_like(r, op, x, dim, numel(r, indices));
    launch(r, op, out, 2, (val[]){out, indices});
    attach_output(r, node, out, 0);
    consume(r, indices);
    consume(r, x);
    return out;
}

val index_put_first(struct run *r, val x, val indices, int64_t rows)
{
    ASKED(r, index_put_first, 2, ((const val[]){x, indices}), 1, &rows);
    uint32_t node = attach(r, OP_INDEX_PUT_FIRST, 1, &x);
    val out;

    save(r, node, indices);
    out = rows_like(r, OP_INDEX_PUT_FIRST, x, 0, rows);
    launch(r, OP_INDEX_PUT_FIRST, out, 2, (val[]){x, indices});
    attach_output(r, node, out, 0);
    consume(r, indices);
    consume(r, x);
    return out;
}
