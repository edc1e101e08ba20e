/* biogpt.c - BioGPT: OPT's skeleton with scaled embeddings, dropout on them and after the activation (bart.c). */
#include "models/bart.h"
#include "models/families.h"

struct biogpt {
    struct module *model, *positions, *norm;
    val mask; /* of the forward that runs */
};

/* BioGptScaledWordEmbedding.forward */
static val scaled_embedding(struct run *r, struct module *m, val ids)
{
    return mul_scalar(r, embedding_op(r, m->weight->value, ids, m->padding_idx));
}

static void declare(struct model *m)
{
    const struct arch *a = m->arch;
    struct tree *t = &m->tree;
    struct biogpt *p = m->parts = arena_new(t->arena, struct biogpt);
    struct bart_layer *layers = m->layers = arena_array(t->arena, struct bart_layer, a->layers);
    struct module *root = container(t, NULL, ""), *list;
    struct bart_release *how;

    if (!p || !layers) {
        (void)err_set(&t->error, ERR_NOMEM, "", "the working memory of one request is too small for this model");
        return;
    }
    p->model = container(t, root, "biogpt");
    m->embeddings = embedding(t, p->model, "embed_tokens", a->vocab, a->hidden, a->pad_token_id >= 0);
    if (m->q->biogpt_scales_in_module && !t->error.code)
        m->embeddings->forward = scaled_embedding;
    p->positions = bart_positions_declare(m, p->model);
    list = container(t, p->model, "layers");
    for (uint32_t i = 0; i < a->layers; i++)
        bart_layer_declare(m, list, &layers[i], i, true, true);
    p->norm = layer_norm_module(t, p->model, "layer_norm", a->hidden, true);
    t->head = linear(t, root, "output_projection", a->hidden, a->vocab, false);
    if (a->tie_embeddings)
        tie(t->head->weight, m->embeddings->weight);
    if (!m->q->biogpt_sdpa && m->attention == KERNEL_SDPA)
        m->attention = KERNEL_EAGER; /* no SDPA class: transformers falls back */
    how = bart_release_new(m);
    if (how)
        *how = (struct bart_release){.interface = m->q->biogpt_interface,
                                         .views = m->q->biogpt_cache_class,
                                         .returns_weights = true,
                                         .layer_in_tuple = m->q->biogpt_layer_in_tuple};
}

/* BioGptDecoderLayer.forward; args: hidden states, and before layers checkpointed themselves the mask */
static val layer_forward(struct run *r, void *context, const val *args)
{
    struct bart_layer *l = context;
    const struct arch *a = l->model->arch;
    const struct biogpt *p = l->model->parts;
    struct frame f = frame_enter(r);
    val hidden, residual, mask = l->model->checkpoint_keywords ? p->mask : args[1];
    struct bart_beside beside = {0};

    hidden = local(r, args[0]);
    residual = local(r, hidden);
    rebind(r, &hidden, call(r, l->norm1, hidden));
    rebind(r, &hidden, bart_attention(r, l, hidden, mask, &beside));
    (void)local(r, beside.weights);
    (void)local(r, beside.key);
    (void)local(r, beside.value);
    rebind(r, &hidden, dropout(r, hidden, a->residual_dropout));
    rebind(r, &hidden, add(r, residual, hidden));
    rebind(r, &residual, hidden);
    rebind(r, &hidden, call(r, l->norm2, hidden));
    rebind(r, &hidden, call(r, l->fc1, hidden));
    rebind(r, &hidden, call(r, l->act, hidden));
    rebind(r, &hidden, dropout(r, hidden, a->activation_dropout));
    rebind(r, &hidden, call(r, l->fc2, hidden));
    rebind(r, &hidden, dropout(r, hidden, a->residual_dropout));
    rebind(r, &hidden, add(r, residual, hidden));
    return frame_leave(r, f, hidden);
}

static val causal(struct run *r, struct model *m, val embeds, val mask_2d, val position)
{
    if (m->q->biogpt_create_mask)
        return causal_mask(r, m, embeds, mask_2d, 0, 0);
    if (m->q->biogpt_cache_class)
        return causal_mask_by_position(r, m, embeds, mask_2d, position);
    return causal_mask_4d_440(r, m, embeds, mask_2d, 0, m->attention == KERNEL_SDPA);
}

/* Masks and positions since cache_position came; *ret_ids: position_ids. The embedded positions, a local of the caller's */
static val positions_since(struct run *r, struct model *m, val embeds, val mask_2d, val *ret_ids, val *ret_position)
{
    struct biogpt *p = m->parts;
    int64_t seq = size_of(r, embeds, 1);
    val ids = 0, position = 0, positions;

    if (m->q->gpt_all_cache_position)
        position = local(r, factory(r, OP_ARANGE, DTYPE_INT64, SHAPE(seq)));
    p->mask = local(r, causal(r, m, embeds, mask_2d, position));
    if (m->q->biogpt_positions_of_mask)
        ids = bart_masked_positions(r, mask_2d);
    else
        ids = position ? local(r, unsqueeze(r, position, 0)) : gpt_all_positions(r, m, seq);
    positions = local(r, bart_positions(r, p->positions, ids, mask_2d));
    if (!m->q->biogpt_interface) /* position_ids = self.embed_positions(..): not handed on */
        drop(r, &ids);
    *ret_ids = ids;
    *ret_position = position;
    return positions;
}

/* BioGptModel.forward */
static val model_forward(struct run *r, struct model *m, const struct batch *b)
{
    struct biogpt *p = m->parts;
    struct frame f = module_enter(r, p->model);
    bool since = m->q->biogpt_cache_class;
    val embeds, positions, mask, ids = 0, position = 0, hidden;

    embeds = call_embeddings(r, m, b->ids);
    if (run_dead(r))
        return frame_leave(r, f, 0);
    embeds = local(r, m->q->biogpt_scales_in_module ? embeds : mul_scalar(r, embeds));
    mask = b->mask ? b->mask : local(r, ones_for(r, b->ids, since ? DTYPE_FP32 : DTYPE_BOOL));
    if (since) {
        positions = positions_since(r, m, embeds, mask, &ids, &position);
    } else {
        positions = local(r, bart_positions(r, p->positions, 0, mask));
        p->mask = local(r, causal(r, m, embeds, mask, 0));
        if (!b->mask) /* attention_mask = _prepare_4d_causal_attention_mask(attention_mask, ..) */
            drop(r, &mask);
    }
    hidden = local(r, add(r, embeds, positions));
    rebind(r, &hidden, dropout(r, hidden, m->arch->embed_dropout));
    m->position_ids = ids;
    hidden = bart_layers(r, m, layer_forward, hidden, p->mask, ids, position);
    rebind(r, &hidden, call(r, p->norm, hidden));
    return frame_leave(r, f, hidden);
}

static void forward(struct run *r, struct model *m, const struct batch *b, struct outputs *ret)
{
    bart_forward(r, m, b, ret, model_forward);
}

const struct family_program biogpt_program = {"biogpt", "models/biogpt/modeling_biogpt.py", declare, forward, true, false};
