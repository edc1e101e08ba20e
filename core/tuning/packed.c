/* packed.c - what packed linears hold, and how they are loaded. Their products: packed_kernels.c. See packed.h. */
#include "tuning/packed.h"

#include "torch/ops.h"
#include "tuning/kbit_load.h"
#include "tuning/mxfp4.h"
#include "tuning/packed_inside.h"

#include <string.h>

enum { WORD_BITS = 32, MARLIN_TILE = 64, MARLIN_PARALLEL = 16, LEAST_WORKSPACE = 128 };

/* --- what a checkpoint stores ----------------------------------------------------------------------------------------------------- */
static void declare_words(struct tree *t, struct module *m, const struct packed_linear *l, int64_t rows, int64_t columns, int64_t zeros)
{
    struct param *weight = m->weight;

    weight->name = "qweight";
    weight->stands_for = param_numel(weight);
    weight->dtype = DTYPE_INT32;
    weight->size[0] = rows;
    weight->size[1] = columns;
    (void)buffer_add(t, m, "qzeros", DTYPE_INT32, 2, (const int64_t[]){l->groups, zeros});
    (void)buffer_add(t, m, "scales", DTYPE_FP16, 2, (const int64_t[]){l->groups, l->out});
}

static void declare_fp8(struct tree *t, struct module *m, const struct packed_linear *l)
{
    int64_t across = (l->out + PACKED_BLOCK - 1) / PACKED_BLOCK, along = (l->in + PACKED_BLOCK - 1) / PACKED_BLOCK;
    struct param *scales = param_add(t, m, "weight_scale_inv", 2, (const int64_t[]){across, along});

    m->weight->dtype = DTYPE_UINT8; /* float8_e4m3fn: a byte */
    if (scales) {
        scales->dtype = DTYPE_FP32;
        scales->stands_for = -1;
    }
}

static void declare(struct tree *t, struct module *m, const struct packed_linear *l)
{
    if (l->kind == PACKING_FP8) {
        declare_fp8(t, m, l);
    } else if (l->kind == PACKING_AWQ4) {
        declare_words(t, m, l, l->in, l->out * l->bits / WORD_BITS, l->out * l->bits / WORD_BITS);
    } else {
        declare_words(t, m, l, l->in * l->bits / WORD_BITS, l->out, l->out * l->bits / WORD_BITS);
        (void)buffer_add(t, m, "g_idx", DTYPE_INT32, 1, &l->in);
    }
}

static enum err_code refuse(const struct packed_linear *l, struct err *err)
{
    if (l->kind == PACKING_FP8)
        return ERR_OK;
    if (l->group && l->in % l->group)
        return err_set(err, ERR_FIELD_CONFLICT, "/inference/weights", "groups of %lld rows do not divide a layer of %lld",
                       (long long)l->group, (long long)l->in);
    if (l->in % WORD_BITS || l->out % WORD_BITS || (l->kernel == PACKED_MARLIN && l->out % MARLIN_TILE))
        return err_set(err, ERR_FIELD_CONFLICT, "/inference/weights",
                       "packed weights take widths that are multiples of %d, not %lld x %lld",
                       l->kernel == PACKED_MARLIN ? MARLIN_TILE : WORD_BITS, (long long)l->in, (long long)l->out);
    return ERR_OK;
}

/* The kernel that the packages of this release choose where nobody names one. */
static enum packed_kernel kernel_of(enum packing kind, const struct quirks *q)
{
    if (kind == PACKING_FP8)
        return PACKED_FP8;
    if (kind == PACKING_AWQ4)
        return q->awq_by_gptqmodel ? PACKED_MARLIN : PACKED_AWQ;
    return q->gptq_by_gptqmodel ? PACKED_MARLIN : kind == PACKING_GPTQ4 ? PACKED_EXLLAMA : PACKED_CUDA_OLD;
}

/* "model.layers.0.mlp.gate" of a module, written from its end; NULL: it is longer. */
static const char *path_of(const struct module *m, char *text, size_t room)
{
    char *at = text + room - 1;

    for (*at = 0; m->parent; m = m->parent) {
        size_t n = strlen(m->name), dot = *at ? 1 : 0;

        if ((size_t)(at - text) < n + dot)
            return NULL;
        if (dot)
            *--at = '.';
        at -= n;
        memcpy(at, m->name, n);
    }
    return at;
}

/* The module itself, one that it is below, or by the last parts of its name. */
static bool is_named(const char *path, const char *key)
{
    size_t n = strlen(key), all = strlen(path);

    if (n > all)
        return false;
    if (!strncmp(path, key, n) && (path[n] == '.' || !path[n]))
        return true;
    return !strcmp(path + all - n, key) && path[all - n - 1] == '.';
}

static bool is_left_alone(const struct module *m, const struct json *names)
{
    char text[256];
    const char *path = names ? path_of(m, text, sizeof text) : NULL;

    if (path)
        for (const struct json *n = json_first(names); n; n = json_next(n))
            if (json_type(n) == JSON_STRING && json_str(n)[0] && is_named(path, json_str(n)))
                return true;
    return false;
}

/* Weights of experts as one tensor, which checkpoints have packed too. */
static bool is_of_experts(const struct module *m, const struct param *p)
{
    return p->ndim == 3 && !p->buffer && p->size[1] > 1 && p->size[2] > 1 && p->size[0] > 1 && m->kind == MODULE_CONTAINER;
}

static bool stacks_experts(const struct module *m)
{
    for (const struct param *p = m->params; p; p = p->next)
        if (is_of_experts(m, p))
            return true;
    return false;
}

static void pack_expert_weights(struct tree *t, struct module *m, struct param *p, const char *scales_named, int64_t least)
{
    int64_t across = (p->size[1] + PACKED_BLOCK - 1) / PACKED_BLOCK, along = (p->size[2] + PACKED_BLOCK - 1) / PACKED_BLOCK;
    struct param *scales = param_add(t, m, scales_named, 3, (const int64_t[]){p->size[0], across > least ? across : least, along});

    p->dtype = DTYPE_UINT8;
    if (scales) {
        scales->dtype = DTYPE_FP32;
        scales->stands_for = -1;
    }
}

/* FP8Experts.__init__ */
static enum err_code pack_experts(struct tree *t, struct module *m, const struct quirks *q, struct err *err)
{
    struct param *first = NULL, *down = NULL;

    for (struct param *p = m->params; p; p = p->next) {
        if (p->ndim == 2 && !p->buffer)
            return err_set(err, ERR_FIELD_CONFLICT, "/inference/weights",
                           "transformers packs no experts with biases in fp8 (FP8Experts of integrations/finegrained_fp8.py)");
        if (!strcmp(p->name, "down_proj"))
            down = p;
        else if (is_of_experts(m, p))
            first = p;
    }
    if (!first || !down || !q->fp8_experts)
        return err_set(err, ERR_FIELD_CONFLICT, "/inference/weights", "weights of experts that are one tensor are modelled in fp8 from transformers 5.11 on");
    if (!strcmp(first->name, "gate_up_proj"))
        pack_expert_weights(t, m, first, "gate_up_proj_scale_inv", 2);
    else
        pack_expert_weights(t, m, first, "up_proj_scale_inv", 1);
    pack_expert_weights(t, m, down, "down_proj_scale_inv", 1);
    return ERR_OK;
}

/* What is packed of a module, if anything is. */
static enum err_code pack_module(struct tree *t, struct module *m, const struct packed_options *o, const struct quirks *q, struct err *err)
{
    bool experts = !o->leaves_experts && stacks_experts(m);
    struct packed_linear *l;
    enum err_code rc;

    if (experts && o->kind != PACKING_FP8)
        return err_set(err, ERR_FIELD_CONFLICT, "/inference/weights", "packed weights of experts that are one tensor are not modelled yet");
    if ((!experts && (m->kind != MODULE_LINEAR || m == t->head || m->forward != module_leaf_forward(m->kind))) || is_left_alone(m, o->left_alone))
        return ERR_OK;
    if (experts)
        return pack_experts(t, m, q, err);
    l = arena_new(t->arena, struct packed_linear);
    if (!l)
        return err_set(err, ERR_NOMEM, "", "the working memory of one request is too small for quantised weights");
    *l = (struct packed_linear){
        .kind = o->kind,
        .kernel = kernel_of(o->kind, q),
        .in = m->in,
        .out = m->out,
        .group = o->group,
        .groups = o->group ? (m->in + o->group - 1) / o->group : 1,
        .bits = o->kind == PACKING_GPTQ8 || o->kind == PACKING_FP8 ? 8 : 4,
        .newer_marlin = q->marlin_by_blocks,
        .quantises_within = q->fp8_experts,
        .adds_in_place = q->fp8_adds_in_place,
    };
    rc = refuse(l, err);
    m->extra = l;
    m->forward = packed_forward;
    declare(t, m, l);
    return rc;
}

enum err_code packed_apply(struct tree *t, const struct packed_options *o, const struct quirks *q, struct err *err)
{
    uint32_t n = t->n_modules;
    enum err_code rc = ERR_OK;

    if (o->kind == PACKING_MXFP4) { /* experts alone are packed, and declared so */
        mxfp4_apply(t);
        return ERR_OK;
    }
    for (uint32_t i = 1; i < n && !rc; i++)
        rc = pack_module(t, t->modules[i], o, q, err);
    if (!rc && t->error.code)
        *err = t->error;
    return rc ? rc : t->error.code;
}

bool packed_is_quantised(const struct module *m)
{
    return m->forward == packed_forward;
}

/* --- loading ---------------------------------------------------------------------------------------------------------------------- */
static struct param *named(const struct module *m, const char *name)
{
    for (struct param *p = m->params; p; p = p->next)
        if (!strcmp(p->name, name))
            return p;
    return NULL;
}

static void forget(struct run *r, struct param *p)
{
    if (!p || !p->value)
        return;
    value_unref(r, p->value);
    p->value = value_empty(r, OP_EMPTY, p->dtype, SHAPE(0));
}

/* Another tensor of the same bytes in its place: the old one dies once the new one stands. */
static void repack(struct run *r, struct param *p)
{
    val old = p->value, made = value_empty(r, OP_MARLIN_REPACK, p->dtype, p->ndim, p->size);

    mark_block(r, made, MARK_PARAMETER);
    p->value = made;
    value_unref(r, old);
}

/* replace_tensor(): into the block that stands */
static void repack_in_place(struct run *r, struct param *p)
{
    value_unref(r, owned(r, value_empty(r, OP_MARLIN_REPACK, p->dtype, p->ndim, p->size)));
}

static void keep(struct run *r, enum op op, enum dtype dtype, int64_t n)
{
    val v = owned(r, value_empty(r, op, dtype, SHAPE(n)));

    if (v)
        mark_block(r, v, MARK_PARAMETER);
}

/* MarlinQuantLinear.post_init() */
static void begin_marlin(struct run *r, struct module *m, const struct packed_linear *l)
{
    void (*put)(struct run *, struct param *) = l->newer_marlin ? repack : repack_in_place;
    int64_t blocks = l->newer_marlin ? r->device.multiprocessors : l->out / MARLIN_TILE * MARLIN_PARALLEL;

    keep(r, OP_ZEROS, DTYPE_INT32, l->newer_marlin && blocks < LEAST_WORKSPACE ? LEAST_WORKSPACE : blocks);
    forget(r, named(m, "g_idx"));
    put(r, m->weight);
    put(r, named(m, "scales"));
    if (l->kind == PACKING_AWQ4)
        put(r, named(m, "qzeros"));
    else if (l->newer_marlin)
        forget(r, named(m, "qzeros"));
}

/* autogptq_post_init(): one buffer for all layers, in which a weight is unpacked for a product of many rows */
static void begin_exllama(struct run *r, const struct tree *t)
{
    int64_t widest = 0, along = 0;

    for (uint32_t i = 1; i < t->n_modules; i++)
        if (packed_is_quantised(t->modules[i])) {
            const struct packed_linear *l = t->modules[i]->extra;

            widest = l->in * l->out > widest ? l->in * l->out : widest;
            along = 1;
        }
    keep(r, OP_ZEROS, DTYPE_FP16, along);
    keep(r, OP_ZEROS, DTYPE_FP16, widest);
}

static void place(struct run *r, struct param *p, void *of)
{
    (void)of;
    if (p->value || p->tied || p->buffer || run_dead(r))
        return;
    run_owner(r, p->owner);
    kbit_place(r, OP_TO_COPY, p);
    run_owner(r, NULL);
}

void packed_load(struct run *r, struct tree *t, enum packing kind)
{
    bool exllama = false;

    if (kind == PACKING_FP8)
        kbit_load_by_name(r, t, place, NULL);
    else
        materialise(r, t);
    for (uint32_t i = 1; i < t->n_modules && !run_dead(r); i++) {
        struct module *m = t->modules[i];
        const struct packed_linear *l = packed_is_quantised(m) ? m->extra : NULL;

        if (l && l->kernel == PACKED_MARLIN) {
            run_owner(r, m);
            begin_marlin(r, m, l);
            run_owner(r, NULL);
        }
        exllama |= l && l->kernel == PACKED_EXLLAMA;
    }
    if (exllama && !run_dead(r))
        begin_exllama(r, t);
}
