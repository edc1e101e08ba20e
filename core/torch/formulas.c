/*
 * formulas.c - the backward of every node, in the order in which generated code and FunctionsManual.cpp evaluate it.
 *
 * Gradients are computed by falling name of the input (mat2 before self, other before self): the generator sorts them.
 * T() is a temporary of a C++ full expression: all of them die when the formula has run, the last first.
 */
#include "torch/autograd.h"
#include "torch/hooks.h"
#include "torch/sdpa.h"

#include <string.h>

static bool need(const struct back *b, int edge)
{
    return node_edge(&b->r->nodes[b->node], edge)->node != 0;
}

static val T(struct back *b, val v)
{
    if (v && b->r->values[v].floating) {
        b->r->values[v].floating = false;
        b->temp[b->n_temps++] = v;
    }
    return v;
}

/* A function that the formula calls returns: its temporaries die. */
static void T_end(struct back *b)
{
    while (b->n_temps)
        value_unref(b->r, b->temp[--b->n_temps]);
}

/* The gradient of input `edge`; a value that is passed on is held once more, one that nobody wants dies with the formula. */
static void put(struct back *b, int edge, val v)
{
    struct value *x = &b->r->values[v];

    if (!v)
        return;
    if (!need(b, edge)) {
        (void)T(b, v);
        return;
    }
    if (x->floating)
        x->floating = false;
    else
        x->refs++;
    b->out[edge] = v;
}

static val saved(struct back *b, int slot)
{
    return b->saved[slot];
}

static val point(struct back *b, enum op op, val a, val c)
{
    enum dtype t = dtype_of(b->r, a);

    if (c && dtype_of(b->r, c) > t && b->r->values[c].ndim)
        t = dtype_of(b->r, c);
    return pointwise(b->r, op, t, c ? 2 : 1, (val[]){a, c});
}

static struct node *self(struct back *b)
{
    return &b->r->nodes[b->node];
}

void back_none(struct back *b)
{
    run_fail(b->r, ERR_INTERNAL, "", "a node without a formula was reached by backward");
}

void back_pass(struct back *b)
{
    put(b, 0, b->grad[0]);
}

void back_pass_each(struct back *b)
{
    for (int i = 0; i < b->r->nodes[b->node].n_edges; i++)
        if (b->grad[i])
            put(b, i, b->grad[i]);
}

void back_hooked(struct back *b)
{
    hooks_run(b->r, self(b)->own);
    put(b, 0, b->grad[0]);
}

/* ------------------------------------------------------------------------------------------------------- elementwise */
void back_add(struct back *b)
{
    if (need(b, 1))
        put(b, 1, b->grad[0]);
    if (need(b, 0))
        put(b, 0, b->grad[0]);
}

void back_sub(struct back *b)
{
    if (self(b)->n_edges > 1 && need(b, 1))
        put(b, 1, point(b, OP_NEG, b->grad[0], 0));
    if (need(b, 0))
        put(b, 0, self(b)->op == OP_RSUB ? point(b, OP_NEG, b->grad[0], 0) : b->grad[0]);
}

/* other.conj() is a view that the product makes a tensor of: ConjugateFallback.cpp */
static val conjugate(struct back *b, val v)
{
    const struct value *x = &b->r->values[v];

    return x->dtype == DTYPE_COMPLEX64 ? T(b, value_empty(b->r, OP_CLONE, DTYPE_COMPLEX64, x->ndim, x->size)) : v;
}

void back_mul(struct back *b)
{
    struct node *n = self(b);
    int slot = 0;
    val for_self = 0, for_other = 0;

    if (n->n_edges == 1) { /* times a number */
        put(b, 0, point(b, OP_MUL, b->grad[0], 0));
        return;
    }
    if (need(b, 0))
        for_self = saved(b, slot++);
    if (need(b, 1))
        for_other = saved(b, slot);
    if (need(b, 1))
        put(b, 1, point(b, OP_MUL, b->grad[0], conjugate(b, for_other)));
    if (need(b, 0))
        put(b, 0, point(b, OP_MUL, b->grad[0], conjugate(b, for_self)));
}

void back_div(struct back *b)
{
    struct node *n = self(b);

    if (n->n_edges == 1) {
        put(b, 0, point(b, OP_DIV, b->grad[0], 0));
        return;
    }
    if (need(b, 1)) { /* -grad * ((self / other) / other): the right operand is made first, as traced */
        val once = T(b, point(b, OP_DIV, saved(b, 1), saved(b, 0)));
        val twice = T(b, point(b, OP_DIV, once, saved(b, 0)));
        val negative = T(b, point(b, OP_NEG, b->grad[0], 0));

        put(b, 1, point(b, OP_MUL, negative, twice)); /* div_tensor_other_grad */
        T_end(b);
    }
    if (need(b, 0))
        put(b, 0, point(b, OP_DIV, b->grad[0], saved(b, 0)));
}

void back_neg(struct back *b)
{
    put(b, 0, point(b, OP_NEG, b->grad[0], 0));
}

/* FunctionsManual.cpp pow_backward: grad * (exponent * self.pow(exponent - 1)) */
void back_pow(struct back *b)
{
    val power = T(b, point(b, OP_POW, saved(b, 0), 0));
    val scaled = T(b, point(b, OP_MUL, power, 0));

    put(b, 0, point(b, OP_MUL, b->grad[0], scaled));
}

/* -0.5 * grad * result.pow(3) */
void back_rsqrt(struct back *b)
{
    val cubed = T(b, point(b, OP_POW, saved(b, 0), 0));
    val halved = T(b, point(b, OP_MUL, b->grad[0], 0));

    put(b, 0, point(b, OP_MUL, halved, cubed));
}

void back_tanh(struct back *b)
{
    put(b, 0, point(b, OP_TANH_BACKWARD, b->grad[0], saved(b, 0)));
}

/* grad * result */
void back_exp(struct back *b)
{
    put(b, 0, point(b, OP_MUL, b->grad[0], saved(b, 0)));
}

/* grad * (result + 1) */
void back_expm1(struct back *b)
{
    put(b, 0, point(b, OP_MUL, b->grad[0], T(b, point(b, OP_ADD, saved(b, 0), 0))));
}

/* grad.div(self) */
void back_log(struct back *b)
{
    put(b, 0, point(b, OP_DIV, b->grad[0], saved(b, 0)));
}

/* grad / (2 * result) */
void back_sqrt(struct back *b)
{
    put(b, 0, point(b, OP_DIV, b->grad[0], T(b, point(b, OP_MUL, saved(b, 0), 0))));
}

/* 2.0 / sqrt(M_PI) * exp(-(self.pow(2))) * grad */
void back_erf(struct back *b)
{
    val squared = T(b, point(b, OP_POW, saved(b, 0), 0));
    val negative = T(b, point(b, OP_NEG, squared, 0));
    val bell = T(b, point(b, OP_EXP, negative, 0));
    val scaled = T(b, point(b, OP_MUL, bell, 0));

    put(b, 0, point(b, OP_MUL, scaled, b->grad[0]));
}

/* An activation whose kernel for backward is the next row of ops.def */
void back_kernel(struct back *b)
{
    put(b, 0, point(b, (enum op)(self(b)->op + 1), b->grad[0], saved(b, 0)));
}

void back_silu(struct back *b)
{
    put(b, 0, point(b, OP_SILU_BACKWARD, b->grad[0], saved(b, 0)));
}

void back_gelu(struct back *b)
{
    put(b, 0, point(b, OP_GELU_BACKWARD, b->grad[0], saved(b, 0)));
}

void back_relu(struct back *b)
{
    put(b, 0, point(b, OP_THRESHOLD_BACKWARD, saved(b, 0), b->grad[0])); /* Activation.cpp: laid out as self, grad is the other */
}

void back_to_copy(struct back *b)
{
    put(b, 0, cast_copy(b->r, b->grad[0], (enum dtype)self(b)->at.dim));
}

/* at::where(self == other, grad / 2, grad).masked_fill_(self < other, 0); arguments are evaluated from the last */
void back_maximum(struct back *b)
{
    enum dtype t = dtype_of(b->r, b->grad[0]);
    bool first = b->r->q->extreme_compares_first;
    val less = first ? T(b, pointwise(b->r, OP_LT, DTYPE_BOOL, 2, (val[]){saved(b, 1), saved(b, 0)})) : 0;
    val half = T(b, point(b, OP_DIV, b->grad[0], 0));
    val equal = T(b, pointwise(b->r, OP_EQ, DTYPE_BOOL, 2, (val[]){saved(b, 1), saved(b, 0)}));

    (void)half;
    val out = pointwise(b->r, OP_WHERE, t, 3, (val[]){equal, half, b->grad[0]});

    put(b, 0, out);
    if (!first)
        less = T(b, pointwise(b->r, OP_LT, DTYPE_BOOL, 2, (val[]){saved(b, 1), saved(b, 0)}));
    launch(b->r, OP_MASKED_FILL, out, 1, &less);
}

void back_masked_fill(struct back *b)
{
    put(b, 0, masked_clone(b->r, b->grad[0], saved(b, 0)));
}

/* where(condition, grad, 0), where(condition, 0, grad): the zero is a scalar tensor of its own */
void back_where(struct back *b)
{
    for (int e = 1; e >= 0; e--)
        if (need(b, e)) {
            val zero = owned(b->r, factory(b->r, OP_SCALAR_TENSOR, dtype_of(b->r, b->grad[0]), 0, NULL));

            put(b, e, pointwise(b->r, OP_WHERE, dtype_of(b->r, b->grad[0]), 3, (val[]){saved(b, 0), b->grad[0], zero}));
            value_unref(b->r, zero);
        }
}

/* clamp_backward: where((self < min).logical_or_(self > max), zero, grad) */
void back_clamp(struct back *b)
{
    val zero = T(b, factory(b->r, OP_SCALAR_TENSOR, dtype_of(b->r, b->grad[0]), 0, NULL)), x = saved(b, 0), outside = 0;

    for (int bound = 1; bound <= 2; bound++)
        if (self(b)->at.dim & bound)
            outside = T(b, pointwise(b->r, bound == 1 ? OP_LT : OP_GT, DTYPE_BOOL, 1, &x));
    put(b, 0, pointwise(b->r, OP_WHERE, dtype_of(b->r, b->grad[0]), 3, (val[]){outside, zero, b->grad[0]}));
}

void back_dropout(struct back *b)
{
    put(b, 0, pointwise(b->r, OP_DROPOUT_BACKWARD, dtype_of(b->r, b->grad[0]), 2, (val[]){b->grad[0], saved(b, 0)}));
}

/* -------------------------------------------------------------------------------------------------------- reductions */
/* unsqueeze_multiple: the dimensions that a reduction took */
static val with_dims(struct back *b, val g, val like)
{
    unsigned dims = (unsigned)self(b)->at.dim;

    for (int i = 0; i < b->r->values[like].ndim; i++)
        if (dims >> i & 1)
            g = T(b, unsqueeze(b->r, g, i));
    return g;
}

void back_sum(struct back *b)
{
    val m = self(b)->meta[0];
    val wide = with_dims(b, T(b, detach(b->r, b->grad[0])), m);

    put(b, 0, expand(b->r, wide, b->r->values[m].ndim, b->r->values[m].size));
}

/* mean_backward: sum_backward(grad).div(n): the expanded gradient is divided into a tensor of its own */
void back_mean(struct back *b)
{
    val m = self(b)->meta[0];
    val wide = with_dims(b, T(b, detach(b->r, b->grad[0])), m);

    wide = T(b, expand(b->r, wide, b->r->values[m].ndim, b->r->values[m].size));
    put(b, 0, point(b, OP_DIV, wide, 0));
}

/* cumsum_backward: grad.flip(dim).cumsum(dim).flip(dim), temporaries of one expression; nothing where there is one row */
void back_cumsum(struct back *b)
{
    struct run *r = b->r;
    val g = b->grad[0], m = self(b)->meta[0];

    if (dtype_of(r, g) != dtype_of(r, m))
        g = T(b, to_dtype(r, g, dtype_of(r, m)));
    if (size_of(r, g, self(b)->at.dim) == 1) {
        put(b, 0, detach(r, g));
        return;
    }
    g = T(b, point(b, OP_FLIP, g, 0));
    g = T(b, cumsum_raw(r, g, self(b)->at.dim, dtype_of(r, g)));
    put(b, 0, point(b, OP_FLIP, g, 0));
}

/* constant_pad_nd_backward: padded by less than nothing is cut, and copied. PadNd.cpp */
void back_pad(struct back *b)
{
    val m = self(b)->meta[0];

    put(b, 0, pad_raw(b->r, b->grad[0], b->r->values[m].size, false));
}

/* Convolution.cpp convolution_backward, cuda/DepthwiseConv2d.cu: weight, input, bias. Saved: input, weight */
void back_conv(struct back *b)
{
    struct run *r = b->r;
    val x = saved(b, 0), w = saved(b, 1), like = T(b, contiguous(r, x));
    val g = contiguous(r, b->grad[0]); /* the kernel's own */

    if (need(b, 1))
        put(b, 1, value_empty(r, OP_CONV_BACKWARD, dtype_of(r, w), r->values[w].ndim, r->values[w].size));
    launch(r, OP_CONV_BACKWARD, like, 1, &g);
    if (need(b, 0)) {
        val dx = value_empty(r, OP_CONV_BACKWARD, dtype_of(r, x), r->values[x].ndim, r->values[x].size);

        launch(r, OP_CONV_BACKWARD, dx, 1, &g);
        put(b, 0, dx);
    }
    consume(r, g);
    if (self(b)->n_edges > 2 && need(b, 2))
        put(b, 2, value_empty(r, OP_SUM, dtype_of(r, w), SHAPE(size_of(r, w, 0))));
}

/* SoftMax.cu host_softmax_backward: the kernel wants `grad` contiguous, once the output stands; fp32 results of half inputs come back in half */
static void softmax_output(struct back *b, enum op op, enum dtype dtype)
{
    val g = b->grad[0], out = value_empty(b->r, op, dtype, b->r->values[g].ndim, b->r->values[g].size);

    launch(b->r, op, out, 2, (val[]){g, saved(b, 0)});
    put(b, 0, out);
}

/* softmax_backward_cuda_out: tmp = grad * output */
void back_softmax(struct back *b)
{
    softmax_output(b, OP_SOFTMAX_BACKWARD, (enum dtype)self(b)->at.dim);
    (void)T(b, contiguous(b->r, T(b, point(b, OP_MUL, b->grad[0], saved(b, 0)))));
}

void back_log_softmax(struct back *b)
{
    softmax_output(b, OP_LOG_SOFTMAX_BACKWARD, dtype_of(b->r, saved(b, 0)));
    (void)T(b, contiguous(b->r, b->grad[0]));
}

/* grad * (self - result).exp(), both with the dimension back */
void back_logsumexp(struct back *b)
{
    val above = T(b, point(b, OP_SUB, saved(b, 0), 0)), e = T(b, point(b, OP_EXP, above, 0));

    put(b, 0, point(b, OP_MUL, e, 0));
}

void back_nll_loss(struct back *b)
{
    val x = saved(b, 0);

    val out = value_empty(b->r, OP_NLL_LOSS_BACKWARD, dtype_of(b->r, x), b->r->values[x].ndim, b->r->values[x].size);

    launch(b->r, OP_NLL_LOSS_BACKWARD, out, 0, NULL); /* zeros, then one element of each row */
    put(b, 0, out);
}

/* saved: bias, input, weight, mean, rstd; what the module has none of is not there */
void back_layer_norm(struct back *b)
{
    struct run *r = b->r;
    struct node *n = self(b);
    int slot = n->n_saved > 4; /* no bias: input first; no affine weight either: mean next */
    val x = saved(b, slot), w = saved(b, slot + 1);
    int64_t width = size_of(r, x, -1);
    val g = b->grad[0];

    if (!r->values[x].contiguous) /* input.expect_contiguous() */
        (void)T(b, value_empty(r, OP_CLONE, dtype_of(r, x), r->values[x].ndim, r->values[x].size));
    if (need(b, 0)) {
        val dx = value_empty(r, OP_LAYER_NORM_BACKWARD, dtype_of(r, x), r->values[x].ndim, r->values[x].size);

        launch(r, OP_LAYER_NORM_BACKWARD, dx, 2, (val[]){g, x});
        put(b, 0, dx);
    }
    if (need(b, 1) || (n->n_edges > 2 && need(b, 2))) /* GammaBetaBackward: one kernel for both */
        launch(r, OP_LAYER_NORM_BACKWARD, x, 1, &g);
    if (need(b, 1))
        put(b, 1, value_empty(r, OP_LAYER_NORM_BACKWARD, dtype_of(r, w), SHAPE(width)));
    if (n->n_edges > 2 && need(b, 2))
        put(b, 2, value_empty(r, OP_LAYER_NORM_BACKWARD, dtype_of(r, w), SHAPE(width)));
    (void)T(b, contiguous(r, g)); /* the kernels' caller makes it when the results stand */
}

/* _fused_rms_norm_backward_cuda: a contiguous input, both results, then a contiguous gradient in the kernels' caller */
void back_rms_norm(struct back *b)
{
    struct run *r = b->r;
    bool has_weight = self(b)->n_saved > 2;
    val g = b->grad[0], x = T(b, contiguous(r, T(b, detach(r, saved(b, 0)))));
    int64_t width = size_of(r, x, -1);

    if (need(b, 0)) {
        val dx = value_empty(r, OP_RMS_NORM_BACKWARD, dtype_of(r, x), r->values[x].ndim, r->values[x].size);

        launch(r, OP_RMS_NORM_BACKWARD, dx, 2, (val[]){g, x});
        put(b, 0, dx);
    }
    if (has_weight && need(b, 1)) {
        launch(r, OP_RMS_NORM_BACKWARD, x, 1, &g);
        put(b, 1, value_empty(r, OP_RMS_NORM_BACKWARD, dtype_of(r, saved(b, 1)), SHAPE(width)));
    }
    (void)T(b, contiguous(r, g));
}

/* --------------------------------------------------------------------------------------------------- matrix products */
static val flip(struct back *b, val v)
{
    return T(b, transposed(b->r, v, -2, -1));
}

/* mm_mat2_backward: a column-major factor gets a column-major gradient */
static void gradient_of_second(struct back *b, int edge, val first)
{
    struct run *r = b->r;

    if (self(b)->at.dim2) {
        val g = flip(b, b->grad[0]);

        put(b, edge, transposed(r, T(b, mm_raw(r, g, first)), 0, 1));
    } else {
        put(b, edge, mm_raw(r, flip(b, first), b->grad[0]));
    }
}

static void gradient_of_first(struct back *b, int edge, val second)
{
    struct run *r = b->r;

    if (self(b)->at.dim) {
        val g = flip(b, b->grad[0]);

        put(b, edge, transposed(r, T(b, mm_raw(r, second, g)), 0, 1));
    } else {
        put(b, edge, mm_raw(r, b->grad[0], flip(b, second)));
    }
}

void back_mm(struct back *b)
{
    int slot = 0;
    val second = need(b, 0) ? saved(b, slot++) : 0, first = need(b, 1) ? saved(b, slot) : 0;
    uint32_t held[FLOAT8_CASTS] = {0};

    if (self(b)->float8)
        float8_casts(b->r, b->grad[0], first, second, held);
    if (need(b, 1))
        gradient_of_second(b, 1, first);
    if (need(b, 0))
        gradient_of_first(b, 0, second);
    float8_ends(b->r, held);
}

/* edges: self (the bias), mat1, mat2; saved: mat1, mat2 */
void back_addmm(struct back *b)
{
    int slot = 0;
    val first = need(b, 2) ? saved(b, slot++) : 0, second = need(b, 1) ? saved(b, slot) : 0;
    uint32_t held[FLOAT8_CASTS] = {0};

    if (self(b)->float8)
        float8_casts(b->r, b->grad[0], first, second, held);
    if (need(b, 1))
        gradient_of_first(b, 1, second);
    if (need(b, 2))
        gradient_of_second(b, 2, first);
    if (need(b, 0))
        put(b, 0, b->grad[0]);
    float8_ends(b->r, held);
}

void back_bmm(struct back *b)
{
    struct run *r = b->r;
    int slot = 0;
    val second = need(b, 0) ? saved(b, slot++) : 0, first = need(b, 1) ? saved(b, slot) : 0;

    if (need(b, 1))
        put(b, 1, bmm_raw(r, flip(b, first), b->grad[0]));
    if (need(b, 0))
        put(b, 0, bmm_raw(r, b->grad[0], flip(b, second)));
}

/* FunctionsManual.cpp maybe_multiply(product, alpha) */
static val scaled(struct back *b, val product)
{
    val out;

    if (self(b)->at.p == 0)
        return product;
    out = point(b, OP_MUL, product, 0);
    consume(b->r, product);
    return out;
}

void back_baddbmm(struct back *b)
{
    struct run *r = b->r;
    int slot = 0;
    val first = need(b, 2) ? saved(b, slot++) : 0, second = need(b, 1) ? saved(b, slot) : 0;

    if (need(b, 1))
        put(b, 1, scaled(b, bmm_raw(r, b->grad[0], flip(b, second))));
    if (need(b, 2))
        put(b, 2, scaled(b, bmm_raw(r, flip(b, first), b->grad[0])));
    if (need(b, 0))
        put(b, 0, b->grad[0]);
}

/* --------------------------------------------------------------------------------------------------------- attention */
/* saved: key, query, value, logsumexp, output, rng state */
void back_flash(struct back *b)
{
    struct run *r = b->r;
    val k = saved(b, 0), q = saved(b, 1), v = saved(b, 2);
    int64_t n = size_of(r, q, 0), h = size_of(r, q, 1), s = size_of(r, q, 2), d = size_of(r, q, 3);
    int64_t kv = size_of(r, k, 1), sk = size_of(r, k, 2), rows = round_up(s, 128);
    enum dtype t = dtype_of(r, q);
    val dq, dk, dv;
    uint32_t delta, accum, wide_k = 0, wide_v = 0;

    (void)T(b, contiguous(r, T(b, transposed(r, b->grad[0], 1, 2)))); /* grad_out.contiguous(), out.contiguous() */
    (void)T(b, contiguous(r, T(b, transposed(r, saved(b, 4), 1, 2))));
    dq = pointwise(r, OP_FLASH_BACKWARD, t, 1, &q); /* empty_like: each has the layout of what it is the gradient of */
    dk = pointwise(r, OP_FLASH_BACKWARD, t, 1, &k);
    dv = pointwise(r, OP_FLASH_BACKWARD, t, 1, &v);
    launch_attention(r, OP_FLASH_BACKWARD, (struct attended){n, h, s, sk, d, self(b)->at.dim2}, q, k);
    delta = scratch_take(r, OP_FLASH_BACKWARD, (uint64_t)(n * h * rows * 4), MARK_NONE);
    accum = scratch_take(r, OP_FLASH_BACKWARD, (uint64_t)(n * rows * h * flash_head_rounded(r, d) * 4), MARK_NONE);
    if (kv != h) {
        wide_k = scratch_take(r, OP_FLASH_BACKWARD, (uint64_t)(n * sk * h * d) * dtype_bytes(t), MARK_NONE);
        wide_v = scratch_take(r, OP_FLASH_BACKWARD, (uint64_t)(n * sk * h * d) * dtype_bytes(t), MARK_NONE);
    }
    scratch_give(r, wide_v);
    scratch_give(r, wide_k);
    scratch_give(r, accum);
    scratch_give(r, delta);
    put(b, 0, dq);
    put(b, 1, dk);
    put(b, 2, dv);
}

/* saved: bias (if any), key, query, value, logsumexp, output, philox */
void back_cudnn_attention(struct back *b)
{
    struct run *r = b->r;
    int first = self(b)->at.dim; /* 1 with a mask */
    val k = saved(b, first), q = saved(b, first + 1), v = saved(b, first + 2), out = saved(b, first + 4), dq, dk, dv;
    struct attended a = {size_of(r, q, 0), size_of(r, q, 1), size_of(r, q, 2), size_of(r, k, 2), size_of(r, q, 3), self(b)->at.dim2};
    enum dtype t = dtype_of(r, q);

    dq = pointwise(r, OP_CUDNN_ATTENTION_BACKWARD, t, 1, &q); /* empty_like */
    dk = pointwise(r, OP_CUDNN_ATTENTION_BACKWARD, t, 1, &k);
    dv = pointwise(r, OP_CUDNN_ATTENTION_BACKWARD, t, 1, &v);
    if (r->values[b->grad[0]].stride[3] != 1) /* permute_to_matching_layout(): as the output lies */
        (void)T(b, pointwise(r, OP_CLONE, t, 1, &out));
    scratch(r, OP_CUDNN_ATTENTION_BACKWARD, cudnn_attention_bytes(&a, size_of(r, k, 1), size_of(r, v, 3), dtype_bytes(t)));
    launch_attention(r, OP_CUDNN_ATTENTION_BACKWARD, a, q, k);
    put(b, 0, dq);
    put(b, 1, dk);
    put(b, 2, dv);
}

/* saved: bias (if any), key, query, value, logsumexp, output, philox */
/* Of [batch, heads, tokens, width]: whether it lies as [batch, tokens, heads, width]. */
static bool lies_by_token(const struct value *x)
{
    int64_t step = 1;
    static const int order[] = {3, 1, 2, 0};

    for (int i = 0; i < 4; i++) {
        if (x->size[order[i]] != 1 && x->stride[order[i]] != step)
            return false;
        step *= x->size[order[i]];
    }
    return true;
}

void back_efficient(struct back *b)
{
    struct run *r = b->r;
    int first = self(b)->at.dim; /* 1 with a mask: it is saved before the others */
    val k = saved(b, first), q = saved(b, first + 1), v = saved(b, first + 2);
    int64_t n = size_of(r, q, 0), h = size_of(r, q, 1), s = size_of(r, q, 2), d = size_of(r, q, 3), sk = size_of(r, k, 2);
    int64_t kv = size_of(r, k, 1), wide = size_of(r, v, 3);
    enum dtype t = dtype_of(r, q);
    bool half = t != DTYPE_FP32;
    uint32_t delta, workspace, wide_k = 0, wide_v = 0;
    val dq, dk, dv;

    if (!lies_by_token(&r->values[b->grad[0]])) /* grad_out_.transpose(1, 2).contiguous() */
        (void)T(b, value_empty(r, OP_CLONE, t, SHAPE(n, s, h, wide)));
    dq = value_empty(r, OP_EFFICIENT_BACKWARD, t, SHAPE(n, s, h, d));
    dk = value_empty(r, OP_EFFICIENT_BACKWARD, t, SHAPE(n, sk, kv, d));
    dv = value_empty(r, OP_EFFICIENT_BACKWARD, t, SHAPE(n, sk, kv, wide));
    launch_attention(r, OP_EFFICIENT_BACKWARD, (struct attended){n, h, s, sk, d, self(b)->at.dim2}, q, k);
    if (kv != h) { /* grouped heads: computed wide, then summed */
        wide_k = scratch_take(r, OP_EFFICIENT_BACKWARD, (uint64_t)(n * sk * h * d) * dtype_bytes(t), MARK_NONE);
        wide_v = scratch_take(r, OP_EFFICIENT_BACKWARD, (uint64_t)(n * sk * h * wide) * dtype_bytes(t), MARK_NONE);
    }
    if (self(b)->n_edges > 3) /* the mask's: rows of a multiple of 16 elements */
        put(b, 3, slice(r, value_empty(r, OP_EFFICIENT_BACKWARD, dtype_of(r, saved(b, 0)), SHAPE(n, h, s, round_up(sk, 16))), -1, 0, sk));
    if (half) { /* the kernel computes delta itself */
        delta = scratch_take(r, OP_EFFICIENT_BACKWARD, (uint64_t)(n * h * s * 4), MARK_NONE);
    } else { /* (grad.to(float) * out.to(float)).sum(-1).transpose(-2, -1).contiguous(), which it is where one of them is 1 */
        uint32_t product = scratch_take(r, OP_MUL, (uint64_t)(n * h * s * wide * 4), MARK_NONE);
        uint32_t sum = scratch_take(r, OP_SUM, (uint64_t)(n * h * s * 4), MARK_NONE);

        delta = s == 1 || h == 1 ? sum : scratch_take(r, OP_CLONE, (uint64_t)(n * h * s * 4), MARK_NONE);
        if (delta != sum)
            scratch_give(r, sum);
        scratch_give(r, product);
    }
    workspace = scratch_take(r, OP_EFFICIENT_BACKWARD, (uint64_t)efficient_workspace_bytes(r, n, h, s, sk, d, wide, half, self(b)->at.p > 0),
                             MARK_NONE);
    scratch_give(r, delta);
    scratch_give(r, workspace);
    scratch_give(r, wide_v);
    scratch_give(r, wide_k);
    put(b, 0, transpose(r, dq, 1, 2));
    put(b, 1, transpose(r, dk, 1, 2));
    put(b, 2, transpose(r, dv, 1, 2));
    for (int e = 0; e < self(b)->n_edges; e++)
        if (b->out[e])
            r->values[b->out[e]].view = false;
}

/* -------------------------------------------------------------------------------------------------------- embeddings */
/* cuda/Embedding.cu: up to 3,072 ids (and in other cases, see the source) one kernel into zeros; more are sorted first.
 * EmbeddingBackwardKernel.cu: what the segments of equal ids take. The scratch of cub's sort and scans was read off both
 * traced versions (tests/data/ops): keys and values once more, a histogram a tile and one a pass. */
enum { SORT_PASSES = 12 }; /* reads and writes of the ids: sort, segments, scans */
enum { SHORT_PATH_IDS = 3072, SORT_ONE_TILE = 2304, SORT_TILE = 3840, ROWS_PER_THREAD = 10 };

static int64_t key_bits(int64_t largest)
{
    int64_t bits = 1;

    for (; largest > 1; largest >>= 1)
        bits++;
    return bits;
}

/* cub's radix sort of int64 pairs: both once more where it passes over them twice, counts of 256 digits for each tile and for each 8 bits of the keys */
static int64_t sort_bytes(int64_t n, int64_t bits)
{
    return (bits > 8 ? 2 * round_up(n * 8, 256) : 0) + (n + SORT_TILE - 1) / SORT_TILE * 1024 + (bits + 7) / 8 * 2048 + 511;
}

/* EmbeddingBackwardKernel.cu use_fused_kernel: blocks of up to 1,024 threads, four of them for each SM */
static bool few_segments(const struct run *r, int64_t segments, int64_t partial, int64_t width)
{
    int64_t warped = round_up(width, 32), block = warped < 1024 ? warped : 1024, grid = div_up(segments * warped, block);

    return r->q->embedding_fuses_few_rows && grid < 4 * (int64_t)r->device.multiprocessors && partial > 4 * grid;
}

/*
 * torch/_decomp/decompositions.py embedding_dense_backward, which Inductor takes: rows are added in fp32, and the sum is cast. What makes a row's
 * gradient is one kernel with it and reads what eager has let go of: gradients of three products that read the first norm, the residual's, and the
 * embedding, with a number a row of the norm (output_code of llama, torch 2.15).
 */
enum { FUSED_BEYOND_EAGER = 4 };

static void back_embedding_compiled(struct back *b)
{
    struct run *r = b->r;
    int64_t rows = self(b)->at.i[0], tokens = self(b)->at.i[1], width = size_of(r, b->grad[0], -1);
    uint64_t hidden = (uint64_t)numel(r, b->grad[0]) * dtype_bytes(dtype_of(r, b->grad[0]));
    uint32_t fused = scratch_take(r, OP_EMBEDDING_DENSE_BACKWARD, FUSED_BEYOND_EAGER * hidden + (uint64_t)tokens * 4, MARK_NONE);
    val sum = factory(r, OP_ZEROS, DTYPE_FP32, SHAPE(rows, width));

    launch(r, OP_EMBEDDING_DENSE_BACKWARD, sum, 1, b->grad);
    if (dtype_of(r, b->grad[0]) == DTYPE_FP32)
        put(b, 0, sum);
    else
        put(b, 0, cast_copy(r, T(b, sum), dtype_of(r, b->grad[0])));
    scratch_give(r, fused);
}

void back_embedding(struct back *b)
{
    struct run *r = b->r;
    int64_t rows = self(b)->at.i[0], ids = self(b)->at.i[1], width = size_of(r, b->grad[0], -1), bytes = ids * 8;
    int64_t segments = ids < rows ? ids : rows, partial = ids / ROWS_PER_THREAD + segments;
    enum op op = OP_EMBEDDING_DENSE_BACKWARD;
    uint32_t keep[9], range;
    int64_t sort;

    if (r->compiled) {
        back_embedding_compiled(b);
        return;
    }
    (void)T(b, contiguous(r, saved(b, 0)));
    if (!r->values[b->grad[0]].contiguous) /* grad_.contiguous() */
        (void)T(b, value_empty(r, OP_CLONE, dtype_of(r, b->grad[0]), r->values[b->grad[0]].ndim, r->values[b->grad[0]].size));
    if (ids <= SHORT_PATH_IDS) {
        put(b, 0, factory(r, OP_ZEROS, dtype_of(r, b->grad[0]), SHAPE(rows, width)));
        launch(r, op, b->grad[0], 1, b->grad); /* adds rows onto rows */
        return;
    }
    sort = sort_bytes(ids, r->q->embedding_sorts_all_bits ? 64 : key_bits(rows));
    keep[0] = scratch_take(r, op, (uint64_t)bytes, MARK_NONE); /* sorted ids */
    keep[1] = scratch_take(r, op, (uint64_t)bytes, MARK_NONE); /* their places */
    range = scratch_take(r, OP_ARANGE, (uint64_t)bytes, MARK_NONE);
    scratch(r, op, (uint64_t)sort);
    scratch_give(r, range);
    put(b, 0, factory(r, OP_ZEROS, dtype_of(r, b->grad[0]), SHAPE(rows, width)));
    launch(r, op, b->grad[0], 1, b->grad);
    launch_move(r, op, (uint64_t)bytes * SORT_PASSES, SORT_PASSES);
    keep[2] = scratch_take(r, op, (uint64_t)bytes, MARK_NONE); /* segment offsets */
    keep[3] = scratch_take(r, op, 8, MARK_NONE);
    range = scratch_take(r, op, (uint64_t)bytes, MARK_NONE);
    scratch(r, op, (uint64_t)(cub_states_bytes(ids, r->q->cub_unique_tile, 8) + r->q->cub_unique_tail_bytes));
    scratch_give(r, range);
    keep[4] = scratch_take(r, op, (uint64_t)segments * 8, MARK_NONE); /* partials of a segment */
    keep[5] = scratch_take(r, op, (uint64_t)segments * 8, MARK_NONE);
    scratch(r, op, (uint64_t)cub_scan_bytes(r, segments, 8));
    keep[6] = scratch_take(r, op, 8, MARK_NONE);
    keep[7] = scratch_take(r, op, (uint64_t)partial * 8, MARK_NONE);
    if (few_segments(r, segments, partial, width)) {
        keep[8] = scratch_take(r, op, (uint64_t)partial * 8, MARK_NONE); /* whose each is */
        if (dtype_bytes(dtype_of(r, b->grad[0])) < 4)
            scratch(r, OP_ZEROS, (uint64_t)(rows * width * 4));
    } else {
        keep[8] = scratch_take(r, op, (uint64_t)(partial * width * 4), MARK_NONE);
    }
    for (int i = 9; i-- > 0;)
        scratch_give(r, keep[i]);
}

/* ------------------------------------------------------------------------------------------------------------ shapes */
void back_view(struct back *b)
{
    struct node *n = self(b);
    int64_t size[MAX_DIMS];
    int nd = n->at.dim2;

    memcpy(size, n->at.i, sizeof size);
    put(b, 0, view_as(b->r, b->grad[0], nd, size));
}

void back_transpose(struct back *b)
{
    int packed = self(b)->at.dim;

    put(b, 0, transposed(b->r, b->grad[0], packed / MAX_DIMS, packed % MAX_DIMS));
}

void back_permute(struct back *b)
{
    int packed = self(b)->at.dim, nd = self(b)->at.dim2, back[MAX_DIMS];

    for (int i = 0; i < nd; i++)
        back[packed >> (3 * i) & 7] = i;
    put(b, 0, permute(b->r, b->grad[0], nd, back));
}

void back_view_as_complex(struct back *b)
{
    put(b, 0, view_as_real(b->r, b->grad[0]));
}

void back_view_as_real(struct back *b)
{
    put(b, 0, view_as_complex(b->r, contiguous(b->r, b->grad[0])));
}

void back_unsqueeze(struct back *b)
{
    put(b, 0, squeeze(b->r, b->grad[0], self(b)->at.dim));
}

void back_squeeze(struct back *b)
{
    put(b, 0, unsqueeze(b->r, b->grad[0], self(b)->at.dim));
}

/* at::sum_to(grad, self.sizes()) */
void back_expand(struct back *b)
{
    struct node *n = self(b);
    val like = T(b, value_new(b->r, DTYPE_BOOL, n->at.dim2, n->at.i));

    put(b, 0, sum_to(b->r, b->grad[0], like));
}

/* zeros of the whole, the gradient copied into its part */
static void part_of_zeros(struct back *b)
{
    struct node *n = self(b);

    put(b, 0, factory(b->r, OP_ZEROS, dtype_of(b->r, b->grad[0]), n->at.dim2, n->at.i));
    launch(b->r, OP_CLONE, b->grad[0], 1, b->grad);
}

void back_slice(struct back *b)
{
    part_of_zeros(b);
}

void back_select(struct back *b)
{
    part_of_zeros(b);
}

static val zeros_of_part(struct back *b, int k)
{
    struct node *n = self(b);
    const struct value *m = &b->r->values[n->meta[0]];
    int64_t size[MAX_DIMS];

    memcpy(size, m->size, sizeof size);
    size[n->at.dim] = n->wide ? n->wide->length[k] : n->at.i[k];
    return owned(b->r, factory(b->r, OP_ZEROS, (enum dtype)m->dtype, m->ndim, size));
}

/* split_backward: what has no gradient is zeros, then everything is concatenated */
void back_split(struct back *b)
{
    struct node *n = self(b);
    const struct value *m = &b->r->values[n->meta[0]];
    val few[MAX_OUTPUTS], *zeros = n->wide ? n->wide->zeros : few, whole;
    int n_zeros = 0;
    bool last = true; /* TensorShape.cpp cat_compute_output_memory_format() */

    for (int k = 0; k < n->n_outputs; k++) {
        val g = n->wide ? n->wide->grad[k] : b->grad[k];

        last = last && g && suggests_channels_last(b->r, g);
        if (!g)
            zeros[n_zeros++] = zeros_of_part(b, k);
    }
    whole = value_empty(b->r, OP_CAT, (enum dtype)m->dtype, m->ndim, m->size);
    if (last)
        make_channels_last(b->r, whole);
    launch(b->r, OP_CAT, whole, 1, &whole); /* the parts are as large as the whole */
    put(b, 0, whole);
    for (int k = 0; k < n_zeros; k++)
        value_unref(b->r, zeros[k]);
}

/* unbind_backward: what has no gradient is zeros, then everything is stacked */
void back_unbind(struct back *b)
{
    struct node *n = self(b);
    const struct value *m = &b->r->values[n->meta[0]];
    val few[MAX_OUTPUTS], *zeros = n->wide ? n->wide->zeros : few, whole;
    int64_t size[MAX_DIMS];
    int n_zeros = 0, nd = 0;

    for (int i = 0; i < m->ndim; i++)
        if (i != n->at.dim)
            size[nd++] = m->size[i];
    for (int k = 0; k < n->n_outputs; k++)
        if (!(n->wide ? n->wide->grad[k] : b->grad[k]))
            zeros[n_zeros++] = owned(b->r, factory(b->r, OP_ZEROS, (enum dtype)m->dtype, nd, size));
    whole = value_empty(b->r, OP_STACK, (enum dtype)m->dtype, m->ndim, m->size);
    launch(b->r, OP_STACK, whole, 1, &whole);
    put(b, 0, whole);
    for (int k = 0; k < n_zeros; k++)
        value_unref(b->r, zeros[k]);
}

/* cat_tensors_backward: views of the gradient */
void back_cat(struct back *b)
{
    struct node *n = self(b);
    int64_t from = 0;

    for (int k = 0; k < n->n_edges; k++) {
        int64_t length = n->many ? n->many->length[k] : n->at.i[k];

        if (need(b, k))
            put(b, k, slice(b->r, b->grad[0], n->at.dim, from, from + length));
        from += length;
    }
}

/* stack_tensors_backward: the same, one index each */
void back_stack(struct back *b)
{
    struct node *n = self(b);

    for (int k = 0; k < n->n_edges; k++)
        if (need(b, k))
            put(b, k, select_op(b->r, b->grad[0], n->at.dim, k));
}

/* -------------------------------------------------------------------------------------------------- the flash-attn package */
static val empty_like(struct back *b, val of)
{
    return pointwise(b->r, OP_EMPTY_STRIDED, dtype_of(b->r, of), 1, &of);
}

/* flash_api.cpp mha_bwd: saved q, k, v, out, lse, rng state; grouped heads are computed wide and summed */
void back_flash_attn(struct back *b)
{
    struct run *r = b->r;
    val q = b->saved[0], k = b->saved[1], v = b->saved[2];
    int64_t n = size_of(r, q, 0), s = size_of(r, q, 1), h = size_of(r, q, 2), d = size_of(r, q, 3);
    int64_t sk = size_of(r, k, 1), kv = size_of(r, k, 2), rows = round_up(s, 128);
    int64_t wide_head = d <= 192 ? round_up(d, 32) : 256;
    uint32_t delta, accum, wide_k = 0, wide_v = 0;

    put(b, 0, empty_like(b, q));
    put(b, 1, empty_like(b, k));
    put(b, 2, empty_like(b, v));
    launch_attention(r, OP_FLASH_BACKWARD, (struct attended){n, h, s, sk, d, true}, q, k);
    if (r->flash_3) {
        flash_3_backward(r, (struct attended){n, h, s, sk, d, true}, kv, 0);
        return;
    }
    delta = scratch_take(r, OP_EMPTY, (uint64_t)(n * h * rows * 4), MARK_NONE);
    accum = scratch_take(r, OP_EMPTY, (uint64_t)(n * rows * h * wide_head * 4), MARK_NONE);
    if (kv != h) {
        wide_k = scratch_take(r, OP_EMPTY, (uint64_t)(n * sk * h * d) * dtype_bytes(dtype_of(r, k)), MARK_NONE);
        wide_v = scratch_take(r, OP_EMPTY, (uint64_t)(n * sk * h * d) * dtype_bytes(dtype_of(r, v)), MARK_NONE);
    }
    scratch_give(r, delta);
    scratch_give(r, accum);
    scratch_give(r, wide_k);
    scratch_give(r, wide_v);
}

/* flash_api.cpp mha_varlen_bwd: the tiles of each sequence are rounded up apart */
void back_flash_varlen(struct back *b)
{
    struct run *r = b->r;
    val q = b->saved[0], k = b->saved[1], v = b->saved[2];
    int64_t tokens = size_of(r, q, 0), h = size_of(r, q, 1), d = size_of(r, q, 2), kv = size_of(r, k, 1);
    int64_t rows = tokens + 128 * self(b)->at.i[0], wide_head = d <= 192 ? round_up(d, 32) : 256;
    struct attended shape = {self(b)->at.i[0], h, div_up(tokens, self(b)->at.i[0]), div_up(size_of(r, k, 0), self(b)->at.i[0]), d, true};
    uint32_t delta, accum, wide_k = 0, wide_v = 0;

    put(b, 0, empty_like(b, q));
    put(b, 1, empty_like(b, k));
    put(b, 2, empty_like(b, v));
    launch_attention(r, OP_FLASH_BACKWARD, shape, q, k);
    if (r->flash_3) {
        flash_3_backward(r, shape, kv, tokens);
        return;
    }
    delta = scratch_take(r, OP_EMPTY, (uint64_t)(h * rows * 4), MARK_NONE);
    accum = scratch_take(r, OP_EMPTY, (uint64_t)(rows * h * wide_head * 4), MARK_NONE);
    if (kv != h) {
        wide_k = scratch_take(r, OP_EMPTY, (uint64_t)(tokens * h * d) * dtype_bytes(dtype_of(r, k)), MARK_NONE);
        wide_v = scratch_take(r, OP_EMPTY, (uint64_t)(tokens * h * d) * dtype_bytes(dtype_of(r, v)), MARK_NONE);
    }
    scratch_give(r, delta);
    scratch_give(r, accum);
    scratch_give(r, wide_k);
    scratch_give(r, wide_v);
}

/* bert_padding.py: the gradient of picking rows is zeros with rows put among them, and the reverse */
static val rows_of_gradient(struct back *b, enum op op, int dim, int64_t rows)
{
    int64_t size[MAX_DIMS];
    val g = b->grad[0];

    val out;

    memcpy(size, b->r->values[g].size, sizeof size);
    size[dim] = rows;
    out = value_empty(b->r, op, dtype_of(b->r, g), b->r->values[g].ndim, size);
    launch(b->r, op, out, 1, &g);
    return out;
}

void back_index_first(struct back *b)
{
    put(b, 0, rows_of_gradient(b, OP_ZEROS, 0, self(b)->at.i[0]));
}

void back_index_put_first(struct back *b)
{
    put(b, 0, rows_of_gradient(b, OP_INDEX, 0, numel(b->r, b->saved[0])));
}

/* index_backward: _index_put_impl_ of zeros, accumulating: linear indices are sorted, in one tile while they fit it */
void back_index(struct back *b)
{
    struct run *r = b->r;
    int64_t n = numel(r, b->saved[0]), rows = self(b)->at.i[0], bytes = n * 8;
    uint32_t wrapped, linear, sorted, places, range;

    put(b, 0, rows_of_gradient(b, OP_NEW_ZEROS, self(b)->at.dim, rows));
    wrapped = scratch_take(r, OP_REMAINDER, (uint64_t)bytes, MARK_NONE);
    linear = scratch_take(r, OP_MUL, (uint64_t)bytes, MARK_NONE);
    scratch_give(r, wrapped);
    sorted = scratch_take(r, OP_INDEX_PUT, (uint64_t)bytes, MARK_NONE);
    places = scratch_take(r, OP_INDEX_PUT, (uint64_t)bytes, MARK_NONE);
    range = scratch_take(r, OP_ARANGE, (uint64_t)bytes, MARK_NONE);
    scratch(r, OP_INDEX_PUT, n <= SORT_ONE_TILE ? 1 : (uint64_t)sort_bytes(n, key_bits(rows - 1)));
    scratch_give(r, range);
    scratch_give(r, places);
    scratch_give(r, sorted);
    scratch_give(r, linear);
}

/* The same with an index for each of `dims` dimensions, each wrapped and scaled, the later added to the first */
static void put_at_places(struct run *r, val grad, int64_t n, int dims, int64_t elems)
{
    val laid_out;
    const int64_t bytes = n * 8;
    uint32_t linear = 0, sorted, order, range;

    for (int d = 0; d < dims; d++) {
        uint32_t wrapped = scratch_take(r, OP_REMAINDER, (uint64_t)bytes, MARK_NONE), scaled = scratch_take(r, OP_MUL, (uint64_t)bytes, MARK_NONE);

        scratch_give(r, wrapped);
        if (d)
            scratch_give(r, scaled);
        else
            linear = scaled;
    }
    laid_out = owned(r, contiguous(r, grad));
    sorted = scratch_take(r, OP_INDEX_PUT, (uint64_t)bytes, MARK_NONE);
    order = scratch_take(r, OP_INDEX_PUT, (uint64_t)bytes, MARK_NONE);
    range = scratch_take(r, OP_ARANGE, (uint64_t)bytes, MARK_NONE);
    scratch(r, OP_INDEX_PUT, n <= SORT_ONE_TILE ? 1 : (uint64_t)sort_bytes(n, key_bits(elems - 1)));
    scratch_give(r, range);
    scratch_give(r, order);
    scratch_give(r, sorted);
    value_unref(r, laid_out);
    scratch_give(r, linear);
}

void back_index_pair(struct back *b)
{
    struct run *r = b->r;
    const struct value *m = &r->values[self(b)->meta[0]];

    put(b, 0, factory(r, OP_NEW_ZEROS, (enum dtype)m->dtype, m->ndim, m->size));
    put_at_places(r, b->grad[0], numel(r, b->saved[0]), 2, m->size[0] * m->size[1]);
}

/* Where a mask chose them, nonzero() says again which */
void back_mask_index(struct back *b)
{
    struct run *r = b->r;
    int64_t n = self(b)->at.i[0];
    int dims = r->values[b->saved[0]].ndim;
    uint32_t places;
    const struct value *m = &r->values[self(b)->meta[0]];

    put(b, 0, factory(r, OP_NEW_ZEROS, (enum dtype)m->dtype, m->ndim, m->size));
    places = scratch_take(r, OP_NONZERO, (uint64_t)(n * 8 * dims), MARK_NONE);
    put_at_places(r, b->grad[0], n, dims, numel(r, b->saved[0]));
    scratch_give(r, places);
}

/* masked_scatter_backward: grad.masked_select(mask), in the source's shape */
void back_masked_scatter(struct back *b)
{
    struct run *r = b->r;
    const struct value *m = &r->values[self(b)->meta[1]];
    int64_t n = self(b)->at.i[0];
    uint32_t places = scratch_take(r, OP_NONZERO, (uint64_t)(n * 8 * r->values[b->saved[0]].ndim), MARK_NONE);
    val out = factory(r, OP_INDEX, dtype_of(r, b->grad[0]), 1, &n);

    scratch_give(r, places);
    put(b, 1, view(r, out, m->ndim, m->size));
}

/* ------------------------------------------------------------------------------------------------------- bloom's GeLU */
/* modeling_bloom.py bloom_gelu_back(g, x); Python's order of temporaries. Gradients are off, so these are plain operators. */
void back_gelu_function(struct back *b)
{
    struct run *r = b->r;
    struct frame f = frame_enter(r);
    val x = b->saved[0], inner, squared, tanh_out, slope, left, out;

    inner = mul_scalar(r, x);                              /* 0.79788456 * x */
    squared = add_scalar(r, mul(r, mul_scalar(r, x), x));  /* 1 + 0.044715 * x * x */
    tanh_out = local(r, tanh_op(r, mul(r, inner, squared)));
    left = mul_scalar(r, x);                               /* 0.5 * x */
    slope = rsub_scalar(r, mul(r, tanh_out, tanh_out));    /* 1 - tanh_out * tanh_out */
    squared = add_scalar(r, mul(r, mul_scalar(r, x), x));  /* 0.79788456 + 0.1070322243 * x * x */
    left = mul(r, left, mul(r, slope, squared));
    slope = mul_scalar(r, add_scalar(r, tanh_out));        /* 0.5 * (1 + tanh_out) */
    out = local(r, add(r, left, slope));
    put(b, 0, mul(r, out, b->grad[0]));
    (void)frame_leave(r, f, 0);
}
