/* hqq.c - HQQLinear: how a weight becomes one, HQQMatmulNoCacheMul, and its backward. See hqq.h. */
#include "tuning/hqq.h"

#include "torch/autograd.h"
#include "torch/function.h"
#include "torch/ops.h"
#include "tuning/kbit_load.h"

#include <string.h>

enum { GROUP = 64 };

struct hqq_linear {
    int64_t in, out, groups;
    int bits;
    enum dtype dtype;         /* of the weight before, which is compute_dtype */
    struct function function; /* of every call: one input wants a gradient; what is saved is the node's */
};

static val temporary(struct run *r, enum op op, enum dtype dtype, int64_t rows, int64_t columns)
{
    return owned(r, value_empty(r, op, dtype, SHAPE(rows, columns)));
}

/* ------------------------------------------------------------------------------------------------------------------------- products */

/* BitPack.unpack_4bit_u8(): both halves of the bytes, one after the other, into rows of their own */
static val unpacked_4bit(struct run *r, const struct hqq_linear *l)
{
    val rows = temporary(r, OP_EMPTY, l->dtype, l->groups, GROUP), high, shifted;

    high = temporary(r, OP_BITWISE_AND, DTYPE_UINT8, l->groups / 2, GROUP);
    shifted = temporary(r, OP_RSHIFT, DTYPE_UINT8, l->groups / 2, GROUP);
    value_unref(r, high);
    value_unref(r, shifted);
    value_unref(r, temporary(r, OP_BITWISE_AND, DTYPE_UINT8, l->groups / 2, GROUP));
    return rows;
}

/* Quantizer.dequantize(): ((W_r - zero) * scale).reshape(shape); a temporary */
static val dequantised(struct run *r, const struct hqq_linear *l)
{
    val rows = l->bits == 4 ? unpacked_4bit(r, l) : temporary(r, OP_TO_COPY, l->dtype, l->groups, GROUP), centred, weight;
    uint64_t n = (uint64_t)(l->in * l->out), bytes = dtype_bytes(l->dtype);

    centred = temporary(r, OP_SUB, l->dtype, l->groups, GROUP);
    weight = value_empty(r, OP_MUL, l->dtype, SHAPE(l->out, l->in));
    value_unref(r, centred);
    value_unref(r, rows);
    work_add(r, OP_MUL, 0, l->bits == 4 ? n * (3 + 6 * bytes) : n * (1 + 5 * bytes), l->bits == 4 ? 7 : 3);
    return weight;
}

static void backward(struct run *r, void *of, const val *grad, const val *saved, val *ret)
{
    (void)saved;
    ret[0] = matmul(r, grad[0], dequantised(r, ((const struct module *)of)->extra));
}

static val product(struct run *r, void *of, val x)
{
    const struct module *m = of;
    struct frame f = frame_enter(r);
    val out = local(r, matmul(r, x, t_op(r, dequantised(r, m->extra))));

    if (m->bias && !run_dead(r))
        rebind(r, &out, write_in_place(r, OP_ADD, out, m->bias->value));
    return frame_leave(r, f, run_dead(r) ? 0 : out);
}

/* HQQMatmulNoCacheMul.apply(x, self.matmul, self.bias) */
static val hqq_forward(struct run *r, struct module *m, val x)
{
    struct hqq_linear *l = m->extra;
    struct frame f = frame_enter(r);

    x = local(r, x);
    if (run_dead(r))
        return frame_leave(r, f, 0);
    l->function = (struct function){.backward = backward, .of = m};
    return frame_leave(r, f, function_apply(r, "HQQMatmulNoCacheMulBackward", &l->function, x, true, product));
}

bool hqq_is_quantised(const struct module *m)
{
    return m->forward == hqq_forward;
}

bool hqq_packs(const struct param *p)
{
    return hqq_is_quantised(p->owner) && p == p->owner->weight;
}

/* ------------------------------------------------------------------------------------------------------------------------- declaring */

/* skip_modules: ["lm_head"], wherever it stands in a name */
static bool is_skipped(const struct module *m)
{
    for (; m; m = m->parent)
        if (m->name && strstr(m->name, "lm_head"))
            return true;
    return false;
}

/* W_q in the weight's place */
static void pack(struct tree *t, struct module *m, const struct hqq_linear *l)
{
    struct param *weight = m->weight;

    weight->name = "W_q";
    weight->stands_for = param_numel(weight);
    weight->dtype = DTYPE_UINT8;
    weight->size[0] = l->groups * l->bits / 8;
    weight->size[1] = GROUP;
    (void)buffer_add(t, m, "scale", l->dtype, 2, (const int64_t[]){l->groups, 1});
    (void)buffer_add(t, m, "zero", l->dtype, 2, (const int64_t[]){l->groups, 1});
}

enum err_code hqq_apply(struct tree *t, int bits, struct err *err)
{
    for (uint32_t i = 1; i < t->n_modules; i++) {
        struct module *m = t->modules[i];
        struct hqq_linear *l;

        if (m->kind != MODULE_LINEAR || is_skipped(m))
            continue;
        if (m->weight->tied)
            return err_set(err, ERR_FIELD_CONFLICT, "/training/quantization",
                           "hqq leaves lm_head alone; this model's head has another name, and shares its weight");
        if (m->in * m->out % (2 * GROUP))
            return err_set(err, ERR_FIELD_CONFLICT, "/training/quantization", "hqq packs groups of %d in pairs, not %lld x %lld", GROUP,
                           (long long)m->in, (long long)m->out);
        l = arena_new(t->arena, struct hqq_linear);
        if (!l)
            return err_set(err, ERR_NOMEM, "", "the working memory of one request is too small for quantised weights");
        *l = (struct hqq_linear){.in = m->in, .out = m->out, .groups = m->in * m->out / GROUP, .bits = bits, .dtype = t->dtype};
        m->extra = l;
        m->forward = hqq_forward;
        pack(t, m, l);
    }
    if (t->error.code)
        *err = t->error;
    return t->error.code;
}

/* ------------------------------------------------------------------------------------------------------------------------ quantising */
static val wide(struct run *r, enum op op, const struct hqq_linear *l)
{
    return temporary(r, op, DTYPE_FP16, l->groups, GROUP);
}

static val narrow(struct run *r, enum op op, const struct hqq_linear *l)
{
    return temporary(r, op, DTYPE_FP16, l->groups, 1);
}

static val one(struct run *r, enum op op, enum dtype dtype)
{
    return owned(r, value_empty(r, op, dtype, 0, NULL));
}

/* What a turn of the search leaves: W_q, W_r, zero. */
struct turn {
    val packed, near, zero;
};


/* shrink_lp_op(): what is left of W_f - W_r */
static val shrunk(struct run *r, const struct hqq_linear *l)
{
    val out = wide(r, OP_ABS, l), power = wide(r, OP_POW, l), scaled = wide(r, OP_MUL, l);

    value_unref(r, power);
    value_unref(r, scaled);
    value_unref(r, wide(r, OP_SIGN, l));
    return out;
}

/* optimize_weights_proximal_legacy_step() */
static struct turn turn(struct run *r, const struct hqq_linear *l)
{
    struct turn t;
    val a = wide(r, OP_MUL, l), b = wide(r, OP_ADD, l), error;

    value_unref(r, a);
    t.packed = wide(r, OP_ROUND, l);
    value_unref(r, b);
    a = wide(r, OP_SUB, l);
    t.near = wide(r, OP_DIV, l);
    value_unref(r, a);
    a = wide(r, OP_SUB, l);
    error = shrunk(r, l);
    value_unref(r, a);
    a = wide(r, OP_SUB, l);
    b = wide(r, OP_MUL, l);
    value_unref(r, a);
    a = wide(r, OP_SUB, l);
    value_unref(r, b);
    t.zero = narrow(r, OP_MEAN, l);
    value_unref(r, a);
    value_unref(r, error);
    return t;
}

/* torch.abs(W_f - W_r).mean().float() */
static val error_of(struct run *r, const struct hqq_linear *l)
{
    val a = wide(r, OP_SUB, l), error = wide(r, OP_ABS, l), mean, wide_mean;

    value_unref(r, a);
    mean = one(r, OP_MEAN, DTYPE_FP16);
    reduce_scratch(r, OP_MEAN, error, 3, 4);
    value_unref(r, error);
    wide_mean = one(r, OP_TO_COPY, DTYPE_FP32);
    value_unref(r, mean);
    value_unref(r, one(r, OP_LT, DTYPE_BOOL));
    return wide_mean;
}

/* What the search for zeros holds on the device; grouping, rounding and packing are the host's. */
static void search(struct run *r, const struct hqq_linear *l)
{
    val weight = wide(r, OP_TO_COPY, l), scale = narrow(r, OP_TO_COPY, l), zero = narrow(r, OP_TO_COPY, l), best = one(r, OP_TO_COPY, DTYPE_FP32);
    struct turn first = turn(r, l), second;
    val error, again;

    value_unref(r, zero);
    error = error_of(r, l);
    value_unref(r, best);
    second = turn(r, l);
    value_unref(r, first.near);
    value_unref(r, first.packed);
    value_unref(r, first.zero);
    again = error_of(r, l);
    value_unref(r, scale);
    value_unref(r, second.zero);
    value_unref(r, weight);
    value_unref(r, second.packed);
    value_unref(r, second.near);
    value_unref(r, error);
    value_unref(r, again);
    empty_cache(r);
}

void hqq_pack(struct run *r, struct param *p)
{
    const struct hqq_linear *l = p->owner->extra;
    struct module *m = p->owner;

    search(r, l);
    kbit_place(r, OP_TO_COPY, p);
    for (struct param *b = m->params; b; b = b->next)
        if (b->buffer)
            kbit_place(r, OP_TO_COPY, b);
    if (m->bias)
        kbit_place(r, OP_TO_COPY, m->bias);
}
