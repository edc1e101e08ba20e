#include "train/trainer.h"

#include "parallel/ddp.h"
#include "torch/autograd.h"
#include "train/loop.h"
#include "tuning/lora.h"

#include <string.h>

/* --------------------------------------------------------------------------------------------------------- declaration */
static enum dtype weights_dtype(enum precision p)
{
    switch (p) {
    case PRECISION_BF16:
    case PRECISION_BF16_AUTOCAST:
        return DTYPE_BF16;
    case PRECISION_FP16:
    case PRECISION_FP16_AUTOCAST:
        return DTYPE_FP16;
    default:
        return DTYPE_FP32;
    }
}

static uint32_t modules_of(const struct arch *a)
{
    return 64 + a->layers * 96; /* adapters make up to six of one */
}

static enum err_code declare_adapters(struct trainer *t, struct err *err)
{
    const struct lora *l = &t->step->r.lora;
    struct lora_options o = {
        .rank = l->rank,
        .dropout = l->dropout,
        .dtype = l->dtype == LORA_DTYPE_FP32 ? DTYPE_FP32 : l->dtype == LORA_DTYPE_BF16 ? DTYPE_BF16 : DTYPE_FP16,
        .all_linear = l->all_linear,
        .n_targets = l->n_targets,
        .targets = l->targets,
        .on_host = t->step->r.method == METHOD_DDP && !t->plain, /* the Trainer moves the model when it wraps it */
    };

    return lora_apply(&t->model.tree, &o, &t->adapted_modules, err);
}

static void train_all(void *context, struct module *m, struct param *p)
{
    (void)context;
    (void)m;
    p->requires_grad = true;
}

enum err_code trainer_declare(struct trainer *t, const struct arch *arch, const struct step *step, struct arena *arena,
                              struct err *err)
{
    const struct recipe *s = &step->r;
    struct model *m = &t->model;
    enum err_code rc;

    t->step = step;
    m->arch = arch;
    m->q = &step->quirks;
    m->attention = s->attention == ATTENTION_EAGER ? KERNEL_EAGER : s->attention == ATTENTION_FLASH_2 ? KERNEL_FLASH_2 : KERNEL_SDPA;
    m->padded = s->padded;
    m->checkpointing = s->gradient_checkpointing == TRI_TRUE;
    m->reentrant = s->checkpoint_reentrant == TRI_TRUE;
    m->use_cache = s->use_cache == TRI_TRUE;
    m->embeddings_require_grad = s->tuning != TUNING_FULL && m->checkpointing;
    t->plain = s->framework == FRAMEWORK_TORCH;
    rc = tree_init(&m->tree, arena, weights_dtype(s->precision), modules_of(arch), err);
    if (!rc)
        rc = model_declare(m, err);
    if (rc)
        return rc;
    m->counts_items = m->family->takes_item_count && !t->plain;
    if (t->as_saved)
        model_take_class(m);
    if (s->tuning != TUNING_FULL) {
        rc = declare_adapters(t, err);
        if (!rc && m->score_head)
            m->tree.head->weight->requires_grad = true;
        return rc;
    }
    params_visit(m->tree.root, train_all, NULL);
    return ERR_OK;
}

/* --------------------------------------------------------------------------------------------- what the loops share */
struct batch make_batch(struct trainer *t)
{
    struct run *r = &t->run;
    int64_t size[2] = {t->step->r.micro_batch_size, t->step->r.seq_len_tokens};
    struct batch b = {0};

    b.ids = owned(r, empty(r, DTYPE_INT64, 2, size));
    if (t->step->r.packed != TRI_TRUE)
        b.mask = owned(r, empty(r, DTYPE_INT64, 2, size));
    b.labels = owned(r, empty(r, DTYPE_INT64, 2, size));
    return b;
}

void batch_ref(struct run *r, const struct batch *b)
{
    value_ref(r, b->ids);
    value_ref(r, b->mask);
    value_ref(r, b->labels);
}

void batch_unref(struct run *r, const struct batch *b)
{
    value_unref(r, b->ids);
    value_unref(r, b->mask);
    value_unref(r, b->labels);
}

void bind_inputs(struct trainer *t, struct held *h, struct batch next)
{
    if (h->inputs.ids)
        batch_unref(&t->run, &h->inputs);
    h->inputs = next;
}

static void drop_cache(struct trainer *t)
{
    struct model *m = &t->model;

    for (uint32_t i = CACHE_ROWS * m->n_layers; i-- > 0;) { /* a tuple of tuples lets go of its last first */
        value_unref(&t->run, m->cache[i]);
        m->cache[i] = 0;
    }
}

/* operations.py convert_outputs_to_fp32: every half tensor of the outputs becomes fp32, the cache's too where it is a tuple (5.x: an
 * object); the old die after. */
static void convert_outputs(struct trainer *t, struct outputs *o)
{
    struct run *r = &t->run;
    val *fields[2] = {&o->loss, &o->logits};
    val old[2];

    for (int i = 0; i < 2; i++) {
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

        if (!v || t->step->quirks.attention_interface || (dtype_of(r, v) != DTYPE_BF16 && dtype_of(r, v) != DTYPE_FP16))
            continue;
        t->model.cache[i] = owned(r, to_dtype(r, v, DTYPE_FP32));
        value_unref(r, v);
    }
    for (int i = 0; i < 2; i++) {
        value_unref(r, old[i]);
        if (*fields[i])
            r->values[*fields[i]].floating = true;
    }
}

void sync_gradients(struct trainer *t, uint32_t micro_step)
{
    const struct recipe *s = &t->step->r;

    if (t->ddp)
        ddp_sync(t->ddp, s->sync_each_batch == TRI_TRUE || micro_step + 1 == s->gradient_accumulation_steps);
}

/* The wrapper's way with what forward returns: loss, logits, and before 5.x the cache, a tuple. */
static void post_forward(struct trainer *t, struct outputs *o)
{
    struct run *r = &t->run;
    struct model *m = &t->model;
    uint32_t cached = t->step->quirks.attention_interface ? 0 : CACHE_ROWS * m->n_layers;
    val *all = arena_array(r->arena, val, 2 + (size_t)cached);

    if (!all) {
        run_fail(r, ERR_NOMEM, "", "the working memory of one request is too small for the model's outputs");
        return;
    }
    all[0] = owned(r, o->loss);
    all[1] = owned(r, o->logits);
    memcpy(all + 2, m->cache, cached * sizeof *all);
    ddp_post_forward(t->ddp, 2 + cached, all);
    memcpy(m->cache, all + 2, cached * sizeof *all);
    o->loss = all[0];
    o->logits = all[1];
    r->values[o->loss].floating = r->values[o->logits].floating = true;
}

struct outputs call_model(struct trainer *t, const struct batch *b)
{
    struct run *r = &t->run;
    struct outputs o = {0};

    if (t->ddp)
        ddp_pre_forward(t->ddp);
    if (t->autocast)
        autocast_enter(r, t->autocast_dtype);
    t->model.family->forward(r, &t->model, b, &o);
    if (t->step->find_unused_parameters && !run_dead(r))
        post_forward(t, &o);
    if (t->autocast) {
        struct frame f = frame_enter(r);

        autocast_leave(r);
        if (!run_dead(r) && !t->plain) /* accelerate's; torch.autocast leaves outputs as they are */
            convert_outputs(t, &o);
        (void)frame_leave(r, f, 0);
    }
    return o;
}

void drop_outputs(struct trainer *t, struct outputs *o)
{
    consume(&t->run, o->logits);
    drop_cache(t);
}

void backward_of(struct trainer *t, val loss)
{
    struct run *r = &t->run;
    bool scaled = precision_scales_loss(t->step->r.precision);
    val root = loss, one;

    if (scaled)
        root = owned(r, scaler_scale(r, &t->scaler, loss));
    if (run_dead(r))
        return;
    one = owned(r, value_empty(r, OP_ONES_LIKE, dtype_of(r, root), 0, NULL));
    run_graph(r, 1, &root, &one);
    value_unref(r, one);
    if (scaled)
        value_unref(r, root);
}

void clip(struct trainer *t, struct held *h)
{
    struct run *r = &t->run;
    val norm;

    if (t->step->r.max_grad_norm == 0 && (t->plain || !t->step->quirks.trainer_counts_items))
        return;
    r->stage = STAGE_CLIP;
    if (t->scaler.scale)
        scaler_unscale(r, &t->scaler);
    norm = clip_grad_norm(r, t->n_trainable, t->trainable);
    value_unref(r, h->grad_norm);
    h->grad_norm = norm;
}

void end_step(struct trainer *t)
{
    struct run *r = &t->run;

    r->stage = STAGE_OPTIMIZER;
    if (t->scaler.scale) {
        scaler_step(r, &t->scaler, &t->optim);
        scaler_update(r, &t->scaler);
    } else {
        optim_step(r, &t->optim);
    }
    for (uint32_t i = 0; i < t->n_trainable; i++) {
        val *g = grad_of(r, t->trainable[i]);

        if (g && *g)
            mark_block(r, *g, MARK_GRADIENT);
    }
    r->stage = STAGE_ZERO_GRAD;
    for (uint32_t i = 0; i < t->n_trainable; i++) {
        val *g = grad_of(r, t->trainable[i]);

        if (g) {
            val old = *g;

            *g = 0;
            value_unref(r, old);
        }
    }
    r->stage = STAGE_REST;
}

/* ------------------------------------------------------------------------------------------------------------- a run */
static uint32_t micro_steps(const struct step *s)
{
    return s->r.gradient_accumulation_steps < MICRO_STEPS ? s->r.gradient_accumulation_steps : MICRO_STEPS;
}

static uint32_t n_steps(const struct step *s)
{
    return s->r.method == METHOD_DDP ? 3 : 2;
}

/* Bounds of a run: each layer makes at most so many of each in forward and backward; checkpointing makes forward twice. */
static struct run_limits limits_of(const struct arch *a, const struct step *s)
{
    uint32_t layers = a->layers + 4, steps = n_steps(s) * micro_steps(s);
    uint32_t batches = s->r.gradient_accumulation_steps; /* all on the device at once since transformers 4.46 */
    struct run_limits l;

    l.values = 4096 + layers * 512 + 8 * batches;
    l.storages = 2048 + layers * 256 + 8 * batches;
    l.nodes = 1024 + layers * 256;
    l.births = 8192 + layers * (2400 * steps + 512) + 16 * batches;
    return l;
}

enum err_code trainer_run(struct trainer *t, const struct arch *arch, const struct step *step, const struct device *device,
                          struct arena *arena, struct err *err)
{
    struct held h = {0};
    struct work *log = t->log;
    enum err_code rc;

    memset(t, 0, sizeof *t);
    t->log = log;
    rc = trainer_declare(t, arch, step, arena, err);
    if (rc)
        return rc;
    if (t->model.position_table && step->r.seq_len_tokens > arch->max_positions)
        return err_set(err, ERR_FIELD_RANGE, "/training/seq_len", "this model has positions for %u tokens and no more", arch->max_positions);
    rc = run_init(&t->run, arena, &step->quirks, *device, limits_of(arch, step), err);
    if (rc)
        return rc;
    h.batches = arena_array(arena, struct batch, 2 * (size_t)step->r.gradient_accumulation_steps);
    if (!h.batches)
        return err_set(err, ERR_NOMEM, "", "the working memory of one request is too small for so many batches");
    trainer_load(t);
    for (uint32_t i = 0; i < n_steps(step) && !t->run.error.code; i++) {
        t->last_begins = t->run.n_events;
        t->run.work = i + 1 == n_steps(step) ? log : NULL;
        (t->plain ? plain_step : trainer_step)(t, &h);
    }
    if (t->run.error.code) {
        *err = t->run.error;
        return err->code;
    }
    return ERR_OK;
}
