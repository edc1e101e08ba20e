#include "train/trainer.h"

#include "torch/autograd.h"
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

/* ----------------------------------------------------------------------------------------------------------------- load */
struct collect {
    struct trainer *t;
    uint32_t n, groups[2];
    bool fill;
};

/* trainer.py get_decay_parameter_names: by name since 5.0, before by layer type and `bias` */
static bool holds(const char *name, const char *part)
{
    return strstr(name, part) != NULL;
}

static bool decays(const struct trainer *t, const struct module *m, const struct param *p)
{
    char buf[256];
    const char *path = module_path(&t->model.tree, m->number, buf, sizeof buf);
    size_t n = strlen(path);

    if (holds(p->name, "bias") || holds(path, "bias"))
        return false;
    if (m->kind == MODULE_LAYER_NORM)
        return false;
    if (!t->step->quirks.decay_by_name)
        return !(m->kind == MODULE_NORM && t->model.family->norm_registered);
    /* bias, layernorm, rmsnorm, (^|.)norm($|.), _norm($|.) in any case of letters */
    if (holds(path, "layernorm") || holds(path, "rmsnorm") || holds(path, "_norm."))
        return false;
    if ((n >= 5 && !strcmp(path + n - 5, "_norm")) || !strcmp(path, "norm") || (n >= 5 && !strcmp(path + n - 5, ".norm")))
        return false;
    return true;
}

static void collect(void *context, struct module *m, struct param *p)
{
    struct collect *c = context;
    struct trainer *t = c->t;
    int g;

    if (!p->requires_grad || p->tied)
        return;
    if (!c->fill) /* a plain loop hands model.parameters() to the optimizer as they come */
        p->group = t->plain || decays(t, m, p) ? 0 : 1;
    g = p->group;
    if (c->fill) {
        struct run *r = &t->run;

        require_grad(r, p->value);
        pin_leaf(r, p->value);
        t->trainable[c->n] = p->value;
        t->optim.group[g][c->groups[g]] = p->value;
    }
    c->n++;
    c->groups[g]++;
}

static void gather_trainable(struct trainer *t)
{
    struct collect c = {.t = t};
    struct arena *a = t->model.tree.arena;

    params_visit(t->model.tree.root, collect, &c);
    t->n_trainable = c.n;
    t->trainable = arena_array(a, val, c.n + 1);
    for (int g = 0; g < 2; g++) {
        t->optim.n_group[g] = c.groups[g];
        t->optim.group[g] = arena_array(a, val, c.groups[g] + 1);
        t->optim.state[g] = arena_array(a, struct optim_state, c.groups[g] + 1);
        if (!t->optim.group[g] || !t->optim.state[g])
            t->trainable = NULL;
    }
    if (!t->trainable) {
        run_fail(&t->run, ERR_NOMEM, "", "the working memory of one request is too small for the optimizer's states");
        return;
    }
    c = (struct collect){.t = t, .fill = true};
    params_visit(t->model.tree.root, collect, &c);
}

static void load(struct trainer *t)
{
    struct run *r = &t->run;
    const struct recipe *s = &t->step->r;

    r->stage = STAGE_INIT;
    materialise(r, &t->model.tree);
    if (s->tuning != TUNING_FULL)
        lora_materialise(r, &t->model.tree, NULL);
    t->after_load = r->n_events;
    if (!t->plain && r->n_events < r->max_events) {
        r->events[r->n_events++] = EVENT_RELEASE; /* Accelerator.free_memory when train() begins */
        t->n_releases++;
    }
    gather_trainable(t);
    t->steps_begin = r->n_events;
    t->autocast = s->precision == PRECISION_BF16_AUTOCAST || s->precision == PRECISION_BF16_MIXED ||
                  s->precision == PRECISION_FP16_AUTOCAST || s->precision == PRECISION_FP16_MIXED;
    t->autocast_dtype =
        s->precision == PRECISION_FP16_AUTOCAST || s->precision == PRECISION_FP16_MIXED ? DTYPE_FP16 : DTYPE_BF16;
    t->optim.kind = s->optimizer == OPTIMIZER_SGD                 ? OPTIM_SGD
                    : s->optimizer == OPTIMIZER_ADAMW_TORCH_FUSED ? OPTIM_ADAMW_FUSED
                    : s->optimizer == OPTIMIZER_ADAMW_TORCH_LOOP  ? OPTIM_ADAMW_LOOP
                                                                  : OPTIM_ADAMW_FOREACH;
}

/* ----------------------------------------------------------------------------------------------------------------- loop */
enum { MAX_PREFETCH = 4096 };

/* What the loop's own variables hold; all owned. */
struct held {
    struct batch *batches, inputs;
    uint32_t n_batches;
    val items, loss_step, grad_norm, total;
};

static val owned(struct run *r, val v)
{
    if (v)
        r->values[v].floating = false;
    return v;
}

static struct batch make_batch(struct trainer *t)
{
    struct run *r = &t->run;
    int64_t size[2] = {t->step->r.micro_batch_size, t->step->r.seq_len_tokens};
    struct batch b;

    b.ids = owned(r, empty(r, DTYPE_INT64, 2, size));
    b.mask = owned(r, empty(r, DTYPE_INT64, 2, size));
    b.labels = owned(r, empty(r, DTYPE_INT64, 2, size));
    return b;
}

static void batch_ref(struct run *r, const struct batch *b)
{
    value_ref(r, b->ids);
    value_ref(r, b->mask);
    value_ref(r, b->labels);
}

static void batch_unref(struct run *r, const struct batch *b)
{
    value_unref(r, b->ids);
    value_unref(r, b->mask);
    value_unref(r, b->labels);
}

/* get_batch_samples: sum((labels[..., 1:] != -100).sum() for each batch), / 1 */
static val count_items(struct trainer *t, const struct batch *b, uint32_t n)
{
    struct run *r = &t->run;
    val total = 0;

    if (!t->model.counts_items)
        return 0;
    for (uint32_t i = 0; i < n; i++) {
        val valid = compare(r, OP_NE, slice(r, b[i].labels, -1, 1, t->step->r.seq_len_tokens), 0), sum, old = total;

        sum = sum_all(r, valid);
        total = owned(r, old ? add(r, old, sum) : add_scalar(r, sum));
        value_unref(r, old);
    }
    val count = owned(r, pointwise_op(r, OP_DIV, DTYPE_FP32, total, 0));

    value_unref(r, total);
    return count;
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
        val v = t->model.cache[i];

        if (v && !t->step->quirks.attention_interface && (dtype_of(r, v) == DTYPE_BF16 || dtype_of(r, v) == DTYPE_FP16))
            t->model.cache[i] = owned(r, to_dtype(r, v, DTYPE_FP32));
        else
            value_ref(r, v);
        r->locals[r->n_locals++] = v; /* dies with the caller's frame, after all are converted */
    }
    for (int i = 0; i < 2; i++) {
        value_unref(r, old[i]);
        if (*fields[i])
            r->values[*fields[i]].floating = true;
    }
}

static struct outputs call_model(struct trainer *t, const struct batch *b)
{
    struct run *r = &t->run;
    struct outputs o = {0};

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
    return o;
}

static void drop_outputs(struct trainer *t, struct outputs *o)
{
    consume(&t->run, o->logits);
    drop_cache(t);
}

/* Trainer.compute_loss: the outputs die when it returns. */
static val compute_loss(struct trainer *t, const struct batch *b)
{
    struct outputs o = call_model(t, b);
    val loss = owned(&t->run, o.loss);

    drop_outputs(t, &o);
    return loss;
}

/* loss.backward(), through the scaler where there is one */
static void backward_of(struct trainer *t, val loss)
{
    struct run *r = &t->run;
    bool scaled = t->step->r.precision == PRECISION_FP16_MIXED || t->step->r.precision == PRECISION_FP16_AUTOCAST;
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

/* Trainer.training_step; returns what the loop keeps of the loss. */
static val training_step(struct trainer *t, const struct batch *b)
{
    struct run *r = &t->run;
    val loss, part, kept;

    r->stage = STAGE_FORWARD;
    loss = compute_loss(t, b);
    r->stage = STAGE_BACKWARD;
    if (t->step->quirks.trainer_counts_items && !t->model.counts_items) {
        val whole = loss;

        loss = owned(r, div_scalar(r, whole));
        value_unref(r, whole);
    }
    part = owned(r, div_scalar(r, loss)); /* Accelerator.backward */
    backward_of(t, part);
    value_unref(r, part);
    r->stage = STAGE_BETWEEN;
    kept = t->step->quirks.trainer_counts_items ? owned(r, detach(r, loss))
                                                : owned(r, pointwise_op(r, OP_DIV, DTYPE_FP32, loss, 0));
    value_unref(r, loss);
    return kept;
}

static void clip(struct trainer *t, struct held *h)
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

static void end_step(struct trainer *t)
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

/* The third micro-step finds what the second left, and so on to the last: those between would repeat each other birth by birth. */
enum { MICRO_STEPS = 4 };

static void one_step(struct trainer *t, struct held *h)
{
    struct run *r = &t->run;
    bool prefetch = t->step->quirks.trainer_counts_items;
    uint32_t n = t->step->r.gradient_accumulation_steps;

    r->stage = STAGE_BATCH;
    if (!h->total)
        h->total = owned(r, value_empty(r, OP_TO_COPY, DTYPE_FP32, 0, NULL));
    if (prefetch) {
        struct batch *fresh = h->batches + n; /* the upper half: the last step's batches live until these stand */
        val items;

        for (uint32_t i = 0; i < n; i++)
            fresh[i] = make_batch(t);
        items = count_items(t, fresh, n);
        value_unref(r, h->items);
        h->items = items;
        for (uint32_t i = 0; i < h->n_batches; i++)
            batch_unref(r, &h->batches[i]);
        for (uint32_t i = 0; i < n; i++)
            h->batches[i] = fresh[i];
        h->n_batches = n;
    }
    for (uint32_t i = 0; i < n; i++) {
        struct batch next;
        val kept;

        if (prefetch) {
            next = h->batches[i];
            batch_ref(r, &next);
        } else {
            r->stage = STAGE_BATCH;
            next = make_batch(t);
        }
        if (h->inputs.ids)
            batch_unref(r, &h->inputs);
        h->inputs = next;
        if (i + 1 >= MICRO_STEPS && i + 1 < n)
            continue;
        kept = training_step(t, &h->inputs);
        value_unref(r, h->loss_step);
        h->loss_step = kept;
    }
    clip(t, h);
    end_step(t);
}

/*
 * One step of a plain loop: a batch moved to the device; out = model(**batch); out.loss.backward(); clip, step, zero_grad. The names of an
 * iteration are deleted with it. `keep_outputs`: `out` lives through backward, else only its loss.
 */
static void plain_step(struct trainer *t, struct held *h)
{
    struct run *r = &t->run;
    uint32_t n = t->step->r.gradient_accumulation_steps;
    bool keeps = t->step->r.keep_outputs == TRI_TRUE;

    for (uint32_t i = 0; i < n; i++) {
        struct batch next;
        struct outputs out;
        val loss;

        r->stage = STAGE_BATCH;
        next = make_batch(t);
        if (h->inputs.ids)
            batch_unref(r, &h->inputs);
        h->inputs = next;
        if (i + 1 >= MICRO_STEPS && i + 1 < n)
            continue;
        r->stage = STAGE_FORWARD;
        out = call_model(t, &h->inputs);
        loss = owned(r, out.loss);
        if (!keeps)
            drop_outputs(t, &out);
        r->stage = STAGE_BACKWARD;
        backward_of(t, loss);
        if (keeps)
            drop_outputs(t, &out);
        value_unref(r, loss);
    }
    clip(t, h);
    value_unref(r, h->grad_norm);
    h->grad_norm = 0;
    end_step(t);
    batch_unref(r, &h->inputs);
    h->inputs = (struct batch){0};
}

static uint32_t micro_steps(const struct step *s)
{
    return s->r.gradient_accumulation_steps < MICRO_STEPS ? s->r.gradient_accumulation_steps : MICRO_STEPS;
}

/* Bounds of a run: each layer makes at most so many of each in forward and backward; checkpointing makes forward twice. */
static struct run_limits limits_of(const struct arch *a, const struct step *s)
{
    uint32_t layers = a->layers + 4, steps = 2 * micro_steps(s);
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
    enum err_code rc;

    memset(t, 0, sizeof *t);
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
    load(t);
    for (int i = 0; i < 2 && !t->run.error.code; i++) {
        (t->plain ? plain_step : one_step)(t, &h);
        t->after_step[i] = t->run.n_events;
    }
    if (t->run.error.code) {
        *err = t->run.error;
        return err->code;
    }
    return ERR_OK;
}
