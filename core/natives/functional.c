/* functional.c - torch.nn.functional, and functions that are methods of tensors too. */
#include "natives/functions.h"

#include "torch/autograd.h"

#include <math.h>
#include <string.h>

static struct tensor *first(struct script *s, const struct script_args *a)
{
    return need_tensor(s, a->v[0], a->def->name);
}

static bool is_const(const struct tensor *t)
{
    return t->content.kind == CONTENT_CONST;
}

/* -------------------------------------------------------------------------------------------------------- elementwise */
static const enum op unary_ops[] = {[UNARY_FN_EXP] = OP_EXP,
                                    [UNARY_FN_EXPM1] = OP_EXPM1,
                                    [UNARY_FN_LOG] = OP_LOG,
                                    [UNARY_FN_SQRT] = OP_SQRT,
                                    [UNARY_FN_ERF] = OP_ERF,
                                    [UNARY_FN_SIGMOID] = OP_SIGMOID,
                                    [UNARY_FN_RELU6] = OP_HARDTANH,
                                    [UNARY_FN_MISH] = OP_MISH,
                                    [UNARY_FN_LEAKY_RELU] = OP_LEAKY_RELU,
                                    [UNARY_FN_HARDSWISH] = OP_HARDSWISH,
                                    [UNARY_FN_ELU] = OP_ELU,
                                    [UNARY_FN_SOFTPLUS] = OP_SOFTPLUS,
                                    [UNARY_FN_LOG_SIGMOID] = OP_LOG_SIGMOID,
                                    [UNARY_FN_NEG] = OP_NEG,
                                    [UNARY_FN_TANH] = OP_TANH,
                                    [UNARY_FN_RSQRT] = OP_RSQRT,
                                    [UNARY_FN_RELU] = OP_RELU,
                                    [UNARY_FN_SILU] = OP_SILU,
                                    [UNARY_FN_SQUARE] = OP_POW};

sv f_unary(struct script *s, const struct script_args *a)
{
    struct tensor *t = first(s, a);
    struct run *r;
    val x;

    if (!t || !script_charge(s, 1))
        return sv_null();
    r = t->run;
    x = value_in(t);
    switch ((enum unary_fn)a->def->data) {
    case UNARY_FN_ABS:
        if (is_followed(t))
            return written_formula(s, "abs", 1, a->v);
        return wrap_content(s, r, pointwise_op(r, OP_ABS, (enum dtype)shape_of(t)->dtype, x, 0),
                            is_const(t)                               ? content_const(fabs(t->content.c))
                            : t->content.kind == CONTENT_STAIRS ? t->content
                                                                : content_unknown());
    case UNARY_FN_FLOOR:
        if (wants_gradient(s, t, "floor"))
            return sv_null();
        return wrap_content(s, r, pointwise_op(r, OP_FLOOR, (enum dtype)shape_of(t)->dtype, x, 0),
                            is_const(t) ? content_const(floor(t->content.c)) : content_unknown());
    case UNARY_FN_NEG:
        return wrap_content(s, r, neg(r, x), is_const(t) ? content_const(-t->content.c) : content_unknown());
    case UNARY_FN_COS:
        if (is_followed(t))
            return written_formula(s, "cos", 1, a->v);
        return wrap(s, r, cos_op(r, x));
    case UNARY_FN_SIN:
        if (is_followed(t))
            return written_formula(s, "sin", 1, a->v);
        return wrap(s, r, sin_op(r, x));
    case UNARY_FN_TANH:
        return wrap(s, r, tanh_op(r, x));
    case UNARY_FN_RSQRT:
        return wrap(s, r, rsqrt(r, x));
    case UNARY_FN_RELU:
        return wrap(s, r, relu(r, x));
    case UNARY_FN_SILU:
        return wrap(s, r, silu(r, x));
    case UNARY_FN_SQUARE: /* at::pow(x, 2) */
        return wrap(s, r, pow_scalar(r, x, 2));
    default:
        if (dtype_is_float((enum dtype)shape_of(t)->dtype))
            return wrap(s, r, unary_op(r, unary_ops[a->def->data], x));
        return wrap(s, r, pointwise_op(r, unary_ops[a->def->data], natives_of(s)->default_dtype, x, 0)); /* TensorIterator promote_int_to_float */
    }
}

/* x.exp_(), relu_(x): where a gradient passes, with the node of the operator */
sv m_unary_(struct script *s, const struct script_args *a)
{
    struct tensor *t = first(s, a);
    const enum unary_fn fn = (enum unary_fn)a->def->data;

    if (!t)
        return sv_null();
    if (!is_followed(t)) {
        t->content = content_unknown();
        tensor_written(t);
        return sv_keep(a->v[0]);
    }
    if (!may_be_written(s, t, a->def->name))
        return sv_null();
    return tensor_becomes(s, t, a->v[0], unary_in_place(t->run, unary_ops[fn], value_in(t), 2));
}

/* x.sin_(), x.tril_(), x.addcmul_(a, b): what library/_formulas.py has in place */
sv m_formula_(struct script *s, const struct script_args *a)
{
    enum { ARGS = 6 };
    struct tensor *t = first(s, a), *other;
    sv argv[ARGS] = {a->v[0], script_symbol(s, a->def->name)};
    bool followed;

    if (!t)
        return sv_null();
    followed = is_followed(t);
    for (uint32_t i = 1; i < a->n && i + 1 < ARGS; i++) {
        argv[i + 1] = sv_given(a->v[i]) ? a->v[i] : sv_none();
        followed = followed || ((other = as_tensor(s, argv[i + 1])) && is_followed(other));
    }
    if (!followed) {
        t->content = content_unknown();
        tensor_written(t);
        return sv_keep(a->v[0]);
    }
    if (!may_be_written(s, t, a->def->name))
        return sv_null();
    return written_in_place(s, t, "written", a->n + 1, argv);
}

/* silu(x, inplace=): the last argument */
static sv f_activation(struct script *s, const struct script_args *a)
{
    bool in_place = false;

    if (!bool_arg(s, a->v[a->def->data == UNARY_FN_LEAKY_RELU || a->def->data == UNARY_FN_ELU ? 2 : 1], &in_place))
        return sv_null();
    return in_place ? m_unary_(s, a) : f_unary(s, a);
}

sv f_pow(struct script *s, const struct script_args *a)
{
    return script_binary(s, BINARY_POW, a->v[0], a->v[1], false);
}

/* An operator asked by its name: none of two numbers, and no other side to ask where a tensor does not know one. */
static bool has_tensor(struct script *s, const struct script_args *a)
{
    return as_tensor(s, a->v[0]) || need_tensor(s, a->v[1], a->def->name);
}

static sv told(struct script *s, const struct script_args *a, sv answer)
{
    if (answer.tag != SV_NOTIMPLEMENTED)
        return answer;
    return script_raise(s, EXC_TypeError, "%s(): no operands are %s and %s", a->def->name, cls_name(sv_class(s, a->v[0])), cls_name(sv_class(s, a->v[1])));
}

sv f_binary(struct script *s, const struct script_args *a)
{
    if (!has_tensor(s, a))
        return sv_null();
    if (a->n > 2 && sv_given(a->v[2]) && as_tensor(s, a->v[0]) && as_tensor(s, a->v[1]))
        return written_formula(s, "add_alpha", 3, a->v);
    return told(s, a, tensor_binary(s, (enum script_binary)a->def->data, a->v[0], a->v[1], false));
}

/* div(x, other, rounding_mode=): floor and trunc are kernels of their own, of the same dtype */
sv f_divide(struct script *s, const struct script_args *a)
{
    struct tensor *t = first(s, a);
    size_t bytes = 0;
    const char *mode = sv_given(a->v[2]) ? str_text(a->v[2], &bytes) : NULL;

    if (!t)
        return sv_null();
    if (mode && is_followed(t))
        return script_leave(s, "div(rounding_mode=) of a tensor that wants a gradient");
    return told(s, a, tensor_binary(s, mode ? BINARY_FLOORDIV : BINARY_DIV, a->v[0], a->v[1], false));
}

/* rsub(x, other): other - x */
sv f_view_as(struct script *s, const struct script_args *a)
{
    struct tensor *t = first(s, a);
    bool real = a->def->data;

    if (!t)
        return sv_null();
    if (shape_of(t)->dtype != (real ? DTYPE_COMPLEX64 : DTYPE_FP32) || (!real && (!shape_of(t)->ndim || size_of(t->run, value_in(t), -1) != 2)) ||
        (real && shape_of(t)->ndim == MAX_DIMS))
        return script_leave(s, "%s() but of complex64, or of pairs of float32", a->def->name);
    return wrap(s, t->run, (real ? view_as_real : view_as_complex)(t->run, value_in(t)));
}

/* polar(abs, angle), complex(real, imag): of tables */
sv f_polar(struct script *s, const struct script_args *a)
{
    struct tensor *t = first(s, a), *u = t ? need_beside(s, t, a->v[1], a->def->name) : NULL;

    if (!u || wants_gradient(s, t, a->def->name) || wants_gradient(s, u, a->def->name))
        return sv_null();
    if (shape_of(t)->dtype != DTYPE_FP32 || shape_of(u)->dtype != DTYPE_FP32)
        return script_leave(s, "%s() but of float32", a->def->name);
    return wrap(s, t->run, pointwise_op(t->run, OP_POLAR, DTYPE_COMPLEX64, value_in(t), value_in(u)));
}

/* What autocast hands to an operator of lower_precision_fp. */
sv f_autocast_half(struct script *s, const struct script_args *a)
{
    struct tensor *t = first(s, a);
    val x = t ? autocast_arg(t->run, OP_BMM, value_in(t)) : 0;

    return !t ? sv_null() : x == value_in(t) ? sv_keep(a->v[0]) : wrap(s, t->run, x);
}

sv f_logical_not(struct script *s, const struct script_args *a)
{
    struct tensor *t = first(s, a);

    return t ? wrap_content(s, t->run, pointwise_op(t->run, OP_LOGICAL_NOT, DTYPE_BOOL, value_in(t), 0),
                            is_const(t) ? content_const(t->content.c == 0) : content_unknown())
             : sv_null();
}

sv f_rsub(struct script *s, const struct script_args *a)
{
    return script_binary(s, BINARY_SUB, a->v[1], a->v[0], false);
}

sv f_compare(struct script *s, const struct script_args *a)
{
    return has_tensor(s, a) ? told(s, a, tensor_compare(s, (enum script_compare)a->def->data, a->v[0], a->v[1])) : sv_null();
}

sv f_masked_fill(struct script *s, const struct script_args *a)
{
    struct tensor *t = first(s, a), *mask = t ? need_beside(s, t, a->v[1], "masked_fill") : NULL;

    if (!mask)
        return sv_null();
    return wrap_content(s, t->run, masked_fill(t->run, value_in(t), value_in(mask)), masks_nothing(mask) ? t->content : content_unknown());
}

sv f_gelu(struct script *s, const struct script_args *a)
{
    struct tensor *t = first(s, a);

    return t ? wrap(s, t->run, gelu(t->run, value_in(t))) : sv_null();
}

sv f_dropout(struct script *s, const struct script_args *a)
{
    struct tensor *t = first(s, a);
    double p = 0.5;
    bool training = true, in_place = false;

    if (!t || !float_arg(s, a->v[1], &p) || !bool_arg(s, a->v[2], &training) || (a->n > 3 && !bool_arg(s, a->v[3], &in_place)))
        return sv_null();
    if (in_place && training && p > 0)
        return written_formula(s, "dropout_", 2, a->v);
    return training ? wrap_of(s, t, a->v[0], dropout(t->run, value_in(t), p)) : sv_keep(a->v[0]);
}

/* dim or a tuple of them, as bits; none: all. */
static bool dims_arg(struct script *s, const struct tensor *t, sv dims, unsigned *ret)
{
    uint32_t n = 0;
    const sv *items = seq_items(dims, &n);
    int d = 0;

    *ret = 0;
    if (!sv_given(dims) || (items && !n)) {
        *ret = (1u << shape_of(t)->ndim) - 1;
        return true;
    }
    for (uint32_t i = 0; i < (items ? n : 1); i++) {
        if (!dim_arg(s, t, items ? items[i] : dims, &d))
            return false;
        *ret |= 1u << d;
    }
    return true;
}

/* The sizes that a reduction over one dimension leaves. */
static int without_dim(const struct tensor *t, int dim, bool keepdim, int64_t *ret)
{
    int nd = 0;

    for (int i = 0; i < shape_of(t)->ndim; i++)
        if (i != dim)
            ret[nd++] = shape_of(t)->size[i];
        else if (keepdim)
            ret[nd++] = 1;
    return nd;
}

sv f_mean(struct script *s, const struct script_args *a)
{
    struct tensor *t = first(s, a);
    bool keepdim = false;
    enum dtype dtype;
    unsigned dims;

    if (!t || !bool_arg(s, a->v[2], &keepdim) || !dims_arg(s, t, a->v[1], &dims))
        return sv_null();
    dtype = (enum dtype)shape_of(t)->dtype;
    if (!dtype_arg(s, a->v[3], &dtype))
        return sv_null();
    if (dtype != (enum dtype)shape_of(t)->dtype)
        return script_leave(s, "mean(dtype=) of another dtype");
    return wrap(s, t->run, mean_dims(t->run, value_in(t), dims, keepdim));
}

/* The sum of what are no floats in a type that is told: its result is there before they are cast to it. */
static val counted(struct tensor *t, enum dtype dtype, int nd, const int64_t *size)
{
    val out = factory(t->run, OP_SUM, dtype, nd, size);

    if (dtype != (enum dtype)shape_of(t)->dtype)
        scratch(t->run, OP_TO_COPY, (uint64_t)numel(t->run, value_in(t)) * dtype_bytes(dtype));
    return out;
}

/* The kernel reads x and sums in another dtype. */
static sv sum_in(struct script *s, struct tensor *t, const struct script_args *a, bool keepdim, enum dtype dtype)
{
    sv made = written_formula(s, "sum_in", 4, (sv[]){a->v[0], sv_given(a->v[1]) ? a->v[1] : sv_none(), sv_bool(keepdim), a->v[3]});
    unsigned dims;

    if (!sv_ok(made))
        return made;
    if (!dims_arg(s, t, a->v[1], &dims)) {
        sv_drop(s, made);
        return sv_null();
    }
    calls_unheard(t->run);
    reduce_scratch(t->run, OP_SUM, value_in(t), dims, dtype_bytes(dtype) < 4 ? 4 : dtype_bytes(dtype));
    return made;
}

sv f_sum(struct script *s, const struct script_args *a)
{
    struct tensor *t = first(s, a);
    bool keepdim = false;
    int dim = 0;
    enum dtype dtype;
    struct content c = content_unknown();
    uint32_t n = 0;
    val x;

    if (!t || !bool_arg(s, a->v[2], &keepdim))
        return sv_null();
    dtype = (enum dtype)shape_of(t)->dtype;
    if (!dtype_arg(s, a->v[3], &dtype))
        return sv_null();
    if (dtype_is_float((enum dtype)shape_of(t)->dtype) && dtype != (enum dtype)shape_of(t)->dtype)
        return sum_in(s, t, a, keepdim, dtype);
    x = value_in(t);
    if (is_of_choice(t->content)) {
        unsigned dims;

        if (!dims_arg(s, t, a->v[1], &dims))
            return sv_null();
        c = content_summed(t, dims, keepdim);
    }
    if (!sv_given(a->v[1])) {
        if (is_const(t))
            c = content_const(t->content.c * (double)numel(t->run, x));
        else if (t->content.kind == CONTENT_PADDED) {
            int64_t all = numel(t->run, x), row = size_of(t->run, x, -1);

            c = content_const((double)all - t->content.c * (double)(all / row));
        } else if (t->content.kind == CONTENT_STAIRS) {
            c = t->content.c > 0 ? (struct content){.kind = CONTENT_POSITIVE} : content_const(0);
        }
        return wrap_content(s, t->run, sum_all(t->run, x), c);
    }
    if (seq_items(a->v[1], &n) && n != 1 && dtype_is_float((enum dtype)shape_of(t)->dtype) && dtype == (enum dtype)shape_of(t)->dtype) {
        unsigned dims;

        return dims_arg(s, t, a->v[1], &dims) ? wrap_content(s, t->run, sum_dims(t->run, x, dims, keepdim), c) : sv_null();
    }
    if (seq_items(a->v[1], &n) && n != 1 && !dtype_is_float((enum dtype)shape_of(t)->dtype) && !sv_given(a->v[3])) {
        unsigned dims;

        return dims_arg(s, t, a->v[1], &dims) ? wrap_content(s, t->run, sum_dims(t->run, x, dims, keepdim), c) : sv_null();
    }
    if (!dim_arg(s, t, seq_items(a->v[1], &n) ? *seq_items(a->v[1], &n) : a->v[1], &dim))
        return sv_null();
    if (is_const(t))
        c = content_const(t->content.c * (double)size_of(t->run, x, dim));
    else if (t->content.kind == CONTENT_PADDED && dim == shape_of(t)->ndim - 1)
        c = content_const((double)size_of(t->run, x, dim) - t->content.c);
    if (!dtype_is_float((enum dtype)shape_of(t)->dtype) && sv_given(a->v[3])) {
        int64_t size[MAX_DIMS];
        int nd = without_dim(t, dim, keepdim, size);

        return wrap_content(s, t->run, counted(t, dtype, nd, size), c);
    }
    return wrap_content(s, t->run, sum_dim(t->run, x, dim, keepdim), c);
}

sv f_reduce_bool(struct script *s, const struct script_args *a)
{
    struct tensor *t = first(s, a);
    struct content c = content_unknown();
    bool keepdim = false;
    int dim = 0, nd;
    int64_t size[MAX_DIMS];
    unsigned dims;

    if (!t || !bool_arg(s, a->v[2], &keepdim))
        return sv_null();
    if (is_of_choice(t->content)) {
        if (!dims_arg(s, t, a->v[1], &dims))
            return sv_null();
        c = a->def->data == OP_ANY ? content_of_any(t, dims, keepdim) : content_unknown();
    } else if (is_const(t))
        c = content_const(t->content.c != 0);
    else if (t->content.kind == CONTENT_PADDED)
        c = content_const(a->def->data == OP_ANY);
    else if (t->content.kind == CONTENT_MARKS)
        c = content_const(a->def->data == OP_ANY ? t->content.c > 0 : t->content.c == (double)numel(t->run, value_in(t)));
    if (!sv_given(a->v[1]))
        return wrap_content(s, t->run, factory(t->run, (enum op)a->def->data, DTYPE_BOOL, 0, NULL), c);
    if (!dim_arg(s, t, a->v[1], &dim))
        return sv_null();
    nd = without_dim(t, dim, keepdim, size);
    return wrap_content(s, t->run, factory(t->run, (enum op)a->def->data, DTYPE_BOOL, nd, size), c);
}

sv f_argmax(struct script *s, const struct script_args *a)
{
    struct tensor *t = first(s, a);
    bool keepdim = false;
    int dim = 0;

    if (!t || !bool_arg(s, a->v[2], &keepdim))
        return sv_null();
    if (!sv_given(a->v[1]))
        return script_leave(s, "argmax() over all dimensions");
    if (!dim_arg(s, t, a->v[1], &dim))
        return sv_null();
    return wrap_content(s, t->run, argmax(t->run, value_in(t), dim, keepdim), content_of_choice(t, dim, 1));
}

static sv extreme_along(struct script *s, struct tensor *t, const struct script_args *a)
{
    bool keepdim = false;
    int dim = 0;
    val two[2];

    if (!dim_arg(s, t, a->v[1], &dim) || !bool_arg(s, a->v[2], &keepdim))
        return sv_null();
    extreme_dim(t->run, a->def->data == OP_MAX ? OP_MAX_DIM : OP_MIN_DIM, value_in(t), dim, keepdim, two);
    return pair_of(s, t->run, two, content_unknown(), content_of_choice(t, dim, 1));
}

/* A number of the host's beside a tensor: it has no storage on the device. */
static val beside(const struct tensor *t, const struct tensor *other)
{
    if (other->run == t->run || shape_of(other)->ndim)
        return value_in(other);
    return value_new(t->run, (enum dtype)shape_of(t)->dtype, 0, NULL);
}

sv f_extreme(struct script *s, const struct script_args *a)
{
    struct tensor *t = first(s, a), *other;
    struct content c = content_unknown();
    bool greatest = a->def->data == OP_MAX;

    if (!t)
        return sv_null();
    other = as_tensor(s, a->v[1]);
    if (other && shape_of(other)->ndim && !stand_together(s, t, other))
        return sv_null();
    if (other && ((is_followed(t) && is_followed(other)) || (!greatest && (is_followed(t) || is_followed(other)))))
        return written_formula(s, "minimum", 2, a->v);
    if (other)
        return wrap(s, t->run, extreme_of_two(t->run, greatest ? OP_MAXIMUM : OP_MINIMUM, value_in(t), beside(t, other)));
    if (sv_given(a->v[1]))
        return extreme_along(s, t, a);
    if (wants_gradient(s, t, a->def->name))
        return sv_null();
    if (is_const(t))
        c = t->content;
    else if (t->content.kind == CONTENT_RISING)
        c = content_const(t->content.c + (greatest && shape_of(t)->ndim ? (double)size_of(t->run, value_in(t), -1) - 1 : 0));
    else if (t->content.kind == CONTENT_PADDED)
        c = content_const(greatest);
    else if (t->content.kind == CONTENT_PACKED)
        c = content_const(greatest ? ceil((double)size_of(t->run, value_in(t), -1) / t->content.c) - 1 : 0);
    else if (is_of_choice(t->content))
        c = content_of_extreme(t->content, greatest);
    return wrap_content(s, t->run, factory(t->run, (enum op)a->def->data, (enum dtype)shape_of(t)->dtype, 0, NULL), c);
}

sv f_cumsum(struct script *s, const struct script_args *a)
{
    struct tensor *t = first(s, a);
    int dim = 0;
    enum dtype dtype = DTYPE_COUNT;
    struct content c = content_unknown();

    if (!t || !dim_arg(s, t, a->v[1], &dim) || !dtype_arg(s, a->v[2], &dtype))
        return sv_null();
    if (dtype == DTYPE_COUNT && dtype_is_float((enum dtype)shape_of(t)->dtype)) /* integers alone become int64; autocast says float32 */
        dtype = t->run->autocast && shape_of(t)->dtype < DTYPE_FP32 ? DTYPE_FP32 : (enum dtype)shape_of(t)->dtype;
    if (is_const(t) && t->content.c == 0)
        c = t->content;
    else if (is_const(t) && t->content.c == 1 && dim == shape_of(t)->ndim - 1)
        c = content_is(CONTENT_RISING, 1);
    else if (t->content.kind == CONTENT_MARKS && dim == shape_of(t)->ndim - 1)
        c = content_is(CONTENT_STAIRS, t->content.c);
    else if (t->content.kind == CONTENT_SHARES && shape_of(t)->ndim == 1) {
        c = t->content;
        c.kind = CONTENT_OFFSETS;
    }
    return wrap_content(s, t->run, dtype == DTYPE_COUNT ? cumsum(t->run, value_in(t), dim) : cumsum_as(t->run, value_in(t), dim, dtype), c);
}

/* torch.diff(x, prepend=, dim=-1): the joined tensor lives while the difference is made */
sv f_diff(struct script *s, const struct script_args *a)
{
    struct tensor *t = first(s, a), *before = t && sv_given(a->v[3]) ? need_beside(s, t, a->v[3], "diff") : NULL;
    int dim = -1;
    int64_t size[MAX_DIMS], order = 1;
    struct content c = content_unknown();
    struct run *r;
    enum dtype dtype;
    val joined = 0, out;
    int nd;

    if (!t || script_failed(s) || !int_arg(s, a->v[1], &order) || !dim_arg(s, t, sv_given(a->v[2]) ? a->v[2] : sv_int(-1), &dim))
        return sv_null();
    r = t->run;
    if (order != 1 || sv_given(a->v[4]) || (r->grad_enabled && (shape_of(t)->requires_grad || (before && shape_of(before)->requires_grad))))
        return written_formula(s, "diff", 5, (sv[]){a->v[0], sv_int(order), sv_int(dim), sv_given(a->v[3]) ? a->v[3] : sv_none(),
                                                    sv_given(a->v[4]) ? a->v[4] : sv_none()});
    nd = shape_of(t)->ndim;
    dtype = (enum dtype)shape_of(t)->dtype;
    if (!nd || (before && shape_of(before)->ndim != nd))
        return script_raise(s, EXC_RuntimeError, "diff expects input to be at least one-dimensional, and prepend of as many dimensions");
    for (int i = 0; i < nd; i++)
        size[i] = shape_of(t)->size[i];
    if (t->content.kind == CONTENT_RISING && dim == nd - 1 &&
        (!before || (before->content.kind == CONTENT_CONST && before->content.c == t->content.c - 1)))
        c = content_const(1);
    else if (t->content.kind == CONTENT_PACKED && dim == nd - 1 && (!before || (is_const(before) && before->content.c == -1)))
        c = content_is(CONTENT_STEPS, t->content.c - 1);
    else if (is_const(t) && (!before || (is_const(before) && before->content.c == t->content.c)))
        c = content_const(0);
    if (before) {
        size[dim] += size_of(r, value_in(before), dim);
        joined = factory(r, OP_CAT, dtype, nd, size);
    }
    size[dim] -= size[dim] > 0;
    out = factory(r, dtype == DTYPE_BOOL ? OP_NE : OP_SUB, dtype, nd, size);
    calls_held(r, CALLED_CONSUME, joined);
    return wrap_content(s, r, out, c);
}

sv f_softmax(struct script *s, const struct script_args *a)
{
    struct tensor *t = first(s, a);
    enum dtype dtype = DTYPE_COUNT;

    if (!t || !dtype_arg(s, a->v[2], &dtype))
        return sv_null();
    if (!sv_given(a->v[1]))
        return script_leave(s, "softmax() of no dimension");
    return wrap(s, t->run, (a->def->data ? log_softmax : softmax)(t->run, value_in(t), dtype));
}

sv f_logsumexp(struct script *s, const struct script_args *a)
{
    struct tensor *t = first(s, a);
    bool keepdim = false;
    uint32_t n;
    int dim = 0;

    if (!t || !bool_arg(s, a->v[2], &keepdim))
        return sv_null();
    if (keepdim || seq_items(a->v[1], &n) || (t->run->autocast && shape_of(t)->dtype != DTYPE_FP32))
        return written_formula(s, "logsumexp", 3, (sv[]){a->v[0], a->v[1], sv_bool(keepdim)});
    if (!dim_arg(s, t, a->v[1], &dim))
        return sv_null();
    return wrap(s, t->run, logsumexp(t->run, value_in(t), dim));
}

/* ----------------------------------------------------------------------------------------------------------- products */
sv f_matmul(struct script *s, const struct script_args *a)
{
    struct tensor *t = first(s, a), *other = t ? need_tensor(s, a->v[1], a->def->name) : NULL;

    if (!other || (a->def->data && !stand_together(s, t, other)))
        return sv_null();
    return a->def->data ? wrap(s, t->run, bmm(t->run, value_in(t), value_in(other))) : tensor_binary(s, BINARY_MATMUL, a->v[0], a->v[1], false);
}

sv f_baddbmm(struct script *s, const struct script_args *a)
{
    struct tensor *t = first(s, a), *x = t ? need_beside(s, t, a->v[1], "baddbmm") : NULL, *y = x ? need_beside(s, t, a->v[2], "baddbmm") : NULL;
    double alpha = 1, beta = 1;

    if (!y || !float_arg(s, a->v[3], &beta) || !float_arg(s, a->v[4], &alpha) || (beta != 1 && wants_gradient(s, t, "baddbmm(beta=)")))
        return sv_null();
    return wrap(s, t->run, baddbmm(t->run, value_in(t), value_in(x), value_in(y), alpha != 1));
}

sv f_addmm(struct script *s, const struct script_args *a)
{
    struct tensor *t = first(s, a), *x = t ? need_beside(s, t, a->v[1], "addmm") : NULL, *y = x ? need_beside(s, t, a->v[2], "addmm") : NULL;

    return y ? wrap(s, t->run, addmm(t->run, value_in(t), value_in(x), value_in(y))) : sv_null();
}

static sv f_linear(struct script *s, const struct script_args *a)
{
    struct tensor *t = first(s, a), *w = t ? need_beside(s, t, a->v[1], "linear") : NULL,
                  *b = w && sv_given(a->v[2]) ? need_beside(s, t, a->v[2], "linear") : NULL;

    if (!w || script_failed(s))
        return sv_null();
    if (!b && shape_of(w)->ndim == 1)
        return tensor_binary(s, BINARY_MATMUL, a->v[0], a->v[1], false);
    return wrap(s, t->run, linear_op(t->run, value_in(t), value_in(w), b ? value_in(b) : 0));
}

static sv f_embedding(struct script *s, const struct script_args *a)
{
    struct tensor *ids = first(s, a), *w = ids ? need_beside(s, ids, a->v[1], "embedding") : NULL;

    return w ? wrap(s, w->run,
                    embedding_op(w->run, value_in(w), value_in(ids), sv_given(a->v[2])))
             : sv_null();
}

/* layer_norm.h _check_layer_norm_inputs(), of the last dimension */
static bool is_normalised(struct script *s, const struct tensor *t, sv shape, const struct tensor *w, const struct tensor *b)
{
    int64_t size[MAX_DIMS], last = shape_of(t)->ndim ? size_of(t->run, value_in(t), -1) : -1;

    if (sizes_arg(s, 1, &shape, size) != 1)
        return script_failed(s) ? false : (script_leave(s, "normalisation over other than one dimension"), false);
    if (size[0] != last)
        return script_raise(s, EXC_RuntimeError, "Given normalized_shape=[%lld], expected input with shape [*, %lld]", (long long)size[0], (long long)size[0]),
               false;
    for (int i = 0; i < 2; i++) {
        const struct tensor *x = i ? b : w;

        if (x && (shape_of(x)->ndim != 1 || shape_of(x)->size[0] != last))
            return script_raise(s, EXC_RuntimeError, "Expected %s to be of same shape as normalized_shape", i ? "bias" : "weight"), false;
    }
    return true;
}

static sv f_rms_norm(struct script *s, const struct script_args *a)
{
    struct tensor *t = first(s, a), *w = t && sv_given(a->v[2]) ? need_beside(s, t, a->v[2], "rms_norm") : NULL;
    const struct quirks *q = natives_of(s)->host.q;
    uint32_t n = 1;

    if (!t || (sv_given(a->v[2]) && !w))
        return sv_null();
    if (!q->has_rms_norm)
        return script_raise(s, EXC_AttributeError, "module 'torch.nn.functional' has no attribute 'rms_norm'");
    if (seq_items(a->v[1], &n) && n != 1)
        return script_leave(s, "rms_norm() over more than the last dimension");
    if (!is_normalised(s, t, a->v[1], w, NULL))
        return sv_null();
    if (!q->fused_rms_norm || (w && shape_of(w)->dtype != shape_of(t)->dtype && !(t->run->autocast && q->rms_norm_autocast)))
        return written_formula(s, "rms_norm", 2, (sv[]){a->v[0], w ? a->v[2] : sv_none()});
    return wrap(s, t->run, rms_norm_op(t->run, value_in(t), w ? value_in(w) : 0));
}

static sv f_layer_norm(struct script *s, const struct script_args *a)
{
    struct tensor *t = first(s, a), *w = t && sv_given(a->v[2]) ? need_beside(s, t, a->v[2], "layer_norm") : NULL,
                  *b = t && sv_given(a->v[3]) ? need_beside(s, t, a->v[3], "layer_norm") : NULL;
    int64_t size[MAX_DIMS];
    int nd;

    if (!t || script_failed(s) || (nd = sizes_arg(s, 1, &a->v[1], size)) < 0)
        return sv_null();
    if (nd != 1)
        return script_leave(s, "layer_norm() over more than the last dimension");
    if (!is_normalised(s, t, a->v[1], w, b))
        return sv_null();
    return wrap(s, t->run, layer_norm(t->run, value_in(t), w ? value_in(w) : 0, b ? value_in(b) : 0));
}

/* ---------------------------------------------------------------------------------------------------- attention, losses */
static sv f_attention(struct script *s, const struct script_args *a)
{
    struct tensor *q = first(s, a), *k = q ? need_beside(s, q, a->v[1], a->def->name) : NULL,
                  *v = k ? need_beside(s, q, a->v[2], a->def->name) : NULL,
                  *mask = v && sv_given(a->v[3]) ? need_beside(s, q, a->v[3], a->def->name) : NULL;
    double p = 0;
    bool causal = false, grouped = false;
    enum attention_way way;
    val in[4];

    if (!v || script_failed(s) || !float_arg(s, a->v[4], &p) || !bool_arg(s, a->v[5], &causal) || !bool_arg(s, a->v[7], &grouped))
        return sv_null();
    if (grouped && !natives_of(s)->host.q->sdpa_enables_gqa)
        return script_raise(s, EXC_TypeError, "scaled_dot_product_attention() got an unexpected keyword argument 'enable_gqa'");
    in[0] = value_in(q);
    in[1] = value_in(k);
    in[2] = value_in(v);
    in[3] = mask ? value_in(mask) : 0;
    way = run_dead(q->run) ? ATTENTION_KERNEL : attention_way(q->run, in, p, causal, grouped);
    if (way != ATTENTION_KERNEL)
        return written_out(s, "torch._attention", "attention", 9,
                           (sv[]){a->v[0], a->v[1], a->v[2], mask ? a->v[3] : sv_none(), sv_float(p), sv_bool(causal),
                                  sv_given(a->v[6]) ? a->v[6] : sv_none(), sv_bool(grouped), sv_int(way)});
    return wrap(s, q->run, scaled_dot_product_attention(q->run, in[0], in[1], in[2], in[3], p, causal, grouped));
}

sv f_cross_entropy(struct script *s, const struct script_args *a)
{
    struct tensor *t = first(s, a), *target = t ? need_beside(s, t, a->v[1], "cross_entropy") : NULL;

    if (!target)
        return sv_null();
    if (shape_of(t)->ndim != 2 || shape_of(target)->ndim != 1 || dtype_is_float((enum dtype)shape_of(target)->dtype) ||
        (sv_given(a->v[6]) && str_is(a->v[6], "none")) || (sv_given(a->v[7]) && script_truth(s, a->v[7])))
        return written_formula(s, "cross_entropy", 5,
                               (sv[]){a->v[0], a->v[1], sv_given(a->v[4]) ? a->v[4] : sv_int(-100),
                                      sv_given(a->v[6]) ? a->v[6] : script_symbol(s, "mean"), sv_given(a->v[7]) ? a->v[7] : sv_float(0)});
    if (shape_of(t)->size[0] != shape_of(target)->size[0])
        return script_raise(s, EXC_ValueError, "Expected input batch_size (%lld) to match target batch_size (%lld).", (long long)shape_of(t)->size[0],
                            (long long)shape_of(target)->size[0]);
    return wrap(s, t->run, cross_entropy(t->run, value_in(t), value_in(target)));
}

sv f_pad(struct script *s, const struct script_args *a)
{
    const int64_t most = INT64_C(1) << 44;
    struct tensor *t = first(s, a);
    uint32_t n;
    const sv *pad = seq_items(a->v[1], &n);
    int64_t size[MAX_DIMS];
    int nd;
    size_t bytes = 0;
    bool grows = false;

    if (!t)
        return sv_null();
    if (sv_given(a->v[2]) && strcmp(str_text(a->v[2], &bytes), "constant") != 0)
        return written_formula(s, "pad_by", 3, a->v);
    if (!pad || n % 2 || n / 2 > (uint32_t)shape_of(t)->ndim)
        return script_raise(s, EXC_RuntimeError, "Padding length must be divisible by 2 and at most twice the number of dimensions");
    nd = shape_of(t)->ndim;
    for (int i = 0; i < nd; i++)
        size[i] = shape_of(t)->size[i];
    for (uint32_t i = 0; i < n; i++) {
        int64_t by = 0;

        if (!int_arg(s, pad[i], &by))
            return sv_null();
        if (by > most || by < -most)
            return script_raise(s, EXC_RuntimeError, "a padding of %lld elements", (long long)by);
        size[nd - 1 - (int)(i / 2)] += by;
        grows = grows || by > 0;
    }
    for (int i = 0; i < nd; i++)
        if (size[i] < 0)
            return script_raise(s, EXC_RuntimeError, "a padding that leaves %lld elements of dimension %d", (long long)size[i], i);
    return wrap(s, t->run, pad_constant(t->run, value_in(t), size, grows));
}

/* Where each channel has filters of its own, as state space models have before their scan. */
static sv f_conv1d(struct script *s, const struct script_args *a)
{
    struct tensor *t = first(s, a), *w = t ? need_beside(s, t, a->v[1], "conv1d") : NULL,
                  *b = w && sv_given(a->v[2]) ? need_beside(s, t, a->v[2], "conv1d") : NULL;
    int64_t stride[MAX_DIMS] = {1}, padding[MAX_DIMS] = {0}, dilation[MAX_DIMS] = {1}, groups = 1;

    if (!w || script_failed(s) || (sv_given(a->v[3]) && sizes_arg(s, 1, &a->v[3], stride) < 0) ||
        (sv_given(a->v[4]) && sizes_arg(s, 1, &a->v[4], padding) < 0) || (sv_given(a->v[5]) && sizes_arg(s, 1, &a->v[5], dilation) < 0) ||
        !int_arg(s, a->v[6], &groups))
        return sv_null();
    if (groups < 1)
        return script_raise(s, EXC_RuntimeError, "expected conv groups to be greater than 0, but got groups=%lld", (long long)groups);
    if (stride[0] < 1 || dilation[0] < 1 || padding[0] < 0 || stride[0] > INT32_MAX || dilation[0] > INT32_MAX || padding[0] > INT32_MAX)
        return script_raise(s, EXC_RuntimeError, "conv1d(): a stride, a dilation or a padding that is none");
    if (shape_of(t)->ndim != 3 || shape_of(w)->ndim != 3 || shape_of(w)->size[1] != 1 || shape_of(w)->size[0] % groups != 0 ||
        groups != shape_of(t)->size[1] || groups == 1)
        return script_leave(s, "conv1d() but with filters for each channel");
    if (shape_of(w)->size[2] < 1 || shape_of(w)->size[2] > INT32_MAX)
        return script_raise(s, EXC_RuntimeError, "conv1d(): a kernel of %lld elements", (long long)shape_of(w)->size[2]);
    if (shape_of(t)->size[2] + 2 * padding[0] < dilation[0] * (shape_of(w)->size[2] - 1) + 1)
        return script_raise(s, EXC_RuntimeError, "Kernel size can't be greater than actual input size");
    return wrap(s, t->run, conv1d_depthwise(t->run, value_in(t), value_in(w), b ? value_in(b) : 0, (struct conv1d_how){padding[0], stride[0], dilation[0]}));
}


static const struct script_native functions[] = {
    {"softmax", f_softmax, "input, dim=, *, dtype=, _stacklevel=", 0, NATIVE_PLAIN},
    {"log_softmax", f_softmax, "input, dim=, *, dtype=, _stacklevel=", 1, NATIVE_PLAIN},
    {"dropout", f_dropout, "input, p=, training=, inplace=", 0, NATIVE_PLAIN},
    {"linear", f_linear, "input, weight, bias=", 0, NATIVE_PLAIN},
    {"embedding", f_embedding, "input, weight, padding_idx=, max_norm=!, norm_type=, scale_grad_by_freq=!, sparse=!", 0, NATIVE_PLAIN},
    {"rms_norm", f_rms_norm, "input, normalized_shape, weight=, eps=", 0, NATIVE_PLAIN},
    {"layer_norm", f_layer_norm, "input, normalized_shape, weight=, bias=, eps=", 0, NATIVE_PLAIN},
    {"gelu", f_gelu, "input, approximate=", 0, NATIVE_PLAIN},
    {"silu", f_activation, "input, inplace=", UNARY_FN_SILU, NATIVE_PLAIN},
    {"relu", f_activation, "input, inplace=", UNARY_FN_RELU, NATIVE_PLAIN},
    {"relu6", f_activation, "input, inplace=", UNARY_FN_RELU6, NATIVE_PLAIN},
    {"sigmoid", f_unary, "input", UNARY_FN_SIGMOID, NATIVE_PLAIN},
    {"mish", f_activation, "input, inplace=", UNARY_FN_MISH, NATIVE_PLAIN},
    {"leaky_relu", f_activation, "input, negative_slope=, inplace=", UNARY_FN_LEAKY_RELU, NATIVE_PLAIN},
    {"hardswish", f_activation, "input, inplace=", UNARY_FN_HARDSWISH, NATIVE_PLAIN},
    {"elu", f_activation, "input, alpha=, inplace=", UNARY_FN_ELU, NATIVE_PLAIN},
    {"logsigmoid", f_unary, "input", UNARY_FN_LOG_SIGMOID, NATIVE_PLAIN},
    {"softplus", f_unary, "input, beta=, threshold=", UNARY_FN_SOFTPLUS, NATIVE_PLAIN},
    {"tanh", f_unary, "input", UNARY_FN_TANH, NATIVE_PLAIN},
    {"cross_entropy", f_cross_entropy,
     "input, target, weight=!, size_average=!, ignore_index=, reduce=!, reduction=!mean|sum|none, label_smoothing=", 0, NATIVE_PLAIN},
    {"grouped_mm", f_grouped_mm, "mat_a, mat_b, offs=, bias=, *, out_dtype=", 0, NATIVE_PLAIN},
    {"conv1d", f_conv1d, "input, weight, bias=, stride=, padding=, dilation=, groups=", 0, NATIVE_PLAIN},
    {"pad", f_pad, "input, pad, mode=!constant|reflect|replicate, value=", 0, NATIVE_PLAIN},
    {"scaled_dot_product_attention", f_attention, "query, key, value, attn_mask=, dropout_p=, is_causal=, scale=, enable_gqa=", 0,
     NATIVE_PLAIN},
    {0},
};
const struct script_module functional_module = {.name = "torch.nn.functional", .functions = functions};
