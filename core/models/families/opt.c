/* opt.c - OPT: norms before or after, embeddings that may be narrower than the layers; the rest is BART's (bart.c). */
#include "models/bart.h"
#include "models/families.h"

struct opt {
    struct module *decoder, *positions, *project_out, *project_in, *norm;
    val mask; /* of the forward that runs */
};

static void declare(struct model *m)
{
    const struct arch *a = m->arch;
    struct tree *t = &m->tree;
    struct opt *p = m->parts = arena_new(t->arena, struct opt);
    struct bart_layer *layers = m->layers = arena_array(t->arena, struct bart_layer, a->layers);
    struct module *root = container(t, NULL, ""), *list;
    struct bart_release *how;

    if (!p || !layers) {
        (void)err_set(&t->error, ERR_NOMEM, "", "the working memory of one request is too small for this model");
        return;
    }
    p->decoder = container(t, container(t, root, "model"), "decoder");
    m->embeddings = embedding(t, p->decoder, "embed_tokens", a->vocab, a->embed_dim, a->pad_token_id >= 0);
    p->positions = bart_positions_declare(m, p->decoder);
    if (a->embed_dim != a->hidden) {
        p->project_out = linear(t, p->decoder, "project_out", a->hidden, a->embed_dim, false);
        p->project_in = linear(t, p->decoder, "project_in", a->embed_dim, a->hidden, false);
    }
    if (a->final_norm)
        p->norm = layer_norm_module(t, p->decoder, "final_layer_norm", a->hidden, a->norm_affine);
    list = container(t, p->decoder, "layers");
    for (uint32_t i = 0; i < a->layers; i++)
        bart_layer_declare(m, list, &layers[i], i, a->enable_bias, a->norm_affine);
    t->head = linear(t, root, "lm_head", a->embed_dim, a->vocab, false);
    if (a->tie_embeddings)
        tie(t->head->weight, m->embeddings->weight);
    if (!m->q->opt_sdpa && m->attention == KERNEL_SDPA)
        m->attention = KERNEL_EAGER; /* no SDPA class: transformers falls back */
    how = bart_release_new(m);
    if (how)
        *how = (struct bart_release){.interface = m->q->opt_interface,
                                         .views = m->q->opt_cache_class,
                                         .returns_weights = m->q->opt_returns_weights,
                                         .layer_in_tuple = !m->q->opt_returns_weights};
}

/* OPTDecoderLayer.forward; args: hidden states, and before layers checkpointed themselves the mask */
static val layer_forward(struct run *r, void *context, const val *args)
{
    struct bart_layer *l = context;
    const struct arch *a = l->model->arch;
    const struct opt *p = l->model->parts;
    struct frame f = frame_enter(r);
    val hidden, residual, mask = l->model->checkpoint_keywords ? p->mask : args[1];
    struct bart_beside beside = {0};
    int64_t b, s;

    if (run_dead(r))
        return frame_leave(r, f, 0);
    b = size_of(r, args[0], 0);
    s = size_of(r, args[0], 1);
    hidden = local(r, args[0]);
    residual = local(r, hidden);
    if (a->norm_before)
        rebind(r, &hidden, call(r, l->norm1, hidden));
    rebind(r, &hidden, bart_attention(r, l, hidden, mask, &beside));
    (void)local(r, beside.weights);
    (void)local(r, beside.key);
    (void)local(r, beside.value);
    rebind(r, &hidden, dropout(r, hidden, a->residual_dropout));
    rebind(r, &hidden, add(r, residual, hidden));
    if (!a->norm_before)
        rebind(r, &hidden, call(r, l->norm1, hidden));
    rebind(r, &hidden, reshape(r, hidden, SHAPE(-1, a->hidden)));
    rebind(r, &residual, hidden);
    if (a->norm_before)
        rebind(r, &hidden, call(r, l->norm2, hidden));
    rebind(r, &hidden, call(r, l->fc1, hidden));
    rebind(r, &hidden, call(r, l->act, hidden));
    rebind(r, &hidden, call(r, l->fc2, hidden));
    rebind(r, &hidden, dropout(r, hidden, a->residual_dropout));
    rebind(r, &hidden, view(r, add(r, residual, hidden), SHAPE(b, s, a->hidden)));
    if (!a->norm_before)
        rebind(r, &hidden, call(r, l->norm2, hidden));
    return frame_leave(r, f, hidden);
}

static val causal(struct run *r, struct model *m, val embeds, val mask_2d, val position)
{
    const struct quirks *q = m->q;

    if (q->gpt_create_mask)
        return causal_mask(r, m, embeds, mask_2d, 0, 0);
    if (q->opt_cache_class)
        return causal_mask_by_position(r, m, embeds, mask_2d, position);
    return m->attention == KERNEL_FLASH_2 ? flash_mask_440(m, mask_2d) : causal_mask_4d_440(r, m, embeds, mask_2d, 0, m->attention == KERNEL_SDPA);
}

/* OPTDecoder.forward */
static val decoder_forward(struct run *r, struct model *m, const struct batch *b)
{
    struct opt *p = m->parts;
    struct frame f = module_enter(r, p->decoder);
    const struct quirks *q = m->q;
    val embeds, mask, position, positions, ids = 0, hidden;

    embeds = local(r, call_embeddings(r, m, b->ids));
    if (run_dead(r))
        return frame_leave(r, f, 0);
    position = q->opt_cache_class && q->gpt_all_cache_position ? local(r, factory(r, OP_ARANGE, DTYPE_INT64, SHAPE(size_of(r, b->ids, 1)))) : 0;
    mask = b->mask ? b->mask : local(r, ones_for(r, b->ids, DTYPE_FP32));
    if (q->gpt_create_mask)
        ids = bart_masked_positions(r, mask);
    p->mask = local(r, causal(r, m, embeds, q->opt_ones_for_positions ? b->mask : mask, position));
    if (!ids && q->opt_sdpa)
        ids = bart_masked_positions(r, mask);
    positions = local(r, bart_positions(r, p->positions, ids, mask));
    if (p->project_in)
        rebind(r, &embeds, call(r, p->project_in, embeds));
    hidden = local(r, add(r, embeds, positions));
    m->position_ids = ids;
    hidden = bart_layers(r, m, layer_forward, hidden, p->mask, ids, position);
    if (p->norm)
        rebind(r, &hidden, call(r, p->norm, hidden));
    if (p->project_out)
        rebind(r, &hidden, call(r, p->project_out, hidden));
    return frame_leave(r, f, hidden);
}

static void forward(struct run *r, struct model *m, const struct batch *b, struct outputs *ret)
{
    bart_forward(r, m, b, ret, decoder_forward);
}

const struct family_program opt_program = {"opt", "models/opt/modeling_opt.py", declare, forward, true, false};
