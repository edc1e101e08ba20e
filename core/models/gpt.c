#include "models/gpt.h"

/* -------------------------------------------------------------------------------------------------------- declaration */
struct module *gpt_linear(struct gpt_layer *l, struct module *parent, const char *name, int64_t in, int64_t out, bool bias)
{
    struct tree *t = &l->model->tree;

    return l->style->conv1d ? conv1d(t, parent, name, in, out) : linear(t, parent, name, in, out, bias);
}

static void declare_layer(struct model *m, struct module *list, struct gpt_layer *l)
{
    const struct arch *a = m->arch;
    struct tree *t = &m->tree;

    l->self = container_at(t, list, l->index);
    l->ln_1 = layer_norm_module(t, l->self, "ln_1", a->hidden, true);
    l->attn = container(t, l->self, "attn");
    l->style->declare_attention(m, l);
    l->ln_2 = layer_norm_module(t, l->self, "ln_2", a->hidden, true);
    l->mlp = container(t, l->self, "mlp");
    l->c_fc = gpt_linear(l, l->mlp, "c_fc", a->hidden, a->ffn, true);
    l->c_proj = gpt_linear(l, l->mlp, "c_proj", a->ffn, a->hidden, true);
    l->act = activation_module(t, l->mlp, "act", a->activation);
    l->dropout = dropout_module(t, l->mlp, "dropout", a->residual_dropout);
}

struct gpt *gpt_declare(struct model *m, const struct gpt_style *style)
{
    const struct arch *a = m->arch;
    struct tree *t = &m->tree;
    struct gpt *p = m->parts = arena_new(t->arena, struct gpt);
    struct gpt_layer *layers = m->layers = arena_array(t->arena, struct gpt_layer, a->layers);
    struct module *root = container(t, NULL, ""), *list;

    if (!p || !layers) {
        (void)err_set(&t->error, ERR_NOMEM, "", "the working memory of one request is too small for this model");
        return NULL;
    }
    p->transformer = container(t, root, "transformer");
    m->embeddings = embedding(t, p->transformer, "wte", a->vocab, a->hidden, false);
    m->position_table = true;
    p->wpe = embedding(t, p->transformer, "wpe", a->max_positions, a->hidden, false);
    p->dropout = dropout_module(t, p->transformer, "drop", a->embed_dropout);
    list = container(t, p->transformer, "h");
    for (uint32_t i = 0; i < a->layers; i++) {
        layers[i] = (struct gpt_layer){.model = m, .style = style, .index = i};
        declare_layer(m, list, &layers[i]);
    }
    p->ln_f = layer_norm_module(t, p->transformer, "ln_f", a->hidden, true);
    t->head = linear(t, root, "lm_head", a->hidden, a->vocab, false);
    if (a->tie_embeddings)
        tie(t->head->weight, m->embeddings->weight);
    return p;
}

/* ------------------------------------------------------------------------------------------------------------ forward */
/* GPT2MLP.forward */
static val mlp_forward(struct run *r, struct gpt_layer *l, val x)
{
    struct frame f = module_enter(r, l->mlp);
    val hidden;

    (void)hold(r, x);
    hidden = local(r, x);
    rebind(r, &hidden, call(r, l->c_fc, hidden));
    rebind(r, &hidden, call(r, l->act, hidden));
    rebind(r, &hidden, call(r, l->c_proj, hidden));
    rebind(r, &hidden, call(r, l->dropout, hidden));
    return frame_leave(r, f, hidden);
}

/* Mask and cache_position are checkpointed arguments, not closed over. */
static bool blocks_by_place(const struct model *m)
{
    const struct gpt *p = m->parts;

    return p->by_place || !m->checkpoint_keywords;
}

/* GPT2Block.forward; args: hidden states and, where it is an argument, the mask */
static val block_forward(struct run *r, void *context, const val *args)
{
    struct gpt_layer *l = context;
    const struct gpt *p = l->model->parts;
    struct frame f = frame_enter(r);
    struct two attn;
    val hidden, residual, attn_output, beside, feed_forward;

    hidden = local(r, args[0]);
    residual = local(r, hidden);
    rebind(r, &hidden, call(r, l->ln_1, hidden));
    attn = l->style->attention(r, l, hidden, blocks_by_place(l->model) ? args[1] : p->mask);
    attn_output = local(r, attn.a);
    beside = local(r, attn.b);
    rebind(r, &hidden, add(r, attn_output, residual));
    rebind(r, &residual, hidden);
    rebind(r, &hidden, call(r, l->ln_2, hidden));
    feed_forward = local(r, mlp_forward(r, l, hidden));
    rebind(r, &hidden, add(r, residual, feed_forward));
    if (p->second && !run_dead(r))
        r->second = give(r, beside);
    return frame_leave(r, f, hidden);
}

/* What a block returns beside its hidden states: the KV cache keeps it, or the tuple it came in until the next block's. */
static void keep_second(struct run *r, struct model *m, uint32_t layer, val *tuple)
{
    const struct gpt *p = m->parts;
    val second = r->second;

    r->second = 0;
    if (p->second == GPT_SECOND_CACHE && second) {
        cache_update(r, m, layer, &second, NULL);
        consume(r, second);
    } else if (p->second == GPT_SECOND_WEIGHTS) {
        rebind(r, tuple, second);
    }
}

val gpt_blocks(struct run *r, struct model *m, val hidden)
{
    struct gpt *p = m->parts;
    struct gpt_layer *layers = m->layers;
    bool by_place = blocks_by_place(m);
    val args[3] = {0, p->mask, p->position}, closed[3] = {p->ids, p->mask, p->position};
    val outputs = local(r, 0), second = 0;

    for (uint32_t i = 0; i < m->n_layers && !run_dead(r); i++) {
        val out;

        args[0] = hidden;
        out = decoder_layer(r, m, layers[i].self, block_forward, &layers[i], !by_place ? 1 : p->position ? 3 : 2, args,
                            !m->checkpoint_keywords ? 0 : by_place ? 1 : 3, closed);
        keep_second(r, m, i, &second);
        if (p->block_in_tuple) /* outputs = block(..); hidden_states = outputs[0] */
            rebind(r, &outputs, out);
        rebind(r, &hidden, out);
    }
    rebind(r, &hidden, call(r, p->ln_f, hidden));
    if (!run_dead(r))
        rebind(r, &hidden, view(r, hidden, SHAPE(-1, size_of(r, hidden, 1), size_of(r, hidden, 2))));
    return hidden;
}

void gpt_forward(struct run *r, struct model *m, const struct batch *b, struct outputs *ret,
                 val (*model_forward)(struct run *r, struct model *m, const struct batch *b))
{
    const struct gpt *p = m->parts;
    struct frame f = module_enter(r, m->tree.root);
    val hidden = local(r, model_forward(r, m, b)), logits, loss;

    logits = local(r, call_head(r, m, hidden));
    if (p->casts_logits)
        rebind(r, &logits, to_dtype(r, logits, DTYPE_FP32));
    loss = local(r, gpt_all_loss(r, m, logits, b->labels));
    if (p->casts_logits && hidden) {
        rebind(r, &logits, to_dtype(r, logits, dtype_of(r, hidden)));
        rebind(r, &loss, to_dtype(r, loss, dtype_of(r, hidden)));
    }
    ret->loss = give(r, loss);
    ret->logits = give(r, logits);
    (void)frame_leave(r, f, 0);
}
