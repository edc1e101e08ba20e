/*
 * codegen.c - CodeGen: GPT-J's block with one projection for q, v, k in four shares of whole heads (mp_num = 4), and the sine table
 * read by row in fp32.
 */
#include "models/families.h"
#include "models/gptj_block.h"

enum { SHARES = 4 };

static void declare_projections(struct model *m, struct gptj_layer *l)
{
    l->q = linear(&m->tree, l->attn, "qkv_proj", m->arch->hidden, 3 * (int64_t)m->arch->hidden, false);
}

/* self._split_heads(x, ..): the shares' heads side by side, a copy */
static val split_heads(struct run *r, const struct arch *a, val x)
{
    struct frame f = frame_enter(r);
    int64_t b = size_of(r, x, 0), s = size_of(r, x, 1);
    val reshaped = local(r, reshape(r, x, SHAPE(b, s, SHARES, a->heads / SHARES, a->head_dim)));

    return frame_leave(r, f, reshape(r, reshaped, SHAPE(b, s, a->heads, a->head_dim)));
}

static void project(struct run *r, struct gptj_layer *l, val x, val *query, val *key, val *value)
{
    const struct arch *a = l->model->arch;
    int64_t share = a->hidden / SHARES;
    val qkv = local(r, call(r, l->q, x)), part[3];

    if (run_dead(r))
        return;
    qkv = local(r, reshape(r, qkv, SHAPE(size_of(r, qkv, 0), size_of(r, qkv, 1), SHARES, -1)));
    split(r, qkv, -1, 3, (int64_t[]){share, share, share}, part);
    *query = local(r, part[0]);
    *value = local(r, part[1]);
    *key = local(r, part[2]);
    rebind(r, query, split_heads(r, a, *query));
    rebind(r, key, split_heads(r, a, *key));
    rebind(r, value, split_heads(r, a, *value));
    rebind(r, value, permute(r, *value, 4, (int[]){0, 2, 1, 3}));
}

static val sincos(struct run *r, struct gptj_layer *l, val ids, enum dtype dtype)
{
    (void)dtype;
    return index_rows(r, l->positions->value, ids);
}

static const struct gptj_style style = {
    .mask = "causal_mask",
    .declare_projections = declare_projections,
    .project = project,
    .sincos = sincos,
    .scales_before_masking = true,
};

static void declare(struct model *m)
{
    gptj_declare(m, &style);
}

const struct family_program codegen_program = {
    .name = "codegen", .source = "models/codegen/modeling_codegen.py", .declare = declare, .forward = gptj_forward, .takes_item_count = true};
