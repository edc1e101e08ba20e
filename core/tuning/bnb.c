/* bnb.c - Linear4bit: forward, and MatMul4Bit with its backward. See bnb.h. */
#include "tuning/bnb.h"

#include "torch/autograd.h"
#include "torch/function.h"
#include "torch/ops.h"
#include "tuning/bnb_inside.h"

/* dequantize_blockwise(absmax, state2) += offset: the scales of a doubly quantised weight */
static val scales(struct run *r, const struct bnb_linear *l)
{
    val v = value_empty(r, OP_DEQUANTIZE_BLOCKWISE, DTYPE_FP32, SHAPE(l->blocks));

    work_add(r, OP_DEQUANTIZE_BLOCKWISE, (uint64_t)l->blocks, (uint64_t)l->blocks * 14, 2); /* in place: + offset */
    return v;
}

static val unpacked_as(struct run *r, const struct bnb_linear *l, enum op op, enum dtype dtype, int ndim, const int64_t *size)
{
    val v = value_empty(r, op, dtype, ndim, size);
    uint64_t n = (uint64_t)(l->out * l->in);

    work_add(r, OP_DEQUANTIZE_4BIT, n, n / 2 + (uint64_t)l->blocks * 4 + n * dtype_bytes(dtype), 1);
    return v;
}

/* A half copy of the weight, or one of what `dtype` says. */
static val unpacked(struct run *r, const struct bnb_linear *l, enum op op, enum dtype dtype)
{
    return unpacked_as(r, l, op, dtype, SHAPE(l->out, l->in));
}

/* _dequant_linear_fallback: its locals die with it, in the order of its arguments */
static val gemm_unpacked(struct run *r, const struct bnb_linear *l, val x, val bias)
{
    struct frame f = frame_enter(r);
    val weight, out;

    if (!r->q->bnb_gemm_4bit) { /* F.linear(A, F.dequantize_4bit(B, state).to(A.dtype).t(), bias) */
        val absmax = l->doubly ? owned(r, scales(r, l)) : 0, half;

        half = weight = owned(r, unpacked(r, l, OP_DEQUANTIZE_4BIT, l->dtype));
        value_unref(r, absmax);
        if (l->dtype != dtype_of(r, x) && !run_dead(r)) {
            weight = owned(r, cast_copy(r, half, dtype_of(r, x)));
            value_unref(r, half);
        }
        out = linear_op(r, x, weight, bias);
        value_unref(r, weight);
        return frame_leave(r, f, out);
    }
    if (l->doubly) {
        val stored = owned(r, scales(r, l)), sum = value_empty(r, OP_ADD, DTYPE_FP32, SHAPE(l->blocks));

        (void)local(r, sum);
        (void)local(r, stored);
        value_unref(r, stored); /* the frame's alone */
    }
    weight = local(r, unpacked(r, l, OP_GEMM_4BIT, dtype_of(r, x)));
    out = linear_op(r, x, weight, bias);
    return frame_leave(r, f, out);
}

static val gemm_4bit(struct run *r, const struct bnb_linear *l, val x, val bias)
{
    int64_t size[MAX_DIMS], rows = numel(r, x) / l->in;
    int n = value_of(r, x)->ndim;
    val out;

    if (!r->q->bnb_gemm_4bit || !bnb_gemm_is_fused(&r->device, dtype_of(r, x), rows, l->out, l->in))
        return gemm_unpacked(r, l, x, bias);
    for (int i = 0; i < n; i++)
        size[i] = size_of(r, x, i);
    size[n - 1] = l->out;
    out = value_empty(r, OP_GEMM_4BIT, dtype_of(r, x), n, size);
    work_add(r, OP_GEMM_4BIT, (uint64_t)(2 * rows * l->in * l->out),
             (uint64_t)(l->in * l->out / 2 + 4 * l->blocks + rows * (l->in + l->out) * (int64_t)dtype_bytes(dtype_of(r, x))), 1);
    return out;
}

val bnb_unpacked(struct run *r, const struct bnb_linear *l, int ndim, const int64_t *size)
{
    const val absmax = l->doubly ? owned(r, scales(r, l)) : 0, weight = unpacked_as(r, l, OP_DEQUANTIZE_4BIT, l->dtype, ndim, size);

    value_unref(r, absmax); /* a local of dequantize_4bit() */
    return weight;
}

static val dequantised(struct run *r, const struct bnb_linear *l)
{
    return bnb_unpacked(r, l, SHAPE(l->out, l->in));
}

val bnb_dequantised(struct run *r, struct module *m)
{
    return dequantised(r, m->extra);
}

val bnb_unpacked_first(struct run *r, struct module *m)
{
    const struct bnb_linear *l = m->extra;
    val weight = unpacked(r, l, OP_DEQUANTIZE_4BIT, l->dtype);

    if (l->doubly)
        value_unref(r, owned(r, scales(r, l)));
    return weight;
}

void bnb_context_end(struct run *r, void *context)
{
    struct bnb_context *c = context;

    value_unref(r, c->kept);
    value_unref(r, c->codes);
    value_unref(r, c->columns);
    c->kept = c->codes = c->columns = 0;
    c->next = c->linear->idle;
    c->linear->idle = c;
}

struct bnb_context *bnb_context(struct run *r, struct bnb_linear *l, bnb_backward *backward)
{
    struct bnb_context *c = l->idle;

    if (c)
        l->idle = c->next;
    else
        c = run_room(r, sizeof *c, 1);
    if (c)
        *c = (struct bnb_context){.linear = l, .function = {.backward = backward, .release = bnb_context_end, .of = c}};
    return c;
}

/* MatMul4Bit.backward: grad_output @ dequantize_4bit(B, state).to(grad_output.dtype) */
static void backward(struct run *r, void *of, const val *grad, const val *saved, val *ret)
{
    const struct bnb_context *c = of;
    const struct bnb_linear *l = c->linear;
    val weight;

    (void)saved;
    if (c->of_bias)
        ret[1] = sum_dim(r, grad[0], 0, false); /* the engine sums what is left of it to the bias */
    if (!c->of_input || run_dead(r))
        return;
    weight = owned(r, dequantised(r, l));
    if (run_dead(r))
        return;
    if (l->dtype != dtype_of(r, grad[0])) {
        val half = weight;

        weight = owned(r, cast_copy(r, half, dtype_of(r, grad[0])));
        value_unref(r, half);
    }
    ret[0] = matmul(r, grad[0], weight);
    value_unref(r, weight);
}

/* bnb.matmul_4bit(): a function of its own where x wants a gradient */
static val matmul_4bit(struct run *r, struct bnb_linear *l, const struct param *weight, val x, val bias)
{
    const val in[2] = {x, bias};
    bool grad_enabled = r->grad_enabled;
    struct bnb_context *c = bnb_context(r, l, backward);
    uint32_t node;
    val out;

    if (!c)
        return 0;
    c->of_input = wants_grad(r, x);
    c->of_bias = bias && wants_grad(r, bias);
    node = function_begin(r, "MatMul4BitBackward", bias ? 2 : 1, in, &c->function);
    if (!node)
        bnb_context_end(r, c);
    else if (c->of_input && r->views_keep_weights) /* ctx.tensors = (None, B), B a view of the packed weight */
        c->kept = owned(r, value_alias(r, weight->value));
    r->grad_enabled = false;
    out = gemm_4bit(r, l, x, bias);
    r->grad_enabled = grad_enabled;
    if (node)
        function_results(r, node, run_dead(r) ? 0 : 1, &out);
    return out;
}

/* `self.bias.data = self.bias.data.to(x.dtype)`, once */
val bnb_bias(struct run *r, struct module *m, enum dtype dtype)
{
    struct param *p = m->bias;

    if (!p)
        return 0;
    if (dtype_of(r, p->value) == dtype)
        return p->value;
    if (p->requires_grad) {
        run_fail(r, ERR_FIELD_CONFLICT, "/training/lora/bias",
                 "Linear4bit casts a bias where it lies, here to the dtype of what comes in: one that is trained has another gradient then, which is not "
                 "modelled: none");
        return 0;
    }
    set_data(r, p->value, cast_copy(r, p->value, dtype)); /* it may be a view that FSDP owns */
    mark_block(r, p->value, MARK_PARAMETER);
    return p->value;
}

val bnb_forward(struct run *r, struct module *m, val x)
{
    struct bnb_linear *l = m->extra;
    enum dtype dtype = dtype_of(r, x);
    struct frame f = frame_enter(r);
    val out, bias = 0;

    x = local(r, x);
    if (r->q->bnb_takes_first_dtype)
        bias = bnb_bias(r, m, dtype);
    if (r->q->bnb_takes_first_dtype && !l->compute_is_set) { /* set_compute_type() */
        l->compute = dtype == DTYPE_FP16 ? l->compute : dtype;
        l->compute_is_set = true;
    }
    rebind(r, &x, to_dtype(r, x, l->compute));
    if (bias)
        bias = local(r, to_dtype(r, bias, l->compute));
    if (run_dead(r))
        return frame_leave(r, f, 0);
    out = matmul_4bit(r, l, m->weight, x, bias ? bias : bnb_bias(r, m, l->compute));
    return frame_leave(r, f, run_dead(r) ? 0 : to_dtype(r, out, dtype));
}

bool bnb_is_int8(const struct module *m)
{
    return m->forward == bnb_forward_int8;
}

bool bnb_is_quantised(const struct module *m)
{
    return m->forward == bnb_forward || m->forward == bnb_forward_int8;
}

/* quantize_4bit(): n = (elements + 1) // (itemsize * 2) */
void bnb_pack_words(struct param *p, enum dtype storage)
{
    p->stands_for = param_numel(p);
    p->dtype = storage;
    p->ndim = 2;
    p->size[0] = (p->stands_for + 1) / (2 * (int64_t)dtype_bytes(storage));
    p->size[1] = 1;
}

struct last {
    const struct module *owner; /* of the last named parameter */
    bool ties;
};

static void see(void *context, struct module *m, struct param *p)
{
    struct last *l = context;

    l->ties |= p->tied != NULL;
    if (!p->tied)
        l->owner = m;
}

/* Before 5.0 models that share weights keep their last parameter as it is: get_keys_to_not_convert(), while the head still had its own it is that one's. */
static const struct module *left_alone(const struct tree *t, bool seen_tied)
{
    struct last l = {0};

    if (seen_tied)
        params_visit(t->root, see, &l);
    return l.ties ? l.owner : NULL;
}

enum err_code bnb_apply(struct tree *t, const struct bnb_options *o, struct err *err)
{
    const struct module *alone = left_alone(t, o->ties_first);

    for (uint32_t i = 1; i < t->n_modules; i++) {
        struct module *m = t->modules[i];
        struct bnb_linear *l;

        if ((m->kind != MODULE_LINEAR && m->kind != MODULE_CONV1D) || (m == t->head && (!o->head || m->weight->tied)) || m == alone)
            continue;
        if (!o->derived && m->forward != module_leaf_forward(m->kind)) /* integrations/bitsandbytes.py: `type(module) is nn.Linear` */
            continue;
        l = arena_new(t->arena, struct bnb_linear);
        if (!l)
            return err_set(err, ERR_NOMEM, "", "the working memory of one request is too small for quantised weights");
        *l = (struct bnb_linear){
            .in = m->in,
            .out = m->out,
            .blocks = (m->in * m->out + BNB_BLOCK - 1) / BNB_BLOCK,
            .int8 = o->kind == KBIT_INT8,
            .doubly = o->kind == KBIT_NF4_DQ,
            .transposed = m->kind == MODULE_CONV1D,
            .compute = o->compute,
            .dtype = t->dtype,
        };
        if (!l->int8)
            bnb_pack_words(m->weight, o->storage);
        m->extra = l;
        m->forward = l->int8 ? bnb_forward_int8 : bnb_forward;
    }
    return ERR_OK;
}
