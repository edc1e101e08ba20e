/* ops.c - elementwise operators, factories, autocast, shapes. */
#include "torch/autograd.h"
#include "torch/calls.h"

#include <string.h>

/* --------------------------------------------------------------------------------------------------- TensorIterator */
/* TensorIterator.cpp reorder_dimensions: +1: the dimension `a` must move outwards of `b`. */
static int should_swap(const int64_t (*stride)[MAX_DIMS], int n, const int64_t *shape, int a, int b)
{
    for (int k = 0; k < n; k++) {
        int64_t sa = stride[k][a], sb = stride[k][b];

        if (sa == 0 || sb == 0)
            continue;
        if (sa < sb)
            return -1;
        if (sa > sb)
            return 1;
        if (shape[a] > shape[b])
            return 1;
    }
    return 0;
}

static void lay(struct value *out, const int *fastest_first)
{
    int64_t step = 1;
    int nd = out->ndim;

    out->contiguous = true;
    for (int i = 0; i < nd; i++) {
        out->stride[fastest_first[i]] = step;
        step *= out->size[fastest_first[i]];
    }
    step = 1;
    for (int i = nd; i-- > 0;) {
        if (out->size[i] != 1 && out->stride[i] != step)
            out->contiguous = false;
        step *= out->size[i];
    }
}

/* Channels next to each other, then the last dimension: of four or five. */
static void channels_last_order(int nd, int order[MAX_DIMS])
{
    order[0] = 1;
    for (int i = 1; i < nd - 1; i++)
        order[i] = nd - i;
    order[nd - 1] = 0;
}

/* TensorBase::suggest_memory_format(): c10/core/MemoryFormat.h is_channels_last_strides_2d_s4, 3d_s5 */
static bool looks_channels_last(const struct value *x)
{
    int order[MAX_DIMS];
    int64_t min = 0;

    if (x->ndim != 4 && x->ndim != 5)
        return false;
    channels_last_order(x->ndim, order);
    if (x->stride[1] == 0)
        return false;
    for (int i = 0; i < x->ndim; i++) {
        int d = order[i];

        if (!x->size[d] || x->stride[d] < min || (d == 0 && min == x->stride[1]))
            return false;
        min = x->stride[d] * (x->size[d] > 1 ? x->size[d] : 1);
    }
    return true;
}

static void lay_channels_last(struct value *out)
{
    int order[MAX_DIMS];

    channels_last_order(out->ndim, order);
    lay(out, order);
}

void make_channels_last(struct run *r, val v)
{
    if (v)
        lay_channels_last(&r->values[v]);
}

bool suggests_channels_last(const struct run *r, val v)
{
    return looks_channels_last(&r->values[v]);
}

static void iterator_strides(struct value *out, const int64_t (*stride)[MAX_DIMS], int n)
{
    int perm[MAX_DIMS], nd = out->ndim;

    for (int i = 0; i < nd; i++)
        perm[i] = nd - 1 - i;
    for (int i = 1; i < nd; i++) {
        int at = i;

        for (int j = i - 1; j >= 0; j--) {
            int c = should_swap(stride, n, out->size, perm[j], perm[at]);

            if (c > 0) {
                int t = perm[j];

                perm[j] = perm[at];
                perm[at] = t;
                at = j;
            } else if (c < 0) {
                break;
            }
        }
    }
    lay(out, perm);
}

val pointwise_empty(struct run *r, enum op op, enum dtype dtype, int n, const val *in)
{
    int64_t stride[3][MAX_DIMS], size[MAX_DIMS];
    const struct value *first;
    int nd = 0;
    bool plain = true;
    val out;

    if (run_dead(r))
        return 0;
    first = &r->values[in[0]];
    for (int k = 0; k < n; k++) {
        const struct value *x = &r->values[in[k]];

        plain = plain && x->contiguous && x->ndim == first->ndim &&
                (x == first || !memcmp(x->size, first->size, sizeof x->size[0] * x->ndim));
        if (x->ndim > nd)
            nd = x->ndim;
    }
    if (plain)
        return value_empty(r, op, dtype, nd, first->size);
    for (int i = 0; i < nd; i++)
        size[i] = 1;
    for (int k = 0; k < n; k++) {
        const struct value *x = &r->values[in[k]];

        for (int i = 0; i < x->ndim; i++) {
            int at = i + nd - x->ndim;

            if (x->size[i] != 1 && size[at] != 1 && size[at] != x->size[i]) {
                (void)run_raise(r, "The size of tensor a (%lld) must match the size of tensor b (%lld) at non-singleton dimension %d", (long long)size[at],
                                (long long)x->size[i], at); /* ExpandUtils.cpp infer_size() */
                return 0;
            }
            if (x->size[i] != 1)
                size[at] = x->size[i];
        }
    }
    for (int k = 0; k < n; k++) {
        const struct value *x = &r->values[in[k]];

        for (int i = 0; i < nd; i++) {
            int at = i - (nd - x->ndim);

            stride[k][i] = at < 0 || (x->size[at] == 1 && size[i] != 1) ? 0 : x->stride[at];
        }
    }
    out = value_new(r, dtype, nd, size);
    if (!out)
        return 0;
    iterator_strides(&r->values[out], (const int64_t(*)[MAX_DIMS])stride, n);
    value_birth(r, out, op, (uint64_t)numel(r, out) * dtype_bytes(dtype));
    return out;
}

val empty_in_order(struct run *r, enum op op, val a, const int64_t *size)
{
    val out = run_dead(r) ? 0 : value_new(r, dtype_of(r, a), r->values[a].ndim, size);

    if (!out)
        return 0;
    iterator_strides(&r->values[out], (const int64_t(*)[MAX_DIMS]) & r->values[a].stride, 1);
    value_birth(r, out, op, (uint64_t)numel(r, out) * dtype_bytes(dtype_of(r, a)));
    return out;
}

val pointwise(struct run *r, enum op op, enum dtype dtype, int n, const val *in)
{
    val out = pointwise_empty(r, op, dtype, n, in);

    launch(r, op, out, n, in);
    return out;
}

enum dtype promoted(const struct run *r, val a, val b)
{
    const struct value *x = &r->values[a], *y = &r->values[b];
    enum dtype p = (enum dtype)x->dtype, q = (enum dtype)y->dtype;

    if (dtype_is_float(p) == dtype_is_float(q) && (x->ndim == 0) != (y->ndim == 0))
        return x->ndim ? p : q; /* a 0-dim tensor of the same category does not promote */
    if ((p == DTYPE_FP16 && q == DTYPE_BF16) || (p == DTYPE_BF16 && q == DTYPE_FP16))
        return DTYPE_FP32;
    return p > q ? p : q;
}

static bool same_shape(const struct run *r, val a, val b)
{
    const struct value *x = &r->values[a], *y = &r->values[b];

    return x->ndim == y->ndim && !memcmp(x->size, y->size, sizeof x->size[0] * x->ndim);
}

val add_like(struct run *r, val a, val b)
{
    return pointwise(r, OP_ADD, promoted(r, a, b), 2, (val[]){a, b});
}

/* `to` keeps the layout of a dense tensor (MemoryFormat::Preserve). */
val cast_copy(struct run *r, val v, enum dtype dtype)
{
    return pointwise(r, OP_TO_COPY, dtype, 1, &v);
}

/* ---------------------------------------------------------------------------------------------------------- autocast */
void autocast_enter(struct run *r, enum dtype dtype)
{
    r->autocast_depth++;
    r->autocast = true;
    r->autocast_dtype = dtype;
}

void autocast_leave(struct run *r)
{
    if (--r->autocast_depth)
        return;
    r->autocast = false;
    for (uint32_t i = 0; i < r->n_casts; i++) {
        struct value *leaf = &r->values[r->casts[i]];
        val cast = leaf->cast;

        leaf->cast = 0;
        value_unref(r, cast);
    }
    r->n_casts = 0;
}

/* autocast_mode.cpp cached_cast: the half copy of an fp32 leaf that trains is made once; what to_local() gives under no_grad() is none. */
static val autocast_half(struct run *r, val v)
{
    struct value *x = &r->values[v];
    bool followed = r->grad_enabled, kept;
    val cast;

    if (!r->autocast || !v || !dtype_is_float((enum dtype)x->dtype) || x->dtype == r->autocast_dtype || x->dtype == DTYPE_FP64)
        return v;
    if (x->cast)
        return x->cast;
    kept = x->leaf && x->requires_grad && x->dtype == DTYPE_FP32 && !x->view && !r->casts_uncached && r->n_casts < r->max_casts && (followed || !x->shard);
    r->grad_enabled = followed || (kept && r->q->autocast_caches_followed);
    cast = to_dtype(r, v, r->autocast_dtype);
    r->grad_enabled = followed;
    x = &r->values[v];
    if (kept && cast) {
        x->cast = cast;
        value_ref(r, cast);
        r->casts[r->n_casts++] = v;
    }
    return cast;
}

static val autocast_full(struct run *r, val v)
{
    if (!r->autocast || !v || (dtype_of(r, v) != DTYPE_FP16 && dtype_of(r, v) != DTYPE_BF16))
        return v;
    return to_dtype(r, v, DTYPE_FP32);
}

val autocast_arg(struct run *r, enum op op, val v)
{
    if (!r->autocast)
        return v;
    switch (op_rows[op].autocast) {
    case AUTOCAST_HALF:
        return autocast_half(r, v);
    case AUTOCAST_FULL:
        return autocast_full(r, v);
    default:
        return v;
    }
}

enum dtype autocast_dtype(const struct run *r, enum op op, val v, enum dtype asked)
{
    enum dtype t = dtype_of(r, v);

    if (asked != DTYPE_COUNT)
        return asked;
    return r->autocast && op_rows[op].autocast == AUTOCAST_DTYPE && dtype_is_float(t) ? DTYPE_FP32 : t;
}

/* ------------------------------------------------------------------------------------------------------- elementwise */
static void metas(struct run *r, uint32_t node, int n, const val *in, val out)
{
    if (!node || !out)
        return;
    for (int k = 0; k < n; k++)
        if (in[k] && (!same_shape(r, in[k], out) || dtype_of(r, in[k]) != dtype_of(r, out)))
            meta_of(r, node, k, in[k]);
}

static val binary(struct run *r, enum op op, val a, val b)
{
    val in[2] = {a, b}, out;
    uint32_t node = attach(r, op, 2, in);

    if (op_rows[op].saves == SAVES_CROSS) {
        if (wants_grad(r, a))
            save(r, node, b);
        if (wants_grad(r, b))
            save(r, node, a);
    } else if (op == OP_DIV) {
        save(r, node, b);
        if (wants_grad(r, b))
            save(r, node, a);
    }
    out = pointwise(r, op, promoted(r, a, b), 2, in);
    if (op == OP_DIV && out && !dtype_is_float(dtype_of(r, out)))
        run_fail(r, ERR_LEAVES_LANGUAGE, "", "division of integers");
    metas(r, node, 2, in, out);
    attach_output(r, node, out, 0);
    consume(r, a);
    consume(r, b);
    return out;
}

/* One tensor, whatever else the operator takes is a number. */
static val unary(struct run *r, enum op op, val a, enum dtype dtype, double p)
{
    uint32_t node = attach(r, op, 1, &a);
    val out;

    if (node)
        r->nodes[node].at.p = p;
    if (op_rows[op].saves == SAVES_IN0)
        save(r, node, a);
    out = pointwise(r, op, dtype, 1, &a);
    if (op_rows[op].saves == SAVES_RESULT)
        save_result(r, node, out);
    attach_output(r, node, out, 0);
    consume(r, a);
    return out;
}

static val unary_same(struct run *r, enum op op, val a)
{
    return unary(r, op, a, dtype_of(r, a), 0);
}

/* An integer tensor and a Python float make a tensor of the default dtype. */
static val with_scalar(struct run *r, enum op op, val a)
{
    return unary(r, op, a, dtype_is_float(dtype_of(r, a)) || op != OP_DIV ? dtype_of(r, a) : DTYPE_FP32, 0);
}

val add(struct run *r, val a, val b)
{
    ASKED_VV(r, add, a, b);
    return binary(r, OP_ADD, a, b);
}

val sub(struct run *r, val a, val b)
{
    ASKED_VV(r, sub, a, b);
    return binary(r, OP_SUB, a, b);
}

val mul(struct run *r, val a, val b)
{
    ASKED_VV(r, mul, a, b);
    return binary(r, OP_MUL, a, b);
}

val divide(struct run *r, val a, val b)
{
    ASKED_VV(r, divide, a, b);
    if (!dtype_is_float(dtype_of(r, a)) && !dtype_is_float(dtype_of(r, b))) {
        val out = pointwise(r, OP_DIV, DTYPE_FP32, 2, (val[]){a, b});

        consume(r, a);
        consume(r, b);
        return out;
    }
    return binary(r, OP_DIV, a, b);
}

val add_scalar(struct run *r, val a)
{
    ASKED_V(r, add_scalar, a);
    return with_scalar(r, OP_ADD, a);
}

val sub_scalar(struct run *r, val a)
{
    ASKED_V(r, sub_scalar, a);
    return with_scalar(r, OP_SUB, a);
}

val rsub_scalar(struct run *r, val a)
{
    ASKED_V(r, rsub_scalar, a);
    return with_scalar(r, OP_RSUB, a);
}

val mul_scalar(struct run *r, val a)
{
    ASKED_V(r, mul_scalar, a);
    return with_scalar(r, OP_MUL, a);
}

val div_scalar(struct run *r, val a)
{
    ASKED_V(r, div_scalar, a);
    return with_scalar(r, OP_DIV, a);
}

val neg(struct run *r, val a)
{
    ASKED_V(r, neg, a);
    return unary_same(r, OP_NEG, a);
}

val pow_scalar(struct run *r, val a, double exponent)
{
    ASKED_VI(r, pow_scalar, a, calls_bits(exponent));
    val x = autocast_arg(r, OP_POW, a);
    val out = unary(r, OP_POW, x, dtype_of(r, x), exponent);

    if (x != a)
        consume(r, a);
    return out;
}

val rsqrt(struct run *r, val a)
{
    ASKED_V(r, rsqrt, a);
    val x = autocast_arg(r, OP_RSQRT, a);
    val out = unary_same(r, OP_RSQRT, x);

    if (x != a)
        consume(r, a);
    return out;
}

val tanh_op(struct run *r, val a)
{
    ASKED_V(r, tanh_op, a);
    return unary_same(r, OP_TANH, a);
}

val unary_op(struct run *r, enum op op, val a)
{
    ASKED_VI(r, unary_op, a, op);
    val x = autocast_arg(r, op, a);
    val out = unary_same(r, op, x);

    if (x != a)
        consume(r, a);
    return out;
}

val cos_op(struct run *r, val a)
{
    ASKED_V(r, cos_op, a);
    return unary_same(r, OP_COS, a);
}

val sin_op(struct run *r, val a)
{
    ASKED_V(r, sin_op, a);
    return unary_same(r, OP_SIN, a);
}

val silu(struct run *r, val a)
{
    ASKED_V(r, silu, a);
    return unary_same(r, OP_SILU, a);
}

val gelu(struct run *r, val a)
{
    ASKED_V(r, gelu, a);
    return unary_same(r, OP_GELU, a);
}

val relu(struct run *r, val a)
{
    ASKED_V(r, relu, a);
    return unary_same(r, OP_RELU, a);
}

/* x * 0.5 * (1.0 + torch.tanh(0.79788456 * x * (1 + 0.044715 * x * x))) without a graph; x is saved when it has run. */
val gelu_function(struct run *r, val x)
{
    struct frame f = frame_enter(r);
    bool grad_enabled = r->grad_enabled;
    uint32_t node = attach(r, OP_GELU_FUNCTION, 1, &x);
    val half, inner, squared;

    (void)local(r, x);
    r->grad_enabled = false;
    half = mul_scalar(r, x);
    inner = mul_scalar(r, x);
    squared = add_scalar(r, mul(r, mul_scalar(r, x), x));
    inner = add_scalar(r, tanh_op(r, mul(r, inner, squared)));
    half = local(r, mul(r, half, inner));
    r->grad_enabled = grad_enabled;
    save(r, node, x);
    attach_output(r, node, half, 0);
    return frame_leave(r, f, half);
}

/* Whole numbers and truths have no gradient: autograd/functions/utils.h isDifferentiableType. */
val to_dtype(struct run *r, val a, enum dtype dtype)
{
    ASKED_VI(r, to_dtype, a, dtype);
    uint32_t node;
    val out;

    if (run_dead(r) || dtype_of(r, a) == dtype)
        return a;
    node = dtype_is_float(dtype) ? attach(r, OP_TO_COPY, 1, &a) : 0;
    if (node)
        r->nodes[node].at.dim = (int32_t)dtype_of(r, a);
    out = cast_copy(r, a, dtype);
    attach_output(r, node, out, 0);
    consume(r, a);
    return out;
}

/* TensorConversions.cpp _to_copy */
val to_dtype_contiguous(struct run *r, val a, enum dtype dtype)
{
    ASKED_VI(r, to_dtype_contiguous, a, dtype);
    uint32_t node;
    val out;

    if (run_dead(r) || dtype_of(r, a) == dtype)
        return a;
    node = dtype_is_float(dtype) ? attach(r, OP_TO_COPY, 1, &a) : 0;
    if (node)
        r->nodes[node].at.dim = (int32_t)dtype_of(r, a);
    out = value_empty(r, OP_TO_COPY, dtype, r->values[a].ndim, r->values[a].size);
    launch(r, OP_TO_COPY, out, 1, &a);
    attach_output(r, node, out, 0);
    consume(r, a);
    return out;
}

val clone(struct run *r, val a)
{
    ASKED_V(r, clone, a);
    return unary_same(r, OP_CLONE, a);
}

val contiguous(struct run *r, val a)
{
    ASKED_V(r, contiguous, a);
    uint32_t node;
    val out;

    if (run_dead(r) || r->values[a].contiguous)
        return a;
    node = attach(r, OP_CLONE, 1, &a);
    out = value_empty(r, OP_CLONE, dtype_of(r, a), r->values[a].ndim, r->values[a].size);
    launch(r, OP_CLONE, out, 1, &a);
    attach_output(r, node, out, 0);
    consume(r, a);
    return out;
}

/* derivatives.yaml saves both, other first */
val extreme_of_two(struct run *r, enum op op, val a, val b)
{
    ASKED(r, extreme_of_two, 2, ((const val[]){a, b}), 1, (&(const int64_t){op}));
    val in[2] = {a, b}, out;
    uint32_t node = attach(r, op, 2, in);

    save(r, node, b);
    save(r, node, a);
    out = pointwise(r, op, promoted(r, a, b), 2, in);
    metas(r, node, 2, in, out);
    attach_output(r, node, out, 0);
    consume(r, a);
    consume(r, b);
    return out;
}

/* TensorAdvancedIndexing.cpp masked_fill: expand_outplace(), clone(MemoryFormat::Contiguous), filled in place */
val masked_clone(struct run *r, val a, val mask)
{
    val out = pointwise_empty(r, OP_CLONE, dtype_of(r, a), 2, (val[]){a, mask});

    if (out)
        value_strides(&r->values[out]);
    launch(r, OP_CLONE, out, 1, &a);
    launch(r, OP_MASKED_FILL, out, 2, (val[]){out, mask});
    return out;
}

val masked_fill(struct run *r, val a, val mask)
{
    ASKED_VV(r, masked_fill, a, mask);
    uint32_t node = attach(r, OP_MASKED_FILL, 1, &a);
    val out;

    save(r, node, mask);
    out = masked_clone(r, a, mask);
    metas(r, node, 1, &a, out);
    attach_output(r, node, out, 0);
    consume(r, a);
    consume(r, mask);
    return out;
}

/* TensorCompare.cpp where_self_out: what is of another dtype than the result is cast by a copy of the kernel's own. */
val where(struct run *r, val condition, val a, val b)
{
    ASKED_VVV(r, where, condition, a, b);
    val in[2] = {a, b}, cast[2] = {a, b}, out;
    uint32_t node = attach(r, OP_WHERE, 2, in);
    enum dtype dtype = promoted(r, a, b);

    save(r, node, condition);
    for (int i = 0; i < 2; i++)
        if (dtype_of(r, in[i]) != dtype)
            cast[i] = owned(r, cast_copy(r, in[i], dtype));
    out = pointwise(r, OP_WHERE, dtype, 3, (val[]){condition, cast[0], cast[1]});
    for (int i = 0; i < 2; i++)
        if (cast[i] != in[i])
            value_unref(r, cast[i]);
    metas(r, node, 2, in, out);
    attach_output(r, node, out, 0);
    consume(r, condition);
    consume(r, a);
    consume(r, b);
    return out;
}

val pointwise_op(struct run *r, enum op op, enum dtype dtype, val a, val b)
{
    ASKED(r, pointwise_op, 2, ((const val[]){a, b}), 2, ((const int64_t[]){op, dtype}));
    val out = pointwise(r, op, dtype, b ? 2 : 1, (val[]){a, b});

    consume(r, a);
    consume(r, b);
    return out;
}

val compare(struct run *r, enum op op, val a, val b)
{
    ASKED(r, compare, 2, ((const val[]){a, b}), 1, ((const int64_t[]){op}));
    return pointwise_op(r, op, DTYPE_BOOL, a, b);
}

val clamp_op(struct run *r, val a, bool min, bool max)
{
    ASKED_VI(r, clamp_op, a, min, max);
    uint32_t node = attach(r, OP_CLAMP, 1, &a);
    val out;

    if (node)
        r->nodes[node].at.dim = min + 2 * max;
    save(r, node, a);
    out = pointwise(r, OP_CLAMP, dtype_of(r, a), 1, &a);
    attach_output(r, node, out, 0);
    consume(r, a);
    return out;
}

/* cuda/Dropout.cu: the mask is a bool of its own, born before the result. */
val dropout(struct run *r, val a, double p)
{
    ASKED_VI(r, dropout, a, calls_bits(p));
    uint32_t node;
    val out, mask;

    if (p <= 0)
        return a;
    node = attach(r, OP_DROPOUT, 1, &a);
    mask = pointwise_empty(r, OP_DROPOUT, DTYPE_BOOL, 1, &a);
    out = pointwise_empty(r, OP_DROPOUT, dtype_of(r, a), 1, &a);
    launch(r, OP_DROPOUT, out, 2, (val[]){a, mask});
    save(r, node, mask);
    attach_output(r, node, out, 0);
    consume(r, mask);
    consume(r, a);
    return out;
}

/* --------------------------------------------------------------------------------------------------------- factories */
val empty(struct run *r, enum dtype dtype, int ndim, const int64_t *size)
{
    return value_empty(r, OP_EMPTY, dtype, ndim, size);
}

val no_elements(struct run *r, enum dtype dtype)
{
    ASKED(r, no_elements, 0, NULL, 1, (&(const int64_t){dtype}));
    return value_new(r, dtype, 1, &(const int64_t){0});
}

val factory(struct run *r, enum op op, enum dtype dtype, int ndim, const int64_t *size)
{
    if (r->calls) {
        int64_t asked[2 + MAX_DIMS] = {op, dtype};

        for (int i = 0; i < ndim; i++)
            asked[2 + i] = size[i];
        return calls_ask(r, CALLED_factory, 0, NULL, 2 + ndim, asked);
    }
    val out = value_empty(r, op, dtype, ndim, size);

    launch(r, op, out, 0, NULL);
    return out;
}

/* memory_format=torch.preserve_format */
val factory_like(struct run *r, enum op op, enum dtype dtype, val like)
{
    ASKED_VI(r, factory_like, like, op, dtype);
    val out = pointwise_empty(r, op, dtype, 1, &like);

    launch(r, op, out, 0, NULL);
    return out;
}

/* ------------------------------------------------------------------------------------------------------------ shapes */
static bool is_contiguous(const struct value *x)
{
    int64_t step = 1;

    for (int i = x->ndim; i-- > 0;) {
        if (x->size[i] != 1 && x->stride[i] != step)
            return false;
        step *= x->size[i];
    }
    return true;
}

/* A tensor on a's storage. Autograd's views hold their base, so such a gradient is never added to in place. */
static val alias_view(struct run *r, val a)
{
    val v = value_alias(r, a);

    if (v) {
        r->values[v].view = true;
        if (r->views_known)
            view_is_of(r, v, a);
    }
    return v;
}

/* The node of a view remembers the sizes it had before and which dimension it changed. */
static val finish_view(struct run *r, enum op op, val a, val out, int dim)
{
    uint32_t node = attach(r, op, 1, &a);
    struct value *x = &r->values[a], *y = &r->values[out];

    host_call(r);
    if (node) {
        struct node *n = &r->nodes[node];

        n->at.dim = dim;
        n->at.dim2 = x->ndim;
        memcpy(n->at.i, x->size, sizeof n->at.i);
    }
    if (out)
        y->contiguous = is_contiguous(y);
    attach_output(r, node, out, 0);
    consume(r, a);
    return out;
}

val mul_scalar_in_place(struct run *r, val a)
{
    return finish_view(r, OP_MUL, a, value_alias(r, a), 0);
}

static int64_t count(int ndim, const int64_t *size)
{
    int64_t n = 1;

    for (int i = 0; i < ndim; i++)
        n *= size[i];
    return n;
}

/* at::detail::computeStride: can `size` be had without a copy? */
static bool compute_stride(const struct value *x, int ndim, const int64_t *size, int64_t *stride)
{
    int view_d = ndim - 1;
    int64_t chunk_base, tensor_numel = 1, view_numel = 1;

    if (!x->ndim) {
        for (int i = 0; i < ndim; i++)
            stride[i] = 1;
        return true;
    }
    if (!count(x->ndim, x->size)) { /* nothing in it: any shape of nothing will do */
        for (int64_t i = ndim, step = 1; i-- > 0;) {
            stride[i] = step;
            step *= size[i] > 1 ? size[i] : 1;
        }
        return true;
    }
    chunk_base = x->stride[x->ndim - 1];
    if (x->contiguous && chunk_base == 1 && count(x->ndim, x->size) == count(ndim, size)) { /* one chunk */
        for (; view_d >= 0; view_d--) {
            stride[view_d] = view_numel;
            view_numel *= size[view_d];
        }
        return true;
    }
    for (int d = x->ndim - 1; d >= 0; d--) {
        tensor_numel *= x->size[d];
        if (d == 0 || (x->size[d - 1] != 1 && x->stride[d - 1] != tensor_numel * chunk_base)) {
            while (view_d >= 0 && (view_numel < tensor_numel || size[view_d] == 1)) {
                stride[view_d] = view_numel * chunk_base;
                view_numel *= size[view_d];
                view_d--;
            }
            if (view_numel != tensor_numel)
                return false;
            if (d > 0) {
                chunk_base = x->stride[d - 1];
                tensor_numel = view_numel = 1;
            }
        }
    }
    return view_d == -1;
}

/* InferSize.h infer_size_impl(): one of them may be -1, and all elements find a place */
static bool fill_minus_one(struct run *r, val a, int ndim, const int64_t *size, int64_t *ret)
{
    int64_t known = 1, n = numel(r, a);
    int at = -1;

    for (int i = 0; i < ndim; i++) {
        ret[i] = size[i];
        if (size[i] != -1)
            known *= size[i];
        else if (at >= 0)
            return run_raise(r, "only one dimension can be inferred");
        else
            at = i;
    }
    if (at >= 0 && !known)
        return run_raise(r, "cannot reshape tensor of 0 elements into shape because the unspecified dimension size -1 can be any value and is ambiguous");
    if (at >= 0)
        ret[at] = n / known;
    return n == (at >= 0 ? ret[at] * known : known) || run_raise(r, "shape is invalid for input of size %lld", (long long)n);
}

static val view_at(struct run *r, enum op op, val a, int ndim, const int64_t *size, const int64_t *stride, bool tracked)
{
    struct value *y;
    val out = tracked ? alias_view(r, a) : value_alias(r, a);

    if (!out)
        return 0;
    y = &r->values[out];
    y->ndim = (uint8_t)ndim;
    for (int i = 0; i < ndim; i++) {
        y->size[i] = size[i];
        y->stride[i] = stride[i];
    }
    return finish_view(r, op, a, out, 0);
}

static val viewed(struct run *r, enum op op, val a, int ndim, const int64_t *asked, bool tracked)
{
    int64_t size[MAX_DIMS], stride[MAX_DIMS] = {0};

    if (run_dead(r) || !a)
        return a;
    if (!fill_minus_one(r, a, ndim, asked, size))
        return a;
    if (!compute_stride(&r->values[a], ndim, size, stride)) {
        (void)run_raise(r, "view size is not compatible with input tensor's size and stride");
        return a;
    }
    return view_at(r, op, a, ndim, size, stride, tracked);
}

val view(struct run *r, val a, int ndim, const int64_t *size)
{
    ASKED(r, view, 1, &a, ndim, size);
    return viewed(r, OP_VIEW, a, ndim, size, true);
}

val unsafe_view(struct run *r, val a, int ndim, const int64_t *size)
{
    return viewed(r, OP_UNSAFE_VIEW, a, ndim, size, false);
}

val reshape(struct run *r, val a, int ndim, const int64_t *asked)
{
    ASKED(r, reshape, 1, &a, ndim, asked);
    int64_t size[MAX_DIMS], stride[MAX_DIMS];

    if (run_dead(r) || !a)
        return a;
    if (!fill_minus_one(r, a, ndim, asked, size))
        return a;
    if (compute_stride(&r->values[a], ndim, size, stride))
        return view_at(r, r->values[a].contiguous ? OP_VIEW : OP_RESHAPE_ALIAS, a, ndim, size, stride, true); /* TensorShape.cpp reshape_symint */
    return unsafe_view(r, contiguous(r, a), ndim, size);
}

val view_as(struct run *r, val v, int ndim, const int64_t *size)
{
    value_ref(r, v); /* formulas keep their arguments */
    r->values[v].floating = false;
    val out = reshape(r, v, ndim, size);

    r->values[v].refs--;
    return out;
}

val transpose(struct run *r, val a, int d0, int d1)
{
    ASKED_VI(r, transpose, a, d0, d1);
    val out = run_dead(r) ? 0 : alias_view(r, a);
    struct value *y = &r->values[out];
    int64_t s;

    if (!out)
        return 0;
    d0 += d0 < 0 ? y->ndim : 0;
    d1 += d1 < 0 ? y->ndim : 0;
    s = y->size[d0];
    y->size[d0] = y->size[d1];
    y->size[d1] = s;
    s = y->stride[d0];
    y->stride[d0] = y->stride[d1];
    y->stride[d1] = s;
    return finish_view(r, OP_TRANSPOSE, a, out, d0 * MAX_DIMS + d1);
}

val t_op(struct run *r, val a)
{
    ASKED_V(r, t_op, a);
    struct value *x, *y;
    val out;

    if (!run_dead(r) && r->values[a].ndim > 2)
        (void)run_raise(r, "t() expects a tensor with <= 2 dimensions, but self is %dD", r->values[a].ndim);
    out = run_dead(r) ? 0 : alias_view(r, a);
    if (!out)
        return 0;
    x = &r->values[a];
    y = &r->values[out];
    for (int i = 0; i < 2 && x->ndim == 2; i++) {
        y->size[i] = x->size[1 - i];
        y->stride[i] = x->stride[1 - i];
    }
    return finish_view(r, OP_T, a, out, x->ndim == 2);
}

val transposed(struct run *r, val v, int d0, int d1)
{
    bool floating = r->values[v].floating;
    val out;

    r->values[v].floating = false;
    out = transpose(r, v, d0, d1);
    r->values[v].floating = floating;
    return out;
}

val permute(struct run *r, val a, int ndim, const int *order)
{
    if (r->calls) {
        int64_t places[MAX_DIMS];

        for (int i = 0; i < ndim; i++)
            places[i] = order[i];
        return calls_ask(r, CALLED_permute, 1, &a, ndim, places);
    }
    val out = run_dead(r) ? 0 : alias_view(r, a);
    struct value *x = &r->values[a], *y = &r->values[out];
    int packed = 0;

    if (!out)
        return 0;
    for (int i = 0; i < ndim; i++) {
        y->size[i] = x->size[order[i]];
        y->stride[i] = x->stride[order[i]];
        packed |= order[i] << (3 * i);
    }
    return finish_view(r, OP_PERMUTE, a, out, packed);
}

/* ComplexHelper.h: pairs in the last dimension, and back */
static void pair_up(struct value *y)
{
    y->ndim--;
    for (int i = 0; i < y->ndim; i++)
        y->stride[i] /= 2;
    y->dtype = DTYPE_COMPLEX64;
}

static void take_apart(struct value *y)
{
    for (int i = 0; i < y->ndim; i++)
        y->stride[i] *= 2;
    y->size[y->ndim] = 2;
    y->stride[y->ndim++] = 1;
    y->dtype = DTYPE_FP32;
}

val view_as_complex(struct run *r, val a)
{
    ASKED_V(r, view_as_complex, a);
    val out = run_dead(r) ? 0 : alias_view(r, a);

    if (!out)
        return 0;
    pair_up(&r->values[out]);
    return finish_view(r, OP_VIEW_AS_COMPLEX, a, out, 0);
}

val view_as_real(struct run *r, val a)
{
    ASKED_V(r, view_as_real, a);
    val out = run_dead(r) ? 0 : alias_view(r, a);

    if (!out)
        return 0;
    take_apart(&r->values[out]);
    return finish_view(r, OP_VIEW_AS_REAL, a, out, 0);
}

val unsqueeze(struct run *r, val a, int dim)
{
    ASKED_VI(r, unsqueeze, a, dim);
    val out = run_dead(r) ? 0 : alias_view(r, a);
    struct value *y = &r->values[out];

    if (!out)
        return 0;
    dim += dim < 0 ? y->ndim + 1 : 0;
    for (int i = y->ndim; i > dim; i--) {
        y->size[i] = y->size[i - 1];
        y->stride[i] = y->stride[i - 1];
    }
    y->stride[dim] = dim < y->ndim ? y->size[dim + 1] * y->stride[dim + 1] : 1;
    y->size[dim] = 1;
    y->ndim++;
    return finish_view(r, OP_UNSQUEEZE, a, out, dim);
}

val squeeze(struct run *r, val a, int dim)
{
    ASKED_VI(r, squeeze, a, dim);
    val out = run_dead(r) ? 0 : alias_view(r, a);
    struct value *y = &r->values[out];

    if (!out)
        return 0;
    dim += dim < 0 ? y->ndim : 0;
    if (dim < y->ndim && y->size[dim] == 1) {
        for (int i = dim; i + 1 < y->ndim; i++) {
            y->size[i] = y->size[i + 1];
            y->stride[i] = y->stride[i + 1];
        }
        y->ndim--;
    }
    return finish_view(r, OP_SQUEEZE, a, out, dim);
}

/* TensorShape.cpp expand(), ExpandUtils.cpp inferExpandGeometryImpl() */
static bool may_expand(struct run *r, const struct value *x, int ndim, const int64_t *size)
{
    int64_t all[MAX_DIMS];
    char text[192];

    if (ndim < x->ndim)
        return run_raise(r, "expand(): the number of sizes provided (%d) must be greater or equal to the number of dimensions in the tensor (%d)", ndim,
                         x->ndim);
    for (int i = 0; i < ndim; i++) {
        int at = i - (ndim - x->ndim);

        all[i] = at >= 0 && size[i] == -1 ? x->size[at] : size[i];
        if (all[i] < 0)
            return run_raise(r, "The expanded size of the tensor (%lld) isn't allowed in a leading, non-existing dimension %d", (long long)size[i], i);
        if (at >= 0 && x->size[at] != 1 && x->size[at] != all[i])
            return run_raise(r, "The expanded size of the tensor (%lld) must match the existing size (%lld) at non-singleton dimension %d.", (long long)size[i],
                             (long long)x->size[at], i);
    }
    if (sizes_countable(ndim, all))
        return true;
    sizes_too_large(ndim, all, text, sizeof text);
    run_fail(r, ERR_TENSOR_SIZE, "", text);
    return false;
}

val expand(struct run *r, val a, int ndim, const int64_t *size)
{
    ASKED(r, expand, 1, &a, ndim, size);
    val out = run_dead(r) || !may_expand(r, &r->values[a], ndim, size) ? 0 : alias_view(r, a);
    struct value *x = &r->values[a], *y = &r->values[out];

    if (!out)
        return 0;
    y->ndim = (uint8_t)ndim;
    for (int i = 0; i < ndim; i++) {
        int at = i - (ndim - x->ndim);
        bool wide = size[i] != -1 && (at < 0 || x->size[at] != size[i]);

        y->size[i] = size[i] == -1 ? x->size[at] : size[i];
        y->stride[i] = wide ? 0 : x->stride[at];
    }
    return finish_view(r, OP_EXPAND, a, out, 0);
}

val as_strided(struct run *r, val a, int ndim, const int64_t *size, const int64_t *stride)
{
    if (r->calls) {
        int64_t asked[2 * MAX_DIMS];

        memcpy(asked, size, (size_t)ndim * sizeof *size);
        memcpy(asked + ndim, stride, (size_t)ndim * sizeof *stride);
        return calls_ask(r, CALLED_as_strided, 1, &a, 2 * ndim, asked);
    }
    val out = run_dead(r) ? 0 : alias_view(r, a);
    struct value *y = &r->values[out];

    if (!out)
        return 0;
    y->ndim = (uint8_t)ndim;
    memcpy(y->size, size, (size_t)ndim * sizeof *size);
    memcpy(y->stride, stride, (size_t)ndim * sizeof *stride);
    y->contiguous = is_contiguous(y);
    consume(r, a);
    return out;
}

val slice_step(struct run *r, val a, int dim, int64_t start, int64_t end, int64_t step)
{
    ASKED_VI(r, slice_step, a, dim, start, end, step);
    val out = run_dead(r) ? 0 : alias_view(r, a);
    struct value *y = &r->values[out];

    if (!out)
        return 0;
    dim += dim < 0 ? y->ndim : 0;
    if (start < 0)
        start += y->size[dim];
    if (end < 0)
        end += y->size[dim];
    if (end > y->size[dim])
        end = y->size[dim];
    y->size[dim] = end > start ? (end - start + step - 1) / step : 0;
    y->offset += start * y->stride[dim];
    y->stride[dim] *= step;
    return finish_view(r, OP_SLICE, a, out, dim);
}

val slice(struct run *r, val a, int dim, int64_t start, int64_t end)
{
    return slice_step(r, a, dim, start, end, 1);
}

/* python_variable_indexing.cpp: a slice that cuts nothing is the tensor itself, which indexing returns as an alias. */
val index_slice(struct run *r, val a, int dim, int64_t start, int64_t end, int64_t step)
{
    ASKED_VI(r, index_slice, a, dim, start, end, step);
    if (run_dead(r) || start || end != size_of(r, a, dim) || step != 1)
        return slice_step(r, a, dim, start, end, step);
    return finish_view(r, OP_ALIAS, a, alias_view(r, a), 0);
}

val select_op(struct run *r, val a, int dim, int64_t at_index)
{
    ASKED_VI(r, select_op, a, dim, at_index);
    val out = run_dead(r) ? 0 : alias_view(r, a);
    struct value *x = &r->values[a], *y = &r->values[out];

    if (!out)
        return 0;
    dim += dim < 0 ? x->ndim : 0;
    y->offset += (at_index < 0 ? at_index + x->size[dim] : at_index) * x->stride[dim];
    for (int i = dim; i + 1 < x->ndim; i++) {
        y->size[i] = x->size[i + 1];
        y->stride[i] = x->stride[i + 1];
    }
    y->ndim--;
    return finish_view(r, OP_SELECT, a, out, dim);
}

/* What the backward of a split knows of its parts (no sizes: 1 each): a node has room for a few. */
static void tell_parts(struct run *r, uint32_t node, int n, const int64_t *sizes)
{
    struct wide *w = n > MAX_OUTPUTS ? widen(r, node, (uint32_t)n) : NULL;

    if (run_dead(r))
        return;
    for (int k = 0; k < n; k++)
        *(w ? &w->length[k] : &r->nodes[node].at.i[k]) = sizes ? sizes[k] : 1;
    r->nodes[node].n_outputs = (uint16_t)n;
}

static void split_as(struct run *r, enum op op, val a, int dim, int n, const int64_t *sizes, val *ret)
{
    uint32_t node = attach(r, op, 1, &a);
    struct value *x = &r->values[a];
    int64_t before = 0;

    for (int k = 0; k < n; k++)
        ret[k] = 0;
    if (run_dead(r))
        return;
    host_call(r);
    dim += dim < 0 ? x->ndim : 0;
    if (node) {
        r->nodes[node].at.dim = dim;
        r->nodes[node].at.dim2 = x->ndim;
        meta_of(r, node, 0, a);
        tell_parts(r, node, n, sizes);
    }
    for (int k = 0; k < n; k++) {
        val v = alias_view(r, a);
        struct value *y = &r->values[v];

        if (!v)
            return;
        if (r->views_known && r->grad_enabled)
            y->made = MADE_PARTS;
        y->offset += before * y->stride[dim];
        before += sizes[k];
        y->size[dim] = sizes[k];
        y->contiguous = is_contiguous(y);
        attach_output(r, node, v, k);
        ret[k] = v;
    }
    consume(r, a);
}

void unbind(struct run *r, val a, int dim, val *ret)
{
    if (r->calls) {
        int parts = run_dead(r) ? 0 : (int)size_of(r, a, dim);

        calls_ask_many(r, CALLED_unbind, 1, &a, 1, &(int64_t){dim}, parts, ret);
        return;
    }
    uint32_t node = attach(r, OP_UNBIND, 1, &a);
    struct value *x = &r->values[a];
    int n;

    dim += dim < 0 ? x->ndim : 0;
    n = run_dead(r) ? 0 : (int)x->size[dim];
    host_call(r);
    if (node) {
        r->nodes[node].at.dim = dim;
        meta_of(r, node, 0, a);
        tell_parts(r, node, n, NULL);
    }
    for (int k = 0; k < n; k++) {
        val v = alias_view(r, a);
        struct value *y = &r->values[v];

        ret[k] = v;
        if (!v)
            return;
        if (r->views_known && r->grad_enabled)
            y->made = MADE_PARTS;
        y->offset += k * x->stride[dim];
        for (int i = dim; i + 1 < x->ndim; i++) {
            y->size[i] = x->size[i + 1];
            y->stride[i] = x->stride[i + 1];
        }
        y->ndim--;
        y->contiguous = is_contiguous(y);
        attach_output(r, node, v, k);
    }
    consume(r, a);
}

void split(struct run *r, val a, int dim, int n, const int64_t *sizes, val *ret)
{
    if (r->calls) {
        calls_split(r, CALLED_split, a, dim, n, sizes, ret);
        return;
    }
    split_as(r, OP_SPLIT, a, dim, n, sizes, ret);
}

void split_with_sizes(struct run *r, val a, int dim, int n, const int64_t *sizes, val *ret)
{
    if (r->calls) {
        calls_split(r, CALLED_split_with_sizes, a, dim, n, sizes, ret);
        return;
    }
    split_as(r, OP_SPLIT_WITH_SIZES, a, dim, n, sizes, ret);
}

/* ---------------------------------------------------------------------------------------------------- cat, detach */
/* cuda/Shape.cu, TensorShape.cpp cat_compute_output_memory_format(); stack's are unsqueezed */
static bool all_channels_last(const struct run *r, enum op op, int n, const val *in, int dim)
{
    for (int k = 0; k < n; k++) {
        struct value x = r->values[in[k]];

        if (op == OP_STACK) {
            for (int i = x.ndim; i > dim; i--) {
                x.size[i] = x.size[i - 1];
                x.stride[i] = x.stride[i - 1];
            }
            x.stride[dim] = dim < x.ndim ? x.size[dim + 1] * x.stride[dim + 1] : 1;
            x.size[dim] = 1;
            x.ndim++;
        }
        if (!looks_channels_last(&x))
            return false;
    }
    return true;
}

/* cat and stack differ in what they call the dimension: `size` is the result's. Autocast leaves both alone, the kernels promote. */
static val joined(struct run *r, enum op op, enum dtype dtype, int n, const val *in, int dim, int nd, const int64_t *size)
{
    uint32_t node;
    val out;

    for (int k = 0; k < n; k++)
        dtype = dtype_of(r, in[k]) > dtype ? dtype_of(r, in[k]) : dtype;
    node = attach(r, op, n, in);
    out = value_empty(r, op, dtype, nd, size);
    if (out && all_channels_last(r, op, n, in, dim))
        lay_channels_last(&r->values[out]);
    launch(r, op, out, n, in);
    for (int k = 0; k < n && node && out; k++) {
        r->nodes[node].at.dim = dim;
        *(r->nodes[node].many ? &r->nodes[node].many->length[k] : &r->nodes[node].at.i[k]) = r->values[in[k]].size[dim];
        if (dtype_of(r, in[k]) != dtype)
            meta_of(r, node, k, in[k]);
    }
    attach_output(r, node, out, 0);
    for (int k = 0; k < n; k++)
        consume(r, in[k]);
    return out;
}

val cat(struct run *r, int n, const val *in, int dim)
{
    ASKED(r, cat, n, in, 1, ((const int64_t[]){dim}));
    int64_t size[MAX_DIMS];
    int nd;

    if (run_dead(r))
        return 0;
    nd = r->values[in[0]].ndim;
    dim += dim < 0 ? nd : 0;
    memcpy(size, r->values[in[0]].size, sizeof size);
    for (int k = 1; k < n; k++)
        size[dim] += r->values[in[k]].size[dim];
    return joined(r, OP_CAT, DTYPE_BOOL, n, in, dim, nd, size);
}

val cat_to_empty(struct run *r, val a, enum dtype empty, int dim)
{
    ASKED_VI(r, cat_to_empty, a, empty, dim);
    const struct value *x = &r->values[a];

    return run_dead(r) ? 0 : joined(r, OP_CAT, empty, 1, &a, dim < 0 ? dim + x->ndim : dim, x->ndim, x->size);
}

val stack_op(struct run *r, int n, const val *in, int dim)
{
    ASKED(r, stack_op, n, in, 1, ((const int64_t[]){dim}));
    int64_t size[MAX_DIMS];
    int nd;

    if (run_dead(r))
        return 0;
    nd = r->values[in[0]].ndim + 1;
    dim += dim < 0 ? nd : 0;
    for (int i = 0; i < nd; i++)
        size[i] = i == dim ? n : r->values[in[0]].size[i - (i > dim)];
    return joined(r, OP_STACK, DTYPE_BOOL, n, in, dim, nd, size);
}

val detach(struct run *r, val a)
{
    ASKED_V(r, detach, a);
    val out = value_alias(r, a); /* VariableTypeManual.cpp detach: not differentiable, so that it holds no base */

    consume(r, a);
    return out;
}
