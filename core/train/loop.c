/* loop.c - what both loops share: batches, the model's call with its wrappers, backward, clipping, the end of a step. */
#include "train/loop.h"

#include "torch/autograd.h"

#include <string.h>

/* Of each row: a class, or what the problem_type of a classifier asks for. */
static val numbers_of(struct trainer *t, int64_t rows)
{
    const struct arch *a = t->model.arch;

    if (t->step->r.stage != TASK_CLASSIFICATION || a->problem == PROBLEM_SINGLE)
        return empty(&t->run, DTYPE_INT64, SHAPE(rows));
    return a->num_labels > 1 ? empty(&t->run, DTYPE_FP32, SHAPE(rows, a->num_labels)) : empty(&t->run, DTYPE_FP32, SHAPE(rows));
}

/* Tensors of a task by their place in its lists: tokens of each row, and of a precomputed reference a number a sample. */
static void add_more(struct trainer *t, struct batch *b)
{
    struct run *r = &t->run;
    const struct task *task = t->model.task;
    int64_t rows = size_of(r, b->ids, 0), tokens = size_of(r, b->ids, 1);
    char name[32];
    int n = 0;

    while (n < TASK_MORE && task_name(task->more, n, name, sizeof name) && (b->types || !strchr(name, '%')))
        b->more[n++] = owned(r, strchr(name, '?')   ? empty(r, DTYPE_BOOL, SHAPE(rows))
                                : strchr(name, '#') ? numbers_of(t, rows)
                                                    : empty(r, DTYPE_INT64, SHAPE(rows, tokens)));
    if (!strncmp(task->more, "labels", 6))
        b->labels = owned(r, value_alias(r, b->more[0]));
    for (int k = 0; t->model.reference == REFERENCE_PRECOMPUTED && n < TASK_MORE && task_name(task->kept, k, name, sizeof name); k++)
        b->more[n++] = owned(r, empty(r, DTYPE_FP32, SHAPE(rows / task->rows)));
}

struct batch make_batch(struct trainer *t)
{
    struct run *r = &t->run;
    const struct batch_shape shape = train_batch_shape(&t->step->r);
    int64_t size[2] = {shape.rows, shape.tokens};
    struct batch b = {.sequences = shape.sequences, .mask_of_pairs = packs_by_mask(&t->step->r)};

    b.ids = owned(r, empty(r, DTYPE_INT64, 2, size));
    if (b.mask_of_pairs)
        b.mask = owned(r, empty(r, compute_dtype(t->step->r.precision), SHAPE(shape.rows, 1, shape.tokens, shape.tokens)));
    else if (t->step->r.attention_mask == TRI_TRUE)
        b.mask = owned(r, empty(r, method_is_colossal(t->step->r.method) ? DTYPE_BOOL : DTYPE_INT64, 2, size)); /* dp_real.py: input_ids.ne(pad) */
    if (b.mask && t->model.takes_token_types)
        b.types = owned(r, empty(r, DTYPE_INT64, 2, size));
    if (!t->model.task)
        b.labels = owned(r, empty(r, DTYPE_INT64, 2, size));
    if (t->model.task)
        add_more(t, &b);
    if (b.sequences)
        b.positions = owned(r, empty(r, DTYPE_INT64, 2, size));
    return b;
}

void batch_ref(struct run *r, const struct batch *b)
{
    value_ref(r, b->ids);
    value_ref(r, b->mask);
    value_ref(r, b->labels);
    value_ref(r, b->positions);
    value_ref(r, b->types);
    for (int i = 0; i < TASK_MORE; i++)
        value_ref(r, b->more[i]);
}

void batch_unref(struct run *r, const struct batch *b)
{
    value_unref(r, b->ids);
    value_unref(r, b->mask);
    value_unref(r, b->labels);
    value_unref(r, b->positions);
    value_unref(r, b->types);
    for (int i = 0; i < TASK_MORE; i++)
        value_unref(r, b->more[i]);
}

void bind_inputs(struct trainer *t, struct held *h, struct batch next)
{
    if (h->inputs.ids)
        batch_unref(&t->run, &h->inputs);
    h->inputs = next;
}

static void drop_cached(struct trainer *t, uint32_t layer, int row)
{
    val *v = &t->model.cache[CACHE_ROWS * layer + (uint32_t)row];

    value_unref(&t->run, *v);
    *v = 0;
}

/* Tuples and lists let go of their last first, an object of its members as they came: layers of tuples, lists of all keys and of all values, a
 * list of layers. */
static void drop_cache(struct trainer *t)
{
    const struct quirks *q = &t->step->quirks;
    uint32_t n = t->model.n_layers;

    if (!q->cache_in_tuple && !q->cache_of_layers)
        for (uint32_t i = n; i-- > 0;)
            drop_cached(t, i, CACHE_KEY);
    for (uint32_t i = n; i-- > 0;)
        for (int row = 0; row < CACHE_ROWS; row++)
            drop_cached(t, i, q->cache_of_layers ? row : CACHE_ROWS - 1 - row);
}

/* operations.py convert_outputs_to_fp32: every half tensor of the outputs becomes fp32, the cache's too where it is a tuple, not an
 * object; the old die after. */
static void convert_outputs(struct trainer *t, struct outputs *o)
{
    struct run *r = &t->run;
    val *fields[3] = {&o->loss, &o->logits, &o->more};
    val old[3];

    for (int i = 0; i < 3; i++) {
        old[i] = *fields[i];
        if (!old[i])
            continue;
        r->values[old[i]].floating = false;
        if (dtype_of(r, old[i]) == DTYPE_FP32)
            value_ref(r, *fields[i]);
        else
            *fields[i] = owned(r, to_dtype(r, old[i], DTYPE_FP32));
    }
    for (uint32_t i = 0; i < CACHE_ROWS * t->model.n_layers; i++) {
        val v = local(r, t->model.cache[i]); /* dies with the caller's frame, after all are converted */

        if (!v || !t->step->quirks.cache_in_tuple || (dtype_of(r, v) != DTYPE_BF16 && dtype_of(r, v) != DTYPE_FP16))
            continue;
        t->model.cache[i] = owned(r, to_dtype(r, v, DTYPE_FP32));
        value_unref(r, v);
    }
    if (t->model.family->widen)
        t->model.family->widen(r, &t->model);
    for (int i = 0; i < 3; i++) {
        value_unref(r, old[i]);
        if (*fields[i])
            r->values[*fields[i]].floating = true;
    }
}

void sync_gradients(struct trainer *t, uint32_t micro_step)
{
    const struct recipe *s = &t->step->r;

    bool last = micro_step + 1 == s->gradient_accumulation_steps, engine = t->method && t->method->backward;

    if (t->method && t->method->begin_micro_step) /* an engine counts for itself */
        t->method->begin_micro_step(t->wrapped, last || (!engine && s->sync_each_batch == TRI_TRUE));
}

void end_micro_step(struct trainer *t, uint32_t micro_step)
{
    bool boundary = micro_step + 1 == t->step->r.gradient_accumulation_steps;

    if (!t->method || !t->method->end_micro_step)
        return;
    t->run.stage = boundary ? STAGE_OPTIMIZER : STAGE_BETWEEN;
    t->method->end_micro_step(t->wrapped, boundary);
}

/* The wrapper's way with what forward returns: loss, logits, the cache where it is a tuple, what else there is: router logits. */
static void post_forward(struct trainer *t, struct outputs *o)
{
    struct run *r = &t->run;
    struct model *m = &t->model;
    uint32_t cached = t->step->quirks.cache_in_tuple ? CACHE_ROWS * m->n_layers : 0;
    uint32_t n = 2 + cached + (o->more != 0), rest;
    unsigned char *mark;
    val *all;

    if (!t->method || !t->method->post_forward || run_dead(r))
        return;
    rest = m->family->rest ? m->family->rest(r, m, NULL, false) : 0;
    mark = r->arena->cur;
    all = arena_array(r->arena, val, n + (size_t)rest);
    if (!all) {
        run_fail(r, ERR_NOMEM, "", "the working memory of one request is too small for the model's outputs");
        return;
    }
    all[0] = owned(r, o->loss);
    all[1] = owned(r, o->logits);
    memcpy(all + 2, m->cache, cached * sizeof *all);
    if (o->more)
        all[2 + cached] = owned(r, o->more);
    if (rest)
        (void)m->family->rest(r, m, all + n, false);
    t->method->post_forward(t->wrapped, n + rest, all);
    if (rest)
        (void)m->family->rest(r, m, all + n, true);
    for (uint32_t i = 0; i < rest; i++)
        value_unref(r, all[n + i]);
    memcpy(m->cache, all + 2, cached * sizeof *all);
    o->loss = all[0];
    o->logits = all[1];
    if (o->more)
        r->values[o->more = all[2 + cached]].floating = true;
    r->values[o->loss].floating = r->values[o->logits].floating = true;
    if (r->arena->cur == (unsigned char *)(all + n + rest)) /* else what the script's heap took stands behind it */
        arena_rewind(r->arena, mark);
}

/* accelerate wraps forward before DistributedDataParallel does: the clones are of what it converted. */
struct outputs call_model(struct trainer *t, const struct batch *b)
{
    struct run *r = &t->run;
    struct outputs o = {0};

    if (t->method && t->method->pre_forward)
        t->method->pre_forward(t->wrapped);
    t->model.items = t->method && t->method->items && !run_dead(r) ? t->method->items(t->wrapped) : 0;
    if (t->autocast)
        autocast_enter(r, t->autocast_dtype);
    t->model.family->forward(r, &t->model, b, &o);
    if (t->autocast) {
        struct frame f = frame_enter(r);

        autocast_leave(r);
        if (!run_dead(r) && !t->plain) /* accelerate's; torch.autocast leaves outputs as they are */
            convert_outputs(t, &o);
        (void)frame_leave(r, f, 0);
    }
    post_forward(t, &o);
    return o;
}

/* What a task's text does around its calls of the model: struct model_caller. */
static void *wrapped_as(const struct trainer *t, bool policy)
{
    return t->method ? (policy ? t->wrapped : t->referred) : NULL;
}

/* accelerate's prepare_model() wraps forward; prepare_fsdp() leaves it. */
static bool autocasts(const struct trainer *t, bool policy)
{
    return t->autocast && (policy || !t->referred);
}

static void caller_enter(void *of, bool policy)
{
    struct trainer *t = of;

    if (wrapped_as(t, policy) && t->method->pre_forward)
        t->method->pre_forward(wrapped_as(t, policy));
    if (autocasts(t, policy))
        autocast_enter(&t->run, t->autocast_dtype);
}

static bool caller_leave(void *of, bool policy)
{
    struct trainer *t = of;

    if (autocasts(t, policy))
        autocast_leave(&t->run);
    return autocasts(t, policy) && !t->plain; /* accelerate's; torch.autocast leaves outputs as they are */
}

/* accelerate's MixedPrecisionPolicy has an output_dtype, where it makes a policy at all. */
static void cast_outputs(struct trainer *t, uint32_t n, val *v)
{
    struct run *r = &t->run;

    for (uint32_t i = 0; i < n && !run_dead(r); i++) {
        val old = v[i];

        if (!dtype_is_float(dtype_of(r, old)) || dtype_of(r, old) == t->parallel.compute)
            continue;
        v[i] = owned(r, to_dtype(r, old, t->parallel.compute));
        value_unref(r, old);
    }
}

static void caller_outputs(void *of, bool policy, uint32_t n, val *v)
{
    struct trainer *t = of;

    if (run_dead(&t->run) || !wrapped_as(t, policy))
        return;
    if (t->method->post_forward)
        t->method->post_forward(wrapped_as(t, policy), n, v);
    if (method_is_fsdp2(t->step->r.method) && t->parallel.mixed)
        cast_outputs(t, n, v);
}

val task_loss(struct trainer *t, const struct batch *b)
{
    const struct model_caller caller = {t, caller_enter, caller_leave, caller_outputs};
    val loss;

    t->model.caller = &caller;
    loss = t->model.family->loss(&t->run, &t->model, b);
    t->model.caller = NULL;
    return loss;
}

void drop_outputs(struct trainer *t, struct outputs *o)
{
    consume(&t->run, o->logits);
    if (o->more)
        consume(&t->run, o->more);
    if (t->model.outputs_end)
        t->model.outputs_end(&t->run, &t->model);
    drop_cache(t);
}

void backward_of(struct trainer *t, val loss)
{
    struct run *r = &t->run;
    bool engine = t->method && t->method->backward; /* scales by itself */
    bool scaled = !engine && precision_scales_loss(t->step->r.precision);
    val root = loss, one;

    if (scaled)
        root = owned(r, scaler_scale(r, &t->scaler, loss));
    if (!run_dead(r) && !r->values[root].requires_grad)
        run_fail(r, ERR_SCRIPT_RAISED, "", "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn");
    if (run_dead(r))
        return;
    if (engine) {
        t->method->backward(t->wrapped, root);
        return;
    }
    one = owned(r, value_empty(r, OP_ONES_LIKE, dtype_of(r, root), 0, NULL));
    run_graph(r, 1, &root, &one);
    value_unref(r, one);
    if (scaled)
        value_unref(r, root);
}

bool trainer_clips(const struct trainer *t)
{
    if (t->method && t->method->end_micro_step) /* the engine's own */
        return false;
    return t->step->r.max_grad_norm != 0 || (!t->plain && t->step->quirks.trainer_always_norms);
}

void trainer_clip(struct trainer *t, struct held *h)
{
    struct run *r = &t->run;
    val norm;

    if (!trainer_clips(t))
        return;
    r->stage = STAGE_CLIP;
    if (t->scaler.scale)
        scaler_unscale(r, &t->scaler);
    norm = t->method && t->method->clip ? t->method->clip(t->wrapped, t->step->r.max_grad_norm)
                                        : clip_grad_norm(r, t->n_trainable, t->trainable);
    value_unref(r, h->grad_norm);
    h->grad_norm = norm;
}

static void update(struct trainer *t)
{
    struct run *r = &t->run;
    val sum = t->scaler.scale ? scaler_before_step(r, &t->scaler, &t->optim) : 0;

    if (t->method && t->method->optimizer_step)
        t->method->optimizer_step(t->wrapped, &t->optim);
    else
        optim_step(r, &t->optim);
    value_unref(r, sum);
    if (t->scaler.scale)
        scaler_update(r, &t->scaler);
}

/* optimizer.zero_grad(set_to_none=True) */
static void clear_gradients(struct trainer *t)
{
    struct run *r = &t->run;

    for (uint32_t i = 0; i < t->n_trainable; i++) {
        val *g = grad_of(r, t->trainable[i]);

        if (g) {
            val old = *g;

            *g = 0;
            value_unref(r, old);
        }
    }
}

void end_step(struct trainer *t)
{
    struct run *r = &t->run;

    if (t->method && t->method->end_micro_step) {
        r->stage = STAGE_REST;
        return;
    }
    r->stage = STAGE_OPTIMIZER;
    update(t);
    for (uint32_t i = 0; i < t->n_trainable; i++) {
        val *g = grad_of(r, t->trainable[i]);

        if (g && *g)
            mark_block(r, *g, MARK_GRADIENT);
    }
    r->stage = STAGE_ZERO_GRAD;
    if (t->method && t->method->zero_grad)
        t->method->zero_grad(t->wrapped);
    else
        clear_gradients(t);
    r->stage = STAGE_REST;
}
