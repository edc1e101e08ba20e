/* torchao_nf4.c - NF4Tensor: how a weight becomes one, LinearNF4, and its backward. See torchao_nf4.h. */
#include "tuning/torchao_nf4.h"

#include "torch/autograd.h"
#include "torch/function.h"
#include "torch/ops.h"
#include "tuning/kbit_load.h"

enum { BLOCK = 64, SCALES = 256, CODES = 16, CHUNK = 1024 * 1024 }; /* CHUNK_SIZE = 1024**2 */

struct nf4_linear {
    int64_t in, out, blocks;
    enum dtype dtype;         /* of the weight before */
    struct function function; /* of every call: one input wants a gradient, nothing is saved */
};

static val temporary(struct run *r, enum op op, enum dtype dtype, int64_t rows, int64_t columns)
{
    return owned(r, value_empty(r, op, dtype, SHAPE(rows, columns)));
}

/* ------------------------------------------------------------------------------------------------------------------------- products */

/* (self.quantized_data >> 4).to(torch.long), and the lower half */
static val index_of(struct run *r, const struct nf4_linear *l, enum op op)
{
    val half = temporary(r, op, DTYPE_UINT8, l->blocks, BLOCK / 2), index = temporary(r, OP_TO_COPY, DTYPE_INT64, l->blocks, BLOCK / 2);

    value_unref(r, half);
    return index;
}

static val scaled(struct run *r, const struct nf4_linear *l)
{
    val repeated = temporary(r, OP_CLONE, l->dtype, l->blocks, BLOCK / 2), out = temporary(r, OP_MUL, l->dtype, l->blocks, BLOCK / 2);

    value_unref(r, repeated);
    return out;
}

/* get_original_weight(); a temporary */
static val original(struct run *r, const struct nf4_linear *l)
{
    val first = index_of(r, l, OP_RSHIFT), second = index_of(r, l, OP_BITWISE_AND);
    val a = temporary(r, OP_INDEX, l->dtype, l->blocks, BLOCK / 2), b = temporary(r, OP_INDEX, l->dtype, l->blocks, BLOCK / 2);
    val wide = temporary(r, OP_DIV, l->dtype, l->blocks, 1), scales = temporary(r, OP_ADD, l->dtype, l->blocks, 1), x, y, weight;
    uint64_t n = (uint64_t)(l->in * l->out), bytes = dtype_bytes(l->dtype);

    value_unref(r, wide);
    x = scaled(r, l);
    y = scaled(r, l);
    weight = value_empty(r, OP_CAT, l->dtype, SHAPE(l->out, l->in));
    value_unref(r, first);
    value_unref(r, second);
    value_unref(r, a);
    value_unref(r, b);
    value_unref(r, scales);
    value_unref(r, x);
    value_unref(r, y);
    work_add(r, OP_CAT, 0, n * (3 + 16 + 8 * bytes), 13);
    return weight;
}

/* weight.to(dtype of what it multiplies) */
static val weight_for(struct run *r, const struct nf4_linear *l, val x)
{
    return to_dtype(r, original(r, l), dtype_of(r, x));
}

static void backward(struct run *r, void *of, const val *grad, const val *saved, val *ret)
{
    (void)saved;
    ret[0] = matmul(r, grad[0], weight_for(r, of, grad[0]));
}

static val product(struct run *r, void *of, val x)
{
    return matmul(r, x, t_op(r, weight_for(r, of, x)));
}

/* LinearNF4.apply(input, weight), to which a bias is added */
static val nf4_forward(struct run *r, struct module *m, val x)
{
    struct nf4_linear *l = m->extra;
    struct frame f = frame_enter(r);
    val out;

    x = local(r, x);
    if (run_dead(r))
        return frame_leave(r, f, 0);
    l->function = (struct function){.backward = backward, .of = l};
    out = local(r, function_apply(r, "LinearNF4Backward", &l->function, x, false, product));
    if (m->bias && !run_dead(r))
        rebind(r, &out, add(r, out, m->bias->value));
    return frame_leave(r, f, run_dead(r) ? 0 : out);
}

bool torchao_nf4_is_quantised(const struct module *m)
{
    return m->forward == nf4_forward;
}

bool torchao_nf4_packs(const struct param *p)
{
    return torchao_nf4_is_quantised(p->owner) && p == p->owner->weight;
}

/* ------------------------------------------------------------------------------------------------------------------------- declaring */

/* quantized_data in the weight's place; the rest in the order in which it comes to stand */
static void pack(struct tree *t, struct module *m, const struct nf4_linear *l)
{
    struct param *weight = m->weight;

    weight->stands_for = param_numel(weight);
    weight->dtype = DTYPE_UINT8;
    weight->size[0] = l->blocks;
    weight->size[1] = BLOCK / 2;
    (void)buffer_add(t, m, "nf4", l->dtype, 1, (const int64_t[]){CODES});
    (void)buffer_add(t, m, "scaler_mean", l->dtype, 1, (const int64_t[]){1});
    (void)buffer_add(t, m, "quantized_scalers", DTYPE_UINT8, 1, &l->blocks);
    (void)buffer_add(t, m, "quantization_factor", l->dtype, 1, (const int64_t[]){l->blocks / SCALES});
}

enum err_code torchao_nf4_apply(struct tree *t, struct err *err)
{
    for (uint32_t i = 1; i < t->n_modules; i++) {
        struct module *m = t->modules[i];
        struct nf4_linear *l;

        if (m->kind != MODULE_LINEAR || m == t->head)
            continue;
        if (m->forward != module_leaf_forward(m->kind))
            return err_set(err, ERR_FIELD_CONFLICT, "/training/quantization",
                           "linears with a forward of their own are not modelled yet as torchao's: nf4, int8 or none");
        if (m->in * m->out % (BLOCK * SCALES))
            return err_set(err, ERR_FIELD_CONFLICT, "/training/quantization",
                           "NF4Tensor takes blocks of %d in groups of %d, not %lld x %lld: AssertionError", BLOCK, SCALES, (long long)m->in, (long long)m->out);
        l = arena_new(t->arena, struct nf4_linear);
        if (!l)
            return err_set(err, ERR_NOMEM, "", "the working memory of one request is too small for quantised weights");
        *l = (struct nf4_linear){.in = m->in, .out = m->out, .blocks = m->in * m->out / BLOCK, .dtype = t->dtype};
        m->extra = l;
        m->forward = nf4_forward;
        pack(t, m, l);
    }
    if (t->error.code)
        *err = t->error;
    return t->error.code;
}

/* ------------------------------------------------------------------------------------------------------------------------ quantising */
/* blocks.abs().max(dim=1).values */
static val largest(struct run *r, const struct nf4_linear *l, int64_t rows, int64_t columns)
{
    val magnitude = temporary(r, OP_ABS, l->dtype, rows, columns), most = temporary(r, OP_MAX, l->dtype, rows, 1);
    val at = temporary(r, OP_MAX, DTYPE_INT64, rows, 1);

    value_unref(r, magnitude);
    value_unref(r, at);
    return most;
}

static struct param *part(struct param *p, int n)
{
    while (n--)
        p = p->next;
    return p;
}

/* double_quantize_scalers() */
static void quantise_scales(struct run *r, const struct nf4_linear *l, struct param *mean, struct param *scales, struct param *factors)
{
    int64_t groups = l->blocks / SCALES;
    val first = largest(r, l, l->blocks, BLOCK), centred, most, a, b, factor;

    kbit_place(r, OP_MEAN, mean);
    reduce_scratch(r, OP_MEAN, first, 3, 4);
    centred = temporary(r, OP_SUB, l->dtype, l->blocks, 1);
    value_unref(r, first);
    most = largest(r, l, groups, SCALES);
    a = temporary(r, OP_MUL, l->dtype, groups, SCALES);
    b = temporary(r, OP_RECIPROCAL, l->dtype, groups, SCALES);
    factor = temporary(r, OP_MUL, l->dtype, groups, SCALES);
    value_unref(r, b);
    value_unref(r, a);
    a = temporary(r, OP_MUL, l->dtype, groups, SCALES);
    b = temporary(r, OP_ROUND, l->dtype, groups, SCALES);
    value_unref(r, a);
    a = temporary(r, OP_CLAMP, l->dtype, groups, SCALES);
    value_unref(r, b);
    kbit_place(r, OP_TO_COPY, scales);
    kbit_place(r, OP_CLONE, factors);
    value_unref(r, centred);
    value_unref(r, most);
    value_unref(r, factor);
    value_unref(r, a);
}

/* quantize_tensor_nearest() of one chunk */
static void nearest(struct run *r, const struct nf4_linear *l, int64_t n)
{
    val apart = temporary(r, OP_SUB, l->dtype, n, CODES), magnitude = temporary(r, OP_ABS, l->dtype, n, CODES), least, at, code;

    value_unref(r, apart);
    least = temporary(r, OP_MIN, l->dtype, n, 1);
    at = temporary(r, OP_MIN, DTYPE_INT64, n, 1);
    value_unref(r, least);
    value_unref(r, magnitude);
    code = temporary(r, OP_TO_COPY, DTYPE_UINT8, n, 1);
    value_unref(r, at);
    value_unref(r, code);
}

/* convert_to_norm_float_weight() */
static void quantise(struct run *r, const struct nf4_linear *l, struct param *data)
{
    int64_t n = l->in * l->out;
    val most = largest(r, l, l->blocks, BLOCK), blocks = temporary(r, OP_DIV, l->dtype, l->blocks, BLOCK);
    val codes = temporary(r, OP_EMPTY, DTYPE_UINT8, l->blocks, BLOCK), shifted;

    for (int i = 0; i < 2 && i < n / CHUNK; i++) /* the third takes and gives back the blocks that the second did */
        nearest(r, l, CHUNK);
    if (n % CHUNK)
        nearest(r, l, n % CHUNK);
    shifted = temporary(r, OP_LSHIFT, DTYPE_UINT8, l->blocks, BLOCK / 2);
    kbit_place(r, OP_BITWISE_OR, data);
    value_unref(r, shifted);
    value_unref(r, most);
    value_unref(r, blocks);
    value_unref(r, codes);
}

void torchao_nf4_pack(struct run *r, struct param *p)
{
    const struct nf4_linear *l = p->owner->extra;
    val half = owned(r, value_empty(r, OP_TO_COPY, l->dtype, SHAPE(l->out, l->in)));
    struct param *table = p->owner->params;

    while (table && !table->buffer)
        table = table->next;
    if (run_dead(r) || !table)
        return;
    kbit_place(r, OP_TO_COPY, table);
    quantise_scales(r, l, part(table, 1), part(table, 2), part(table, 3));
    quantise(r, l, p);
    value_unref(r, half);
}
