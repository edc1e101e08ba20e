/* bart.c - what opt and biogpt share. */
#include "models/bart.h"

enum { POSITION_OFFSET = 2 };

void bart_layer_declare(struct model *m, struct module *list, struct bart_layer *l, uint32_t index, bool bias, bool affine)
{
    const struct arch *a = m->arch;
    struct tree *t = &m->tree;

    l->model = m;
    l->index = index;
    l->self = container_at(t, list, index);
    l->attn = container(t, l->self, "self_attn");
    l->k = linear(t, l->attn, "k_proj", a->hidden, a->hidden, bias);
    l->v = linear(t, l->attn, "v_proj", a->hidden, a->hidden, bias);
    l->q = linear(t, l->attn, "q_proj", a->hidden, a->hidden, bias);
    l->out = linear(t, l->attn, "out_proj", a->hidden, a->hidden, bias);
    l->act = activation_module(t, l->self, "activation_fn", a->activation);
    l->norm1 = layer_norm_module(t, l->self, "self_attn_layer_norm", a->hidden, affine);
    l->fc1 = linear(t, l->self, "fc1", a->hidden, a->ffn, bias);
    l->fc2 = linear(t, l->self, "fc2", a->ffn, a->hidden, bias);
    l->norm2 = layer_norm_module(t, l->self, "final_layer_norm", a->hidden, affine);
}

struct bart_release *bart_release_new(struct model *m)
{
    struct bart_release *how = arena_new(m->tree.arena, struct bart_release);
    struct bart_layer *layers = m->layers;

    if (!how)
        (void)err_set(&m->tree.error, ERR_NOMEM, "", "the working memory of one request is too small for this model");
    for (uint32_t i = 0; how && i < m->arch->layers; i++)
        layers[i].release = how;
    return how;
}

struct module *bart_positions_declare(struct model *m, struct module *parent)
{
    m->position_table = true;
    return embedding(&m->tree, parent, "embed_positions", m->arch->max_positions + POSITION_OFFSET, m->arch->hidden, false);
}

/* ---------------------------------------------------------------------------------------------------------- attention */
static val heads(struct run *r, const struct arch *a, val x)
{
    return transpose(r, view(r, x, SHAPE(size_of(r, x, 0), -1, a->heads, a->head_dim)), 1, 2);
}

/* OPTAttention.forward, which scales the query itself; BioGptAttention.forward leaves that to the kernel. */
static val attention(struct run *r, struct bart_layer *l, val x, val mask, struct bart_beside *ret)
{
    const struct arch *a = l->model->arch;
    struct frame f = module_enter(r, l->attn);
    val q, k, v, out, weights = 0;
    struct attention_call c = {.mask = mask, .dropout = a->attention_dropout, .groups = 1, .softmax_as_is = a->family != FAMILY_OPT,
                               .weights = &weights};
    int64_t rows, seq;

    if (run_dead(r))
        return frame_leave(r, f, 0);
    (void)hold(r, x);
    rows = size_of(r, x, 0);
    seq = size_of(r, x, 1);
    q = call(r, l->q, x);
    q = local(r, a->family == FAMILY_OPT ? mul_scalar(r, q) : q);
    rebind(r, &q, heads(r, a, q));
    k = local(r, call(r, l->k, x));
    v = local(r, call(r, l->v, x));
    rebind(r, &k, heads(r, a, k));
    rebind(r, &v, heads(r, a, v));
    cache_update(r, l->model, l->index, &k, &v);
    out = local(r, attention_interface(r, l->model, q, k, v, &c));
    weights = local(r, weights);
    rebind(r, &out, contiguous(r, reshape(r, out, SHAPE(rows, seq, -1))));
    rebind(r, &out, call(r, l->out, out));
    ret->weights = l->release->returns_weights ? give(r, weights) : 0;
    return frame_leave(r, f, out);
}

/* OPTAttention._shape, while there was one */
static val shape(struct run *r, const struct arch *a, val x)
{
    struct frame f = frame_enter(r);

    (void)local(r, x);
    return frame_leave(r, f, contiguous(r, heads(r, a, x)));
}

/* OptFlashAttention2.forward from the projections on: q is not scaled. */
static val flash_4(struct run *r, struct bart_layer *l, val *q, val *k, val *v, val mask)
{
    const struct arch *a = l->model->arch;
    struct attention_call c = {.mask = mask, .dropout = a->attention_dropout, .groups = 1};

    rebind(r, q, heads(r, a, *q));
    return attention_interface(r, l->model, *q, *k, *v, &c);
}

/* From q, k and v of [batch * heads, seq, head_dim]: what bmm() makes of them */
static val products(struct run *r, struct bart_layer *l, val q, val k, val v, val mask, int64_t b)
{
    const struct arch *a = l->model->arch;
    int64_t s = size_of(r, k, 1), h = a->heads;
    val weights, probs;

    weights = local(r, bmm(r, q, transpose(r, k, 1, 2)));
    if (mask) {
        rebind(r, &weights, add(r, view(r, weights, SHAPE(b, h, s, s)), mask));
        if (a->family == FAMILY_OPT) /* torch.max(weights, torch.tensor(finfo.min)) */
            rebind(r, &weights, maximum(r, weights, factory(r, OP_TO_COPY, DTYPE_FP32, 0, NULL)));
        rebind(r, &weights, view(r, weights, SHAPE(b * h, s, s)));
    }
    if (a->family == FAMILY_OPT && weights && dtype_of(r, weights) == DTYPE_FP16)
        rebind(r, &weights, to_dtype(r, softmax(r, weights, DTYPE_FP32), DTYPE_FP16));
    else
        rebind(r, &weights, softmax(r, weights, DTYPE_COUNT));
    probs = local(r, dropout(r, weights, a->attention_dropout));
    return transpose(r, view(r, bmm(r, probs, v), SHAPE(b, h, s, a->head_dim)), 1, 2);
}

/* OPTAttention.forward, BartAttention.forward with which BioGPT's is one, from the projections on */
static val eager_4(struct run *r, struct bart_layer *l, val *q, val *k, val *v, val mask)
{
    const struct arch *a = l->model->arch;
    int64_t b = size_of(r, *k, 0), h = a->heads, d = a->head_dim;

    rebind(r, q, view(r, shape(r, a, *q), SHAPE(b * h, -1, d)));
    rebind(r, k, view(r, *k, SHAPE(b * h, -1, d)));
    rebind(r, v, view(r, *v, SHAPE(b * h, -1, d)));
    return products(r, l, *q, *k, *v, mask, b);
}

/* OPTSdpaAttention.forward, BioGptSdpaAttention.forward */
static val sdpa_4(struct run *r, struct bart_layer *l, val *q, val k, val v, val mask)
{
    if (l->model->arch->family != FAMILY_OPT)
        rebind(r, q, shape(r, l->model->arch, *q));
    return sdpa_of_class(r, *q, k, v, mask, l->model->arch->attention_dropout);
}

/* OPT's class for SDPA scales the query itself, BioGPT's leaves it to the kernel; none for flash-attn does */
static bool scales_query(const struct bart_layer *l)
{
    return l->model->attention == KERNEL_EAGER || (l->model->attention == KERNEL_SDPA && l->model->arch->family == FAMILY_OPT);
}

/* Classes whose heads are copies */
static val attention_of_copies(struct run *r, struct bart_layer *l, val x, val mask, struct bart_beside *ret)
{
    const struct arch *a = l->model->arch;
    struct frame f = module_enter(r, l->attn);
    enum attention_kernel kernel = l->model->attention;
    int64_t b, s;
    val q, k, v, out;

    if (run_dead(r))
        return frame_leave(r, f, 0);
    (void)hold(r, x);
    b = size_of(r, x, 0);
    s = size_of(r, x, 1);
    q = call(r, l->q, x);
    q = local(r, scales_query(l) ? mul_scalar(r, q) : q);
    if (kernel == KERNEL_SDPA && a->family == FAMILY_OPT) /* BioGPT's comes after the others */
        rebind(r, &q, shape(r, a, q));
    k = local(r, shape(r, a, call(r, l->k, x)));
    v = local(r, shape(r, a, call(r, l->v, x)));
    ret->key = local(r, k); /* past_key_value: made whether a cache is asked for or not */
    ret->value = local(r, v);
    cache_update(r, l->model, l->index, &k, &v);
    out = kernel == KERNEL_FLASH_2 ? flash_4(r, l, &q, &k, &v, mask) : kernel == KERNEL_SDPA ? sdpa_4(r, l, &q, k, v, mask)
                                                                                             : eager_4(r, l, &q, &k, &v, mask);
    out = local(r, out);
    rebind(r, &out, reshape(r, out, SHAPE(b, s, a->hidden)));
    if (kernel == KERNEL_FLASH_2) /* attn_weights_reshaped */
        (void)local(r, out);
    rebind(r, &out, call(r, l->out, out));
    ret->key = give(r, ret->key);
    ret->value = give(r, ret->value);
    return frame_leave(r, f, out);
}

/* OPTAttention.forward of 4.49 to 4.51; the probabilities are what it returns */
static val opt_eager_of_views(struct run *r, struct bart_layer *l, val q, val k, val v, val mask, struct bart_beside *ret)
{
    val weights = local(r, matmul(r, q, transpose(r, k, 3, 2))), out;

    if (mask)
        rebind(r, &weights, add(r, weights, mask));
    rebind(r, &weights, to_dtype(r, softmax(r, weights, DTYPE_FP32), dtype_of(r, q)));
    ret->weights = local(r, dropout(r, weights, l->model->arch->attention_dropout));
    out = local(r, matmul(r, ret->weights, v));
    rebind(r, &out, contiguous(r, transpose(r, out, 1, 2)));
    return out;
}

/* BioGptAttention.forward of 4.52 */
static val biogpt_eager_of_views(struct run *r, struct bart_layer *l, val *q, val *k, val *v, val mask)
{
    const struct arch *a = l->model->arch;
    int64_t b = size_of(r, *k, 0);
    val *in[3] = {q, k, v};

    for (int i = 0; i < 3; i++)
        rebind(r, in[i], reshape(r, *in[i], SHAPE(b * a->heads, -1, a->head_dim)));
    return local(r, products(r, l, *q, *k, *v, mask, b));
}

/* BioGPT's class for SDPA lays its inputs out where there is a mask */
static val sdpa_of_views(struct run *r, struct bart_layer *l, val *q, val *k, val *v, val mask)
{
    val *in[3] = {q, k, v};

    for (int i = 0; i < 3 && mask && l->model->arch->family == FAMILY_BIOGPT; i++)
        rebind(r, in[i], contiguous(r, *in[i]));
    return local(r, sdpa_of_class(r, *q, *k, *v, mask, l->model->arch->attention_dropout));
}

/* Classes whose heads are views */
static val attention_of_views(struct run *r, struct bart_layer *l, val x, val mask, struct bart_beside *ret)
{
    const struct arch *a = l->model->arch;
    struct frame f = module_enter(r, l->attn);
    struct attention_call c = {.mask = mask, .dropout = a->attention_dropout, .groups = 1};
    bool opt = a->family == FAMILY_OPT, eager = l->model->attention == KERNEL_EAGER;
    val q, k, v, out;

    if (run_dead(r))
        return frame_leave(r, f, 0);
    (void)hold(r, x);
    q = call(r, l->q, x);
    q = local(r, eager && opt ? mul_scalar(r, q) : q);
    rebind(r, &q, heads(r, a, q));
    if (eager && !opt)
        rebind(r, &q, mul_scalar(r, q));
    k = local(r, call(r, l->k, x));
    v = local(r, call(r, l->v, x));
    rebind(r, &k, heads(r, a, k));
    rebind(r, &v, heads(r, a, v));
    cache_update(r, l->model, l->index, &k, &v);
    if (l->model->attention == KERNEL_FLASH_2)
        out = local(r, flash_attention_2(r, l->model, q, k, v, &c));
    else if (eager)
        out = opt ? opt_eager_of_views(r, l, q, k, v, mask, ret) : biogpt_eager_of_views(r, l, &q, &k, &v, mask);
    else
        out = sdpa_of_views(r, l, &q, &k, &v, mask);
    rebind(r, &out, reshape(r, out, SHAPE(size_of(r, x, 0), size_of(r, x, 1), a->hidden)));
    if (l->model->attention == KERNEL_FLASH_2) /* attn_weights_reshaped */
        (void)local(r, out);
    rebind(r, &out, call(r, l->out, out));
    ret->weights = give(r, ret->weights);
    return frame_leave(r, f, out);
}

val bart_attention(struct run *r, struct bart_layer *l, val x, val mask, struct bart_beside *ret)
{
    if (l->release->interface)
        return attention(r, l, x, mask, ret);
    return l->release->views ? attention_of_views(r, l, x, mask, ret) : attention_of_copies(r, l, x, mask, ret);
}

/* ---------------------------------------------------------------------------------------------------------- positions */
/* (torch.cumsum(mask, dim=1) * mask).long() - 1 */
static val position_ids(struct run *r, val mask)
{
    val ids;

    mask = local(r, to_dtype(r, mask, DTYPE_INT64));
    ids = cumsum(r, mask, 1);
    ids = pointwise_op(r, OP_MUL, DTYPE_INT64, ids, mask);
    return sub_scalar(r, ids);
}

val bart_positions(struct run *r, struct module *positions, val ids, val mask)
{
    struct frame f = module_enter(r, positions);

    if (!ids)
        ids = local(r, position_ids(r, mask));
    return frame_leave(r, f, positions->forward(r, positions, add_scalar(r, ids)));
}

val bart_masked_positions(struct run *r, val mask)
{
    struct frame f = frame_enter(r);
    enum dtype dtype = run_dead(r) ? DTYPE_INT64 : dtype_of(r, mask); /* fp32: ones that stand for no mask */
    val ids = local(r, cumsum_as(r, mask, 1, dtype));

    ids = sub_scalar(r, pointwise_op(r, OP_MUL, dtype, ids, mask));
    return local(r, frame_leave(r, f, to_dtype(r, ids, DTYPE_INT64)));
}

/* ------------------------------------------------------------------------------------------------------------ decoder */
val bart_layers(struct run *r, struct model *m, region_function layer, val hidden, val mask, val ids, val position)
{
    struct bart_layer *layers = m->layers;
    val layer_outputs = local(r, 0), args[4] = {0, mask}, closed[3] = {mask, ids, position};
    bool keywords = m->checkpoint_keywords;
    int n = 2;

    if (ids)
        args[n++] = ids;
    if (position)
        args[n++] = position;
    for (uint32_t i = 0; i < m->n_layers; i++) {
        val out;

        args[0] = hidden;
        out = decoder_layer(r, m, layers[i].self, layer, &layers[i], keywords ? 1 : n, args, keywords ? 3 : 0, closed);
        if (layers[i].release->layer_in_tuple) /* layer_outputs = layer(..); hidden_states = layer_outputs[0] */
            rebind(r, &layer_outputs, out);
        rebind(r, &hidden, out);
    }
    return hidden;
}

/* biogpt of 4.40 cuts scores[:, :-1, :], opt logits[..., :-1, :] */
static val shifted(struct run *r, const struct model *m, val logits)
{
    if (m->arch->family == FAMILY_OPT || !m->q->full_slices_are_nodes || run_dead(r))
        return logits;
    return slice(r, logits, 0, 0, size_of(r, logits, 0));
}

void bart_forward(struct run *r, struct model *m, const struct batch *b, struct outputs *ret,
                  val (*decoder)(struct run *r, struct model *m, const struct batch *b))
{
    struct frame f = module_enter(r, m->tree.root);
    val hidden = local(r, decoder(r, m, b)), logits, loss;

    logits = local(r, call_head(r, m, hidden));
    loss = local(r, gpt_all_loss(r, m, m->q->loss_pads_labels ? logits : shifted(r, m, logits), b->labels));
    ret->loss = give(r, loss);
    ret->logits = give(r, logits);
    (void)frame_leave(r, f, 0);
}
