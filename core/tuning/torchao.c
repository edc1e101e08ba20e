/* torchao.c - Int8Tensor: how a weight becomes one, and its product. See torchao.h. */
#include "tuning/torchao.h"

#include "torch/autograd.h"
#include "torch/ops.h"
#include "tuning/kbit_load.h"

struct torchao_linear {
    int64_t in, out;
    enum dtype dtype; /* of the weight before */
    val scale;
};

/* The weight-only branch of F.linear, a line each */
static val torchao_forward(struct run *r, struct module *m, val x)
{
    const struct torchao_linear *l = m->extra;
    struct frame f = frame_enter(r);
    int64_t size[MAX_DIMS];
    enum dtype dtype;
    val flat, product, out;
    int n;

    x = local(r, x);
    if (run_dead(r))
        return frame_leave(r, f, 0);
    dtype = dtype_of(r, x);
    n = value_of(r, x)->ndim;
    for (int i = 0; i < n; i++)
        size[i] = size_of(r, x, i);
    size[n - 1] = l->out;
    flat = reshape(r, x, SHAPE(numel(r, x) / l->in, l->in));
    product = local(r, matmul(r, flat, to_dtype(r, t_op(r, m->weight->value), dtype)));
    if (run_dead(r))
        return frame_leave(r, f, 0);
    out = local(r, mul(r, product, reshape(r, to_dtype(r, l->scale, dtype_of(r, product)), SHAPE(l->out))));
    rebind(r, &out, reshape(r, out, n, size));
    if (m->bias && !run_dead(r))
        rebind(r, &out, write_in_place(r, OP_ADD, out, m->bias->value));
    return frame_leave(r, f, run_dead(r) ? 0 : to_dtype(r, out, dtype));
}

bool torchao_is_quantised(const struct module *m)
{
    return m->forward == torchao_forward;
}

bool torchao_packs(const struct param *p)
{
    return torchao_is_quantised(p->owner) && p == p->owner->weight;
}

enum err_code torchao_apply(struct tree *t, struct err *err)
{
    for (uint32_t i = 1; i < t->n_modules; i++) {
        struct module *m = t->modules[i];
        struct torchao_linear *l;

        if (m->kind != MODULE_LINEAR || m == t->head)
            continue;
        if (m->forward != module_leaf_forward(m->kind))
            return err_set(err, ERR_FIELD_CONFLICT, "/training/quantization",
                           "linears with a forward of their own are not modelled yet as torchao's: nf4, int8 or none");
        l = arena_new(t->arena, struct torchao_linear);
        if (!l)
            return err_set(err, ERR_NOMEM, "", "the working memory of one request is too small for quantised weights");
        *l = (struct torchao_linear){m->in, m->out, t->dtype, 0};
        m->weight->dtype = DTYPE_UINT8; /* int8: a byte */
        m->extra = l;
        m->forward = torchao_forward;
    }
    return ERR_OK;
}

/* ---------------------------------------------------------------------------------------------------------------------- quantising */
static val row(struct run *r, enum op op, const struct torchao_linear *l, enum dtype dtype)
{
    return owned(r, value_empty(r, op, dtype, SHAPE(l->out, 1)));
}

static val extreme(struct run *r, const struct torchao_linear *l, val half)
{
    val v = row(r, OP_AMAX, l, l->dtype);

    reduce_scratch(r, OP_AMAX, half, 1u << 1, (unsigned)dtype_bytes(l->dtype));
    return v;
}

/* torch.min(v, torch.zeros_like(v)) */
static val beside_zero(struct run *r, enum op op, const struct torchao_linear *l)
{
    val zeros = row(r, OP_ZEROS_LIKE, l, l->dtype), v = row(r, op, l, l->dtype);

    value_unref(r, zeros);
    return v;
}

/* choose_qparams_affine(): scales and zero points, both of which stay */
static void choose(struct run *r, struct torchao_linear *l, val half)
{
    val least = extreme(r, l, half), most = extreme(r, l, half), negative = beside_zero(r, OP_MINIMUM, l), positive = beside_zero(r, OP_MAXIMUM, l);
    val turned = row(r, OP_NEG, l, l->dtype), magnitude = row(r, OP_MAXIMUM, l, l->dtype), scale, zero, clamped;

    value_unref(r, turned);
    value_unref(r, positive);
    scale = row(r, OP_DIV, l, l->dtype);
    zero = row(r, OP_FULL, l, l->dtype);
    clamped = row(r, OP_CLAMP, l, l->dtype);
    value_unref(r, scale);
    l->scale = kbit_kept(r, OP_TO_COPY, DTYPE_FP32, SHAPE(l->out, 1));
    (void)kbit_kept(r, OP_TO_COPY, DTYPE_UINT8, SHAPE(l->out, 1));
    value_unref(r, clamped);
    value_unref(r, zero);
    value_unref(r, magnitude);
    value_unref(r, negative);
    value_unref(r, most);
    value_unref(r, least);
}

static val wide(struct run *r, enum op op, const struct torchao_linear *l)
{
    return owned(r, value_empty(r, op, DTYPE_FP32, SHAPE(l->out, l->in)));
}

/* quantize_affine(): clamp(round(input * (1.0 / scale)) + zero_point).to(int8), in fp32 since scales are */
static val quantised(struct run *r, const struct torchao_linear *l)
{
    val inverse = row(r, OP_RECIPROCAL, l, DTYPE_FP32), times = row(r, OP_MUL, l, DTYPE_FP32), at, next, packed;

    value_unref(r, inverse);
    at = wide(r, OP_MUL, l);
    value_unref(r, times);
    next = wide(r, OP_ROUND, l);
    value_unref(r, at);
    at = wide(r, OP_ADD, l);
    value_unref(r, next);
    next = wide(r, OP_CLAMP, l);
    value_unref(r, at);
    packed = kbit_kept(r, OP_TO_COPY, DTYPE_UINT8, SHAPE(l->out, l->in));
    value_unref(r, next);
    return packed;
}

void torchao_pack(struct run *r, struct param *p)
{
    struct torchao_linear *l = p->owner->extra;
    val half = owned(r, value_empty(r, OP_TO_COPY, l->dtype, SHAPE(l->out, l->in)));

    if (run_dead(r))
        return;
    choose(r, l, half);
    p->value = quantised(r, l);
    value_unref(r, half);
}
