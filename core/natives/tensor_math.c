/* tensor_math.c - operators between tensors and numbers, and what is known of their results. */
#include "natives/functions.h"

#include "torch/autograd.h"

#include <math.h>

/* A number beside a tensor, or the tensor itself; a 0-dim tensor of the host beside one of the device counts as a number. */
struct operand {
    struct tensor *t;
    double c;    /* of a number */
    bool floats; /* the number is a float */
};

static bool operand_of(struct script *s, sv v, struct operand *ret)
{
    *ret = (struct operand){.t = as_tensor(s, v)};
    if (ret->t)
        return true;
    if (!is_number(v))
        return false;
    ret->floats = v.tag == SV_FLOAT;
    ret->c = v.tag == SV_FLOAT ? v.f : (double)v.i;
    return true;
}

static bool host_scalar(const struct natives *n, const struct operand *x)
{
    return x->t && !on_device(n, x->t) && shape_of(x->t)->ndim == 0;
}

/* Which run the operation is one of. */
static struct run *meet(struct script *s, struct operand *a, struct operand *b)
{
    const struct natives *n = natives_of(s);

    if (a->t && b->t && a->t->run != b->t->run) {
        struct operand *host = on_device(n, a->t) ? b : a;

        if (!host_scalar(n, host)) {
            (void)script_raise(s, EXC_RuntimeError, "Expected all tensors to be on the same device");
            return NULL;
        }
        host->floats = dtype_is_float((enum dtype)shape_of(host->t)->dtype);
        host->c = host->t->content.c;
        host->t = NULL;
    }
    if (a->t && on_device(n, a->t))
        return n->run;
    if (b->t && on_device(n, b->t))
        return n->run;
    return a->t ? a->t->run : b->t->run;
}

static bool known(const struct operand *x, double *ret)
{
    if (!x->t) {
        *ret = x->c;
        return true;
    }
    *ret = x->t->content.c;
    return x->t->content.kind == CONTENT_CONST;
}

static double apply(enum script_binary op, double a, double b, bool *ret_known)
{
    switch (op) {
    case BINARY_ADD:
        return a + b;
    case BINARY_SUB:
        return a - b;
    case BINARY_MUL:
        return a * b;
    case BINARY_DIV:
        return b != 0 ? a / b : (*ret_known = false, 0);
    case BINARY_FLOORDIV:
        return b != 0 ? floor(a / b) : (*ret_known = false, 0);
    case BINARY_MOD:
        return b != 0 ? a - b * floor(a / b) : (*ret_known = false, 0);
    case BINARY_POW:
        return pow(a, b);
    case BINARY_AND:
        return (double)((int64_t)a & (int64_t)b);
    case BINARY_OR:
        return (double)((int64_t)a | (int64_t)b);
    case BINARY_XOR:
        return (double)((int64_t)a ^ (int64_t)b);
    default:
        *ret_known = false;
        return 0;
    }
}

static struct content content_of(enum script_binary op, const struct operand *a, const struct operand *b)
{
    double x, y, c;
    bool both = known(a, &x) && known(b, &y);

    if (both) {
        c = apply(op, x, y, &both);
        return both ? content_const(c) : content_unknown();
    }
    if (a->t && a->t->content.kind == CONTENT_RISING && known(b, &y) && (op == BINARY_ADD || op == BINARY_SUB))
        return content_is(CONTENT_RISING, a->t->content.c + (op == BINARY_ADD ? y : -y));
    if (b->t && b->t->content.kind == CONTENT_RISING && known(a, &x) && op == BINARY_ADD)
        return content_is(CONTENT_RISING, b->t->content.c + x);
    if (a->t && b->t && a->t->content.kind == CONTENT_RISING && b->t->content.kind == CONTENT_RISING && op == BINARY_SUB)
        return content_const(a->t->content.c - b->t->content.c);
    if (a->t && b->t && a->t->content.kind == CONTENT_RISING && b->t->content.kind == CONTENT_PACKED && op == BINARY_SUB)
        return content_is(CONTENT_STAIRS, b->t->content.c > 1); /* a sequence's start, of each token; higher than 0 where there are several */
    if ((op == BINARY_AND || op == BINARY_MUL) && a->t && b->t) { /* with all ones: the other */
        if (known(a, &x) && x == 1)
            return b->t->content;
        if (known(b, &y) && y == 1)
            return a->t->content;
    }
    return content_unknown();
}

static bool integral(const struct operand *x)
{
    return x->t ? !dtype_is_float((enum dtype)shape_of(x->t)->dtype) : !x->floats;
}

/* An integer tensor and a float, or a quotient of integers: in the default dtype, which is the weights' while a model is made. */
static bool becomes_float(enum script_binary op, const struct operand *a, const struct operand *b)
{
    const struct operand *t = a->t ? a : b, *c = a->t ? b : a;

    if (op == BINARY_DIV)
        return integral(a) && integral(b);
    return integral(t) && !c->t && c->floats;
}

static enum dtype wider(const struct operand *a, const struct operand *b)
{
    enum dtype p = a->t ? (enum dtype)shape_of(a->t)->dtype : DTYPE_BOOL, q = b->t ? (enum dtype)shape_of(b->t)->dtype : DTYPE_BOOL;

    return p > q ? p : q;
}

static enum op bitwise(enum script_binary op)
{
    return op == BINARY_AND ? OP_BITWISE_AND : op == BINARY_OR ? OP_BITWISE_OR : OP_BITWISE_XOR;
}

/* torch/_tensor.py __rdiv__ */
static val over_number(struct run *r, val x)
{
    x = autocast_arg(r, OP_RECIPROCAL, x);
    return mul_scalar(r, pointwise_op(r, OP_RECIPROCAL, dtype_of(r, x), x, 0));
}

static val with_number(struct script *s, struct run *r, enum script_binary op, val x, double c, bool number_first)
{
    const bool plain = op == BINARY_FLOORDIV || op == BINARY_MOD || (number_first && (op == BINARY_DIV || op == BINARY_POW));

    if (plain && r->values[x].requires_grad && r->grad_enabled) {
        (void)script_leave(s, "this operator between a number and a tensor that wants a gradient");
        return 0;
    }
    switch (op) {
    case BINARY_ADD:
        return add_scalar(r, x);
    case BINARY_SUB:
        return number_first ? rsub_scalar(r, x) : sub_scalar(r, x);
    case BINARY_MUL:
        return mul_scalar(r, x);
    case BINARY_DIV:
        return number_first ? over_number(r, x) : div_scalar(r, x);
    case BINARY_POW:
        if (!number_first)
            return pow_scalar(r, x, c);
        return pointwise_op(r, OP_POW, dtype_of(r, x), x, 0);
    case BINARY_AND:
    case BINARY_OR:
    case BINARY_XOR:
        return pointwise_op(r, bitwise(op), dtype_of(r, x), x, 0);
    case BINARY_FLOORDIV:
        return pointwise_op(r, OP_DIV, dtype_of(r, x), x, 0);
    case BINARY_MOD:
        return pointwise_op(r, OP_REMAINDER, dtype_of(r, x), x, 0);
    default:
        (void)script_leave(s, "this operator between a tensor and a number");
        return 0;
    }
}

static val between(struct script *s, struct run *r, enum script_binary op, const struct operand *a, const struct operand *b)
{
    val x = value_in(a->t), y = value_in(b->t);

    if ((op == BINARY_MOD || op == BINARY_FLOORDIV) && r->grad_enabled && (r->values[x].requires_grad || r->values[y].requires_grad)) {
        (void)script_leave(s, "a remainder of tensors that wants a gradient");
        return 0;
    }
    switch (op) {
    case BINARY_ADD:
        return add(r, x, y);
    case BINARY_SUB:
        return sub(r, x, y);
    case BINARY_MUL:
        return mul(r, x, y);
    case BINARY_DIV:
        return divide(r, x, y);
    case BINARY_MATMUL:
        return matmul(r, x, y);
    case BINARY_AND:
    case BINARY_OR:
    case BINARY_XOR:
        return pointwise_op(r, bitwise(op), wider(a, b), x, y);
    case BINARY_POW:
        if (!is_followed(a->t) && !is_followed(b->t))
            return pointwise_op(r, OP_POW, wider(a, b), x, y);
        (void)script_leave(s, "a power of tensors that wants a gradient");
        return 0;
    case BINARY_MOD:
        return pointwise_op(r, OP_REMAINDER, wider(a, b), x, y);
    case BINARY_FLOORDIV:
        return pointwise_op(r, OP_DIV, wider(a, b), x, y);
    default:
        (void)script_leave(s, "this operator between tensors");
        return 0;
    }
}

/* a op= b where a gradient passes */
static sv write_into(struct script *s, enum script_binary op, sv a, sv b)
{
    static const struct script_native ops[BINARY_COUNT] = {
        [BINARY_ADD] = {.name = "add_", .data = OP_ADD},
        [BINARY_SUB] = {.name = "sub_", .data = OP_SUB},
        [BINARY_MUL] = {.name = "mul_", .data = OP_MUL},
        [BINARY_DIV] = {.name = "div_", .data = OP_DIV},
    };
    const struct script_args args = {.v = (sv[]){a, b}, .n = 2, .def = &ops[op]};

    if (!ops[op].name)
        return script_leave(s, "an operator that writes into a tensor that wants a gradient");
    return m_write_with(s, &args);
}

static sv matmul_of_vector(struct script *s, sv a, sv b, int dims, int dims_of_b)
{
    if (!dims || !dims_of_b)
        return script_raise(s, EXC_RuntimeError, "both arguments to matmul need to be at least 1D, but they are %dD and %dD", dims, dims_of_b);
    if (dims > 1)
        return written_formula(s, "mv", 2, (sv[]){a, b});
    if (dims_of_b > 1)
        return written_formula(s, "vector_first", 2, (sv[]){a, b});
    return script_leave(s, "a product of two vectors");
}

enum { HELD_ONCE = 2 }; /* by a name, and on the stack */

sv tensor_binary(struct script *s, enum script_binary op, sv a, sv b, bool in_place)
{
    bool sum = op == BINARY_ADD || op == BINARY_SUB; /* its gradient is that of what it is added to */
    struct operand x, y;
    struct content c;
    struct run *r;
    val out;

    if (!operand_of(s, a, &x) || !operand_of(s, b, &y))
        return sv_not_implemented();
    r = meet(s, &x, &y);
    if (!r)
        return sv_null();
    if (!script_charge(s, 1))
        return sv_null();
    if (!x.t && ((is_followed(y.t) && (op == BINARY_DIV || op == BINARY_POW)) || (op == BINARY_POW && on_device(natives_of(s), y.t))))
        return written_formula(s, op == BINARY_DIV ? "over" : "pow_of_number", 2, (sv[]){a, b});
    if (op == BINARY_POW && !in_place && x.t && y.t && (is_followed(x.t) || is_followed(y.t)))
        return written_formula(s, "pow_of_tensors", 2, (sv[]){a, b});
    if (op == BINARY_MATMUL && x.t && y.t && (shape_of(x.t)->ndim < 2 || shape_of(y.t)->ndim < 2))
        return matmul_of_vector(s, a, b, shape_of(x.t)->ndim, shape_of(y.t)->ndim);
    c = content_of(op, &x, &y);
    if (in_place && x.t && on_device(natives_of(s), x.t) && is_followed(x.t) && (shape_of(x.t)->base || shape_of(x.t)->leaf || x.t->base.h.refs > HELD_ONCE))
        return write_into(s, op, a, b); /* others see it, too */
    if (in_place && x.t && !y.t && op == BINARY_MUL && dtype_is_float((enum dtype)shape_of(x.t)->dtype)) {
        tensor_written(x.t);
        out = mul_scalar_in_place(r, value_in(x.t));
        return wrap_content(s, r, out, c);
    }
    if (in_place && x.t && (sum || !is_followed(x.t)) && !(y.t && is_followed(y.t))) {
        x.t->content = c; /* written over: no storage is made */
        tensor_written(x.t);
        return sv_keep(a);
    }
    if (in_place && x.t)
        return write_into(s, op, a, b);
    if (becomes_float(op, &x, &y))
        out = pointwise_op(r,
                           op == BINARY_MUL   ? OP_MUL
                           : op == BINARY_DIV ? OP_DIV
                           : op == BINARY_SUB ? OP_SUB
                           : op == BINARY_POW ? OP_POW
                                              : OP_ADD,
                           natives_of(s)->default_dtype, value_in(x.t ? x.t : y.t), x.t && y.t ? value_in(y.t) : 0);
    else if (x.t && y.t)
        out = between(s, r, op, &x, &y);
    else
        out = with_number(s, r, op, value_in(x.t ? x.t : y.t), x.t ? y.c : x.c, !x.t);
    if (script_failed(s)) {
        calls_held(r, CALLED_CONSUME, out);
        return sv_null();
    }
    return wrap_content(s, r, out, c);
}

/* ------------------------------------------------------------------------------------------------------- comparisons */
/* Where sequences of a row begin: their positions are 0 there, and the steps between neighbours no 1 (but down). */
static struct content compared_in_row(enum script_compare op, const struct tensor *t, double y)
{
    struct content c = t->content;

    if (c.kind == CONTENT_PACKED && y == 0 && op == COMPARE_EQ)
        return content_is(CONTENT_MARKS, c.c);
    if (c.kind == CONTENT_STEPS && y == 1 && op == COMPARE_NE)
        return content_is(CONTENT_MARKS, c.c);
    if (c.kind == CONTENT_STEPS && y == 0 && op == COMPARE_LT)
        return content_is(CONTENT_MARKS, c.c);
    if (c.kind == CONTENT_STEPS && ((y == 0 && op == COMPARE_GE) || (y == 1 && op == COMPARE_EQ)))
        return content_is(CONTENT_MARKS, (double)numel(t->run, value_in(t)) - c.c);
    return content_unknown();
}

/* Numbers of tokens: which of them a text has is not known, but that no other is special. */
static struct content compared_in_text(enum script_compare op, const struct tensor *t, double y)
{
    struct content c = t->content;

    if (y < 0 || (y == 0 && (op == COMPARE_LT || op == COMPARE_GE)))
        return content_const(op == COMPARE_NE || op == COMPARE_GT || op == COMPARE_GE);
    if ((op != COMPARE_EQ && op != COMPARE_NE) || y == c.skew)
        return content_unknown();
    if (y != c.c)
        return content_const(op == COMPARE_NE);
    if (op == COMPARE_NE)
        return content_is(CONTENT_PADDED, 1);
    return content_is(CONTENT_MARKS, (double)numel(t->run, value_in(t)) / (double)size_of(t->run, value_in(t), -1)); /* one in each row */
}

static struct content compared(enum script_compare op, const struct operand *a, const struct operand *b)
{
    double x, y;

    if (known(a, &x) && known(b, &y)) {
        bool holds = op == COMPARE_LT   ? x < y
                     : op == COMPARE_LE ? x <= y
                     : op == COMPARE_EQ ? x == y
                     : op == COMPARE_NE ? x != y
                     : op == COMPARE_GT ? x > y
                                        : x >= y;

        return content_const(holds);
    }
    /* a padded mask is itself where it is 1, and where it is not 0 */
    if (a->t && a->t->content.kind == CONTENT_PADDED && known(b, &y) &&
        (y == 1 ? op == COMPARE_EQ || op == COMPARE_GE : y == 0 && (op == COMPARE_NE || op == COMPARE_GT)))
        return a->t->content;
    if (a->t && b->t && a->t == b->t && op == COMPARE_EQ)
        return content_const(1);
    if (a->t && a->t->content.kind == CONTENT_TEXT && known(b, &y))
        return compared_in_text(op, a->t, y);
    if (a->t && known(b, &y))
        return is_of_choice(a->t->content) ? content_compared(op, a->t, y) : compared_in_row(op, a->t, y);
    return content_unknown();
}

sv tensor_compare(struct script *s, enum script_compare op, sv a, sv b)
{
    static const enum op ops[] = {OP_LT, OP_LE, OP_EQ, OP_NE, OP_GT, OP_GE}, mirrored[] = {OP_GT, OP_GE, OP_EQ, OP_NE, OP_LT, OP_LE};
    struct operand x, y;
    struct content c;
    struct run *r;
    val out;

    if (!operand_of(s, a, &x) || !operand_of(s, b, &y))
        return op == COMPARE_EQ ? sv_bool(false) : op == COMPARE_NE ? sv_bool(true) : sv_not_implemented();
    r = meet(s, &x, &y);
    if (!r || !script_charge(s, 1))
        return sv_null();
    c = compared(op, &x, &y);
    if (x.t && y.t)
        out = compare(r, ops[op], value_in(x.t), value_in(y.t));
    else
        out = compare(r, x.t ? ops[op] : mirrored[op], value_in(x.t ? x.t : y.t), 0);
    if (x.t && y.t && op == COMPARE_EQ && is_of_choice(x.t->content) && out && c.kind == CONTENT_UNKNOWN)
        c = content_beside_each(x.t, y.t, r->values[out].ndim);
    return wrap_content(s, r, out, c);
}

sv tensor_unary(struct script *s, enum script_unary op, sv self)
{
    struct tensor *t = need_tensor(s, self, "operator");
    struct content c = t->content, out = content_unknown();
    struct run *r = t->run;
    val x = value_in(t);
    enum dtype dtype = (enum dtype)shape_of(t)->dtype;

    if (!script_charge(s, 1))
        return sv_null();
    switch (op) {
    case UNARY_NEG:
        if (c.kind == CONTENT_CONST)
            out = content_const(-c.c);
        return wrap_content(s, r, neg(r, x), out);
    case UNARY_INVERT:
        if (c.kind == CONTENT_CONST)
            out = content_const(dtype == DTYPE_BOOL ? c.c == 0 : (double)~(int64_t)c.c);
        if (c.kind == CONTENT_MARKS && dtype == DTYPE_BOOL)
            out = content_is(CONTENT_MARKS, (double)numel(r, x) - c.c);
        return wrap_content(s, r, pointwise_op(r, OP_BITWISE_NOT, dtype, x, 0), out);
    case UNARY_ABS:
        if (c.kind == CONTENT_CONST)
            out = content_const(fabs(c.c));
        if (c.kind == CONTENT_STAIRS)
            out = c;
        return wrap_content(s, r, pointwise_op(r, OP_ABS, dtype, x, 0), out);
    default:
        return sv_keep(self);
    }
}

/* ---------------------------------------------------------------------------------------------------- what it holds */
sv tensor_item(struct script *s, struct tensor *t)
{
    if (t->content.kind != CONTENT_CONST && t->content.kind != CONTENT_RISING)
        return script_leave(s, "a value that data decides is read from a tensor");
    if (dtype_is_float((enum dtype)shape_of(t)->dtype))
        return sv_float(t->content.c);
    if (shape_of(t)->dtype == DTYPE_BOOL)
        return sv_bool(t->content.c != 0);
    return sv_int((int64_t)t->content.c);
}

int tensor_truth(struct script *s, sv self)
{
    struct tensor *t = need_tensor(s, self, "bool()");

    if (t->content.kind == CONTENT_CONST)
        return t->content.c != 0;
    if (t->content.kind == CONTENT_POSITIVE)
        return 1;
    (void)script_leave(s, "a branch that data decides: the truth of a tensor");
    return -1;
}
