/*
 * gptj.c - GPT-J: a projection each for q, k and v; the rows of the sine table gathered from a copy of it, in the key's dtype since 4.56.
 */
#include "models/families.h"
#include "models/gptj_block.h"

static void declare_projections(struct model *m, struct gptj_layer *l)
{
    int64_t hidden = m->arch->hidden;

    l->k = linear(&m->tree, l->attn, "k_proj", hidden, hidden, false);
    l->v = linear(&m->tree, l->attn, "v_proj", hidden, hidden, false);
    l->q = linear(&m->tree, l->attn, "q_proj", hidden, hidden, false);
}

/* self._split_heads(x, .., rotary=True) */
static val split_heads(struct run *r, const struct arch *a, val x)
{
    return run_dead(r) ? 0 : view(r, x, SHAPE(size_of(r, x, 0), size_of(r, x, 1), a->heads, a->head_dim));
}

static void project(struct run *r, struct gptj_layer *l, val x, val *query, val *key, val *value)
{
    const struct arch *a = l->model->arch;

    *query = local(r, call(r, l->q, x));
    *key = local(r, call(r, l->k, x));
    *value = local(r, call(r, l->v, x));
    rebind(r, query, split_heads(r, a, *query));
    rebind(r, key, split_heads(r, a, *key));
    rebind(r, value, permute(r, split_heads(r, a, *value), 4, (int[]){0, 2, 1, 3}));
}

/* embed_positions.repeat(1, 1, 1) and the repeated position ids stay locals of the attention's forward */
static val sincos(struct run *r, struct gptj_layer *l, val ids, enum dtype dtype)
{
    int64_t rows = l->model->arch->max_positions, dim = l->model->arch->rotary_dim, s = size_of(r, ids, 1);

    (void)local(r, factory(r, OP_REPEAT, DTYPE_FP32, SHAPE(1, rows, dim)));
    (void)local(r, factory(r, OP_REPEAT, DTYPE_INT64, SHAPE(1, s, dim)));
    return to_dtype(r, factory(r, OP_GATHER, DTYPE_FP32, SHAPE(1, s, dim)), l->model->q->gptj_rotates_in_dtype ? dtype : DTYPE_FP32);
}

static const struct gptj_style style = {
    .mask = "bias", .mask_value = "masked_bias", .declare_projections = declare_projections, .project = project, .sincos = sincos};

static void declare(struct model *m)
{
    gptj_declare(m, &style);
}

const struct family_program gptj_program = {
    .name = "gptj", .source = "models/gptj/modeling_gptj.py", .declare = declare, .forward = gptj_forward, .takes_item_count = true};
