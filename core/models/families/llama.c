/*
 * llama.c - llama, mistral, qwen2, qwen3: one program. What they add to each other is a member of arch: biases, query and key
 * norms, sliding windows.
 */
#include "models/blocks.h"
#include "models/families.h"

struct llama_layer {
    struct model *model;
    uint32_t index;
    struct module *self, *attn, *q, *k, *v, *o, *q_norm, *k_norm, *rotary, *mlp, *gate, *up, *down, *act, *norm1, *norm2;
    struct param *inv_freq, *tables[2]; /* cos and sin where attention reads them */
};

struct llama {
    struct module *decoder, *norm, *rotary;
    struct param *inv_freq;
    val masks[2];  /* of the forward that runs: for full and for sliding layers */
    val shared[3]; /* cos and sin, position ids */
};

/* -------------------------------------------------------------------------------------------------------- declaration */
static struct param *rotary_buffers(struct model *m, struct module *rotary, struct param **tables)
{
    struct tree *t = &m->tree;
    int64_t half = m->arch->rotary_dim / 2, rows = m->arch->max_positions;
    struct param *inv_freq = buffer_add(t, rotary, "inv_freq", DTYPE_FP32, SHAPE(half));

    if (m->q->inv_freq_kept_twice)
        (void)buffer_add(t, rotary, "original_inv_freq", DTYPE_FP32, SHAPE(half));
    if (!m->q->rope_tables_kept)
        return inv_freq;
    if (m->arch->family == FAMILY_LLAMA) { /* tables that nobody reads any more, in the model's dtype */
        (void)buffer_add(t, rotary, "_cos_cached", t->dtype, SHAPE(rows, 2 * half));
        (void)buffer_add(t, rotary, "_sin_cached", t->dtype, SHAPE(rows, 2 * half));
    } else { /* mistral and qwen2 read theirs */
        tables[0] = buffer_add(t, rotary, "cos_cached", t->dtype, SHAPE(rows, 2 * half));
        tables[1] = buffer_add(t, rotary, "sin_cached", t->dtype, SHAPE(rows, 2 * half));
    }
    return inv_freq;
}

static void declare_layer(struct model *m, struct module *list, struct llama_layer *l, uint32_t index)
{
    const struct arch *a = m->arch;
    struct tree *t = &m->tree;
    int64_t d = a->head_dim, q = a->heads * d, kv = a->kv_heads * d;
    bool qkv_bias = a->family == FAMILY_QWEN2 || a->attention_bias, o_bias = a->attention_bias;
    bool mlp_bias = a->mlp_bias && m->q->mlp_bias_is_read;

    l->model = m;
    l->index = index;
    l->self = container_at(t, list, index);
    l->attn = container(t, l->self, "self_attn");
    l->q = linear(t, l->attn, "q_proj", a->hidden, q, qkv_bias);
    l->k = linear(t, l->attn, "k_proj", a->hidden, kv, qkv_bias);
    l->v = linear(t, l->attn, "v_proj", a->hidden, kv, qkv_bias);
    l->o = linear(t, l->attn, "o_proj", q, a->hidden, o_bias);
    if (a->family == FAMILY_QWEN3) {
        l->q_norm = rms_norm(t, l->attn, "q_norm", d);
        l->k_norm = rms_norm(t, l->attn, "k_norm", d);
    }
    if (m->q->rope_in_attention) {
        l->rotary = container(t, l->attn, "rotary_emb");
        l->inv_freq = rotary_buffers(m, l->rotary, l->tables);
    }
    l->mlp = container(t, l->self, "mlp");
    l->gate = linear(t, l->mlp, "gate_proj", a->hidden, a->ffn, mlp_bias);
    l->up = linear(t, l->mlp, "up_proj", a->hidden, a->ffn, mlp_bias);
    l->down = linear(t, l->mlp, "down_proj", a->ffn, a->hidden, mlp_bias);
    l->act = activation_module(t, l->mlp, "act_fn", a->activation);
    l->norm1 = rms_norm(t, l->self, "input_layernorm", a->hidden);
    l->norm2 = rms_norm(t, l->self, "post_attention_layernorm", a->hidden);
}

static void declare(struct model *m)
{
    const struct arch *a = m->arch;
    struct tree *t = &m->tree;
    struct llama *p = m->parts = arena_new(t->arena, struct llama);
    struct llama_layer *layers = m->layers = arena_array(t->arena, struct llama_layer, a->layers);
    struct module *root = container(t, NULL, ""), *list;

    if (!p || !layers) {
        (void)err_set(&t->error, ERR_NOMEM, "", "the working memory of one request is too small for this model");
        return;
    }
    p->decoder = container(t, root, "model");
    m->embeddings = embedding(t, p->decoder, "embed_tokens", a->vocab, a->hidden, a->pad_token_id >= 0);
    list = container(t, p->decoder, "layers");
    for (uint32_t i = 0; i < a->layers; i++)
        declare_layer(m, list, &layers[i], i);
    p->norm = rms_norm(t, p->decoder, "norm", a->hidden);
    if (m->q->rope_once) {
        p->rotary = container(t, p->decoder, "rotary_emb");
        p->inv_freq = rotary_buffers(m, p->rotary, NULL);
    }
    m->use_cache = m->use_cache && m->q->cache_in_training;
    t->head = linear(t, root, "lm_head", a->hidden, a->vocab, false);
    if (a->tie_embeddings)
        tie(t->head->weight, m->embeddings->weight);
}

/* ------------------------------------------------------------------------------------------------------------ forward */
static val heads(struct run *r, val x, int64_t d)
{
    return transpose(r, view(r, x, SHAPE(size_of(r, x, 0), size_of(r, x, 1), -1, d)), 1, 2);
}

/* MistralRotaryEmbedding.forward of 4.40: cos_cached[:seq_len].to(x.dtype) */
static val rotary_rows(struct run *r, const struct llama_layer *l, int table, val like, int64_t seq)
{
    uint32_t module = r->module;
    val rows;

    r->module = l->rotary->number;
    rows = to_dtype(r, slice(r, l->tables[table]->value, 0, 0, seq), like ? dtype_of(r, like) : DTYPE_FP32);
    r->module = module;
    return local(r, rows);
}

/* LlamaAttention.forward; *weights: what the layer's `_` holds in 5.x, a temporary */
static val attention(struct run *r, struct llama_layer *l, val x, val mask, val cos, val sin, val ids, val *weights)
{
    const struct arch *a = l->model->arch;
    struct attention_call c = {.mask = mask, .dropout = a->attention_dropout, .groups = a->heads / a->kv_heads, .weights = weights};
    struct frame f = module_enter(r, l->attn);
    int64_t rows, seq, d = a->head_dim;
    struct two qk;
    val q, k, v, out;

    if (run_dead(r))
        return frame_leave(r, f, 0);
    (void)hold(r, x);
    rows = size_of(r, x, 0);
    seq = size_of(r, x, 1);
    q = call(r, l->q, x);
    if (l->q_norm) {
        q = local(r, transpose(r, call(r, l->q_norm, view(r, q, SHAPE(rows, seq, -1, d))), 1, 2));
        k = view(r, call(r, l->k, x), SHAPE(rows, seq, -1, d));
        k = local(r, transpose(r, call(r, l->k_norm, k), 1, 2));
        v = local(r, heads(r, call(r, l->v, x), d));
    } else if (l->model->q->interface_attention) {
        q = local(r, heads(r, q, d));
        k = local(r, heads(r, call(r, l->k, x), d));
        v = local(r, heads(r, call(r, l->v, x), d));
    } else { /* projects first, then rebinds the views */
        q = local(r, q);
        k = local(r, call(r, l->k, x));
        v = local(r, call(r, l->v, x));
        rebind(r, &q, heads(r, q, d));
        rebind(r, &k, heads(r, k, d));
        rebind(r, &v, heads(r, v, d));
    }
    if (l->tables[0]) {
        if (l->model->attention == KERNEL_FLASH_2) /* position_ids[:, -1].max() */
            consume(r, factory(r, OP_MAX, DTYPE_INT64, 0, NULL));
        cos = rotary_rows(r, l, 0, v, seq + (l->model->attention == KERNEL_FLASH_2)); /* rotary_seq_len = max(..) + 1 */
        sin = rotary_rows(r, l, 1, v, seq + (l->model->attention == KERNEL_FLASH_2));
        qk = apply_rotary_at(r, q, k, cos, sin, ids);
    } else if (!l->model->q->rope_once) {
        qk = rotary_tables(r, l->model, l->rotary, ids, v ? dtype_of(r, v) : DTYPE_FP32, l->inv_freq->value);
        cos = local(r, qk.a);
        sin = local(r, qk.b);
        qk = apply_rotary(r, q, k, cos, sin);
    } else {
        qk = apply_rotary(r, q, k, cos, sin);
    }
    rebind(r, &q, qk.a);
    rebind(r, &k, qk.b);
    cache_update(r, l->model, l->index, &k, &v);
    c.scale_by_division = !l->model->q->interface_attention;
    /* MistralFlashAttention2 repeats what the kernel could share */
    if (c.scale_by_division && a->family != FAMILY_LLAMA && l->model->attention == KERNEL_FLASH_2) {
        rebind(r, &k, repeat_kv(r, l->model, k, c.groups));
        rebind(r, &v, repeat_kv(r, l->model, v, c.groups));
    }
    out = local(r, c.scale_by_division ? attention_440(r, l->model, &q, &k, &v, &c)
                                       : attention_interface(r, l->model, q, k, v, &c));
    (void)local(r, *weights);
    rebind(r, &out, reshape(r, out, SHAPE(rows, seq, -1)));
    if (l->model->q->interface_attention)
        rebind(r, &out, contiguous(r, out));
    rebind(r, &out, call(r, l->o, out));
    *weights = c.scale_by_division ? 0 : give(r, *weights); /* before: attn_weights = None */
    return frame_leave(r, f, out);
}

/* LlamaMLP.forward */
static val mlp_forward(struct run *r, struct llama_layer *l, val x)
{
    struct frame f = module_enter(r, l->mlp);
    val gate;

    (void)hold(r, x);
    gate = call(r, l->act, call(r, l->gate, x));
    gate = mul(r, gate, call(r, l->up, x));
    return frame_leave(r, f, local(r, call(r, l->down, gate)));
}

static val layer_mask(const struct llama_layer *l)
{
    const struct llama *p = l->model->parts;

    return p->masks[l->model->arch->layer_kinds[l->index] == LAYER_SLIDING];
}

/* LlamaDecoderLayer.forward; args: hidden states, and where a checkpoint has them positional, mask and position ids */
static val layer_forward(struct run *r, void *context, const val *args)
{
    struct llama_layer *l = context;
    const struct llama *p = l->model->parts;
    struct frame f = frame_enter(r);
    val hidden, residual, weights = 0;

    hidden = local(r, args[0]);
    residual = local(r, hidden);
    rebind(r, &hidden, call(r, l->norm1, hidden));
    if (l->model->q->checkpoint_keywords)
        rebind(r, &hidden, attention(r, l, hidden, layer_mask(l), p->shared[0], p->shared[1], p->shared[2], &weights));
    else
        rebind(r, &hidden, attention(r, l, hidden, args[1], p->shared[0], p->shared[1], args[2], &weights));
    (void)local(r, weights);
    rebind(r, &hidden, add(r, residual, hidden));
    rebind(r, &residual, hidden);
    rebind(r, &hidden, call(r, l->norm2, hidden));
    rebind(r, &hidden, mlp_forward(r, l, hidden));
    rebind(r, &hidden, add(r, residual, hidden));
    return frame_leave(r, f, hidden);
}

/* One mask for all layers. */
static val one_mask(struct run *r, struct model *m, val embeds, val mask_2d, val position)
{
    int64_t window = m->q->unused_window_kept ? m->arch->declared_window : m->arch->sliding_window;

    if (m->q->mask_by_position && m->q->mask_has_window && m->arch->family != FAMILY_LLAMA)
        return causal_mask_in_window(r, m, embeds, mask_2d, position, window);
    if (m->q->mask_by_position)
        return causal_mask_by_position(r, m, embeds, mask_2d, position);
    if (m->attention == KERNEL_FLASH_2 && mask_2d)
        look_for_right_padding(r, m);
    if (m->attention == KERNEL_FLASH_2)
        return flash_mask_440(m, mask_2d);
    return causal_mask_4d_440(r, m, embeds, mask_2d, window, m->attention == KERNEL_SDPA);
}

/* masking_utils: one mask for each kind of layer that the model has */
static void layer_masks(struct run *r, struct model *m, val embeds, val mask_2d, val ids)
{
    struct llama *p = m->parts;
    bool has[2] = {false, false};

    for (uint32_t i = 0; i < m->n_layers; i++)
        has[m->arch->layer_kinds[i] == LAYER_SLIDING] = true;
    for (int kind = 0; kind < 2; kind++)
        p->masks[kind] = has[kind] ? local(r, causal_mask(r, m, embeds, mask_2d, ids, kind ? m->arch->sliding_window : 0)) : 0;
}

/* cache_position = torch.arange(..), position_ids = cache_position.unsqueeze(0) */
static val positions(struct run *r, const struct model *m, val ids)
{
    val row = factory(r, OP_ARANGE, DTYPE_INT64, SHAPE(size_of(r, ids, 1)));

    if (m->q->positions_are_added)
        row = add_scalar(r, row);
    return unsqueeze(r, row, 0);
}

/* MistralModel and Qwen2Model made positions first while their masks came from modeling_attn_mask_utils.py. */
static val enter(struct run *r, struct model *m, val ids, val *embeds)
{
    bool last = m->q->mask_by_position && m->q->cache_position_kept; /* embeddings die first */
    val *slots[2] = {slot(r), slot(r)}, *at = slots[last], position = 0;

    if (!m->q->mask_by_position)
        position = bind_slot(r, at, positions(r, m, ids));
    *embeds = bind_slot(r, slots[!last], call_embeddings(r, m, ids));
    return position || run_dead(r) ? position : bind_slot(r, at, positions(r, m, ids));
}

/* LlamaModel.forward */
static val decoder_forward(struct run *r, struct model *m, const struct batch *b)
{
    struct llama *p = m->parts;
    struct llama_layer *layers = m->layers;
    struct frame f = module_enter(r, p->decoder);
    val embeds, position, hidden, layer_outputs, args[3] = {0}, closed[4];
    struct two tables = {0};

    position = enter(r, m, b->ids, &embeds);
    if (run_dead(r))
        return frame_leave(r, f, 0);
    if (m->q->masks_by_utils)
        layer_masks(r, m, embeds, b->mask, position);
    else
        p->masks[0] = p->masks[1] = args[1] = local(r, one_mask(r, m, embeds, b->mask, position));
    hidden = local(r, embeds);
    if (m->q->rope_once)
        tables = rotary_tables(r, m, p->rotary, position, dtype_of(r, embeds), p->inv_freq->value);
    p->shared[0] = local(r, tables.a);
    p->shared[1] = local(r, tables.b);
    p->shared[2] = args[2] = m->position_ids = position;
    closed[1] = p->shared[1]; /* in the order in which the layer's keywords let go of them: a tuple drops its last first */
    closed[2] = p->shared[0];
    closed[3] = position;
    layer_outputs = local(r, 0);
    for (uint32_t i = 0; i < m->n_layers; i++) {
        val out;

        args[0] = hidden;
        closed[0] = layer_mask(&layers[i]);
        if (m->q->checkpoint_keywords)
            out = decoder_layer(r, m, layers[i].self, layer_forward, &layers[i], 1, args, 4, closed);
        else
            out = decoder_layer(r, m, layers[i].self, layer_forward, &layers[i], 3, args, 2, closed + 1); /* the tables come in a tuple, which nobody saves */
        if (m->q->layers_return_tuples)
            rebind(r, &layer_outputs, out);
        rebind(r, &hidden, out);
    }
    rebind(r, &hidden, call(r, p->norm, hidden));
    return frame_leave(r, f, hidden);
}

/* LlamaForCausalLM.forward */
static void forward(struct run *r, struct model *m, const struct batch *b, struct outputs *ret)
{
    struct frame f = module_enter(r, m->tree.root);
    val hidden, logits, loss;

    if (!m->arch->is_causal && m->q->attention_reads_is_causal)
        run_fail(r, ERR_FIELD_CONFLICT, "/is_causal", "false: attention in both directions is not modelled");
    if (m->arch->family == FAMILY_LLAMA && m->arch->pretraining_tp > 1 && m->q->linears_are_cut)
        run_fail(r, ERR_FIELD_CONFLICT, "/pretraining_tp", "before transformers 4.47 this cuts the linears in pieces; that is not modelled");
    hidden = local(r, decoder_forward(r, m, b));
    logits = local(r, call_head(r, m, last_states(r, m, hidden)));
    loss = local(r, lm_loss(r, m, &logits, b->labels));
    ret->loss = give(r, loss);
    ret->logits = give(r, logits);
    (void)frame_leave(r, f, 0);
}

/* ----------------------------------------------------------------------------------------------------- pipeline stage */
static struct module *last_norm(const struct model *m)
{
    const struct llama *p = m->parts;

    return p->norm;
}

/* What each layer is called with: no mask, one row of positions and the tables for it. */
static void stage_shares(struct run *r, struct model *m, val hidden)
{
    struct llama *p = m->parts;
    val ids = factory(r, OP_ARANGE, DTYPE_INT64, SHAPE(size_of(r, hidden, 1)));
    struct two tables;

    p->masks[0] = p->masks[1] = 0;
    p->shared[2] = m->position_ids = local(r, unsqueeze(r, ids, 0));
    tables = rotary_tables(r, m, p->rotary, m->position_ids, dtype_of(r, hidden), p->inv_freq->value);
    p->shared[1] = local(r, tables.b);
    p->shared[0] = local(r, tables.a);
}

/* embed_tokens, layers, norm, lm_head: what the stage has of them. `out` holds the last layer's result to the end. */
static val stage_forward(struct run *r, struct model *m, val x)
{
    const struct llama *p = m->parts;
    struct llama_layer *layers = m->layers;
    struct frame f = module_enter(r, m->tree.root);
    val hidden, out;

    (void)hold(r, x);
    hidden = local(r, m->starts ? call(r, m->embeddings, x) : x);
    if (run_dead(r))
        return frame_leave(r, f, 0);
    stage_shares(r, m, hidden);
    out = local(r, 0);
    for (uint32_t i = m->first_layer; i < m->end_layer; i++) {
        val closed[4] = {0, p->shared[1], p->shared[0], p->shared[2]};

        rebind(r, &out, decoder_layer(r, m, layers[i].self, layer_forward, &layers[i], 1, &hidden, 4, closed));
        rebind(r, &hidden, out);
    }
    if (m->ends) {
        rebind(r, &hidden, call(r, p->norm, hidden));
        return frame_leave(r, f, call_head(r, m, hidden));
    }
    return frame_leave(r, f, hidden);
}

const struct stage_program llama_stage = {last_norm, stage_forward};

const struct family_program llama_program = {"llama", "models/llama/modeling_llama.py", declare, forward, true, true};
const struct family_program mistral_program = {"mistral", "models/mistral/modeling_mistral.py", declare, forward, true, false};
const struct family_program qwen2_program = {"qwen2", "models/qwen2/modeling_qwen2.py", declare, forward, true, false};
const struct family_program qwen3_program = {"qwen3", "models/qwen3/modeling_qwen3.py", declare, forward, true, false};
