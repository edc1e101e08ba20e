#include "train/around.h"

#include "meters/peak.h"
#include "train/fold.h"
#include "train/loop.h"

#include "torch/autograd.h"
#include "torch/ops.h"

#include <string.h>

enum { BLOCK_BYTES = 512, PLAYED_BATCHES = 2 };

/* ---------------------------------------------------------------------------------------------------------- evaluation */
static uint32_t ranks_of_gather(const struct trainer *t)
{
    return t->step->r.data_parallel;
}

/* accelerate utils/operations.py _gpu_gather: all ranks' in one tensor, whose parts follow each other. */
static val gathered(struct trainer *t, val mine)
{
    struct run *r = &t->run;
    const struct value *x = &r->values[mine];
    int64_t size[MAX_DIMS];
    val all;

    if (ranks_of_gather(t) == 1 || run_dead(r))
        return mine;
    memcpy(size, x->size, sizeof size);
    size[0] *= ranks_of_gather(t);
    all = owned(r, value_empty(r, OP_EMPTY, (enum dtype)x->dtype, x->ndim, size));
    value_unref(r, mine);
    return all;
}

/* nested_concat(): the old and the new one stand until the whole does. */
static val joined(struct trainer *t, val all, val more)
{
    struct run *r = &t->run;
    int64_t size[MAX_DIMS];
    val whole;

    if (run_dead(r) || !all) {
        value_ref(r, more);
        return more;
    }
    memcpy(size, r->values[all].size, sizeof size);
    size[0] += r->values[more].size[0];
    whole = owned(r, value_empty(r, OP_CAT, dtype_of(r, all), r->values[all].ndim, size));
    value_unref(r, all);
    return whole;
}

/* prediction_step(): what the caller keeps of a batch, owned; 0: the loss alone. */
static val predict(struct trainer *t, const struct around_question *q)
{
    struct run *r = &t->run;
    struct batch b = make_batch(t);
    struct outputs out;
    val loss, kept = 0;

    if (t->model.task && t->model.task->module) {
        value_unref(r, owned(r, task_loss(t, &b)));
        batch_unref(r, &b);
        return 0;
    }
    out = call_model(t, &b);
    if (run_dead(r))
        return 0;
    loss = owned(r, out.loss);
    if (q->keeps_predictions && out.logits)
        kept = owned(r, value_alias(r, out.logits));
    drop_outputs(t, &out);
    value_unref(r, loss);
    batch_unref(r, &b);
    return kept;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static void evaluate(struct trainer *t, const struct around_question *q)
{
    struct run *r = &t->run;
    const struct method_program *method = t->method;
    uint32_t n = q->keeps_predictions ? q->batches : 1;
    val all = 0, last = 0;

    r->stage = STAGE_FORWARD;
    r->grad_enabled = false;
    if (q->accumulation_steps)
        n = least(n, q->accumulation_steps);
    if (t->step->r.method == METHOD_DDP)
        t->method = NULL; /* its forward without gradients is the module's own */
    for (uint32_t i = 0; i < n && !run_dead(r); i++) {
        bool repeats = i >= PLAYED_BATCHES && i + 1 < n;
        val mine = 0;

        if (repeats)
            mine = owned(r, value_alias(r, last));
        else if ((mine = predict(t, q)))
            mine = gathered(t, mine);
        if (!mine)
            continue;
        all = joined(t, all, mine);
        value_unref(r, last);
        last = mine;
    }
    value_unref(r, last);
    value_unref(r, all);
    t->method = method;
    r->grad_enabled = true;
}

/* -------------------------------------------------------------------------------------------------------------- saving */
/* Shards of equal length, whatever is left over. */
static uint64_t padded(const struct trainer *t, const struct param *p)
{
    int64_t ranks = t->step->r.shard_group ? t->step->r.shard_group : t->step->r.data_parallel;

    return (uint64_t)round_up(param_numel(p), ranks > 0 ? ranks : 1);
}

struct gathering {
    struct trainer *t;
    const struct module *layers; /* whose children are units of their own */
    uint64_t bytes;
};

static enum dtype gathered_dtype(const struct trainer *t, const struct param *p)
{
    return t->step->r.method == METHOD_ZERO3 ? compute_dtype(t->step->r.precision) : p->dtype;
}

/* GatheredParameters of each module's own, a buffer each; fully_shard's full_tensor(), one at a time */
static void gather_module(struct trainer *t, const struct module *m)
{
    struct run *r = &t->run;
    bool together = t->step->r.method == METHOD_ZERO3;
    uint32_t held[8];
    unsigned n = 0;

    for (const struct param *p = m->params; p; p = p->next) {
        if (p->buffer || p->tied || n == sizeof held / sizeof *held)
            continue;
        held[n] = scratch_take(r, OP_ALL_GATHER, padded(t, p) * dtype_bytes(gathered_dtype(t, p)), MARK_COMMUNICATION);
        if (together)
            n++;
        else
            scratch_give(r, held[n]);
    }
    while (n)
        scratch_give(r, held[--n]);
}

static void count_unit(void *context, struct module *m, struct param *p)
{
    struct gathering *g = context;

    for (const struct module *above = m; above; above = above->parent)
        if (g->layers && above->parent == g->layers)
            return; /* of a layer */
    if (!p->tied)
        g->bytes += padded(g->t, p) * dtype_bytes(p->dtype);
}

/* _full_pre_state_dict_hook: the root's flat parameter stands in full precision while each layer's does. */
static void gather_units(struct trainer *t)
{
    struct run *r = &t->run;
    const struct module *layers = module_list(&t->model.tree);
    struct gathering root = {.t = t, .layers = layers};
    uint32_t whole;

    params_visit(t->model.tree.root, count_unit, &root);
    whole = scratch_take(r, OP_ALL_GATHER, root.bytes, MARK_COMMUNICATION);
    for (struct module *m = layers ? layers->first : NULL; m; m = m->next) {
        struct gathering one = {.t = t};

        params_visit(m, count_unit, &one);
        scratch(r, OP_ALL_GATHER, one.bytes);
    }
    scratch_give(r, whole);
}

static void save_model(struct trainer *t)
{
    const struct tree *tree = &t->model.tree;
    enum method m = t->step->r.method;

    t->run.stage = STAGE_BETWEEN;
    if (t->step->r.tuning != TUNING_FULL && !method_is_fsdp1(m)) /* adapters alone: peft's state dict */
        return;
    if (method_is_fsdp1(m) && m != METHOD_FSDP_NO_SHARD)
        gather_units(t);
    else if (m == METHOD_ZERO3 || method_is_fsdp2(m))
        for (uint32_t i = 1; i < tree->n_modules; i++)
            gather_module(t, tree->modules[i]);
}

/* ------------------------------------------------------------------------------------------------------------ the whole */
void around_play(struct trainer *t, struct held *h)
{
    const struct around_question *q = t->around;
    struct step *evaluated = arena_new(t->model.tree.arena, struct step);
    const struct step *trained = t->step;

    (void)h;
    if (!evaluated || run_dead(&t->run))
        return;
    *evaluated = *trained;
    evaluated->r.micro_batch_size = q->batch_size;
    t->around_marks[0] = t->run.n_events;
    t->step = evaluated;
    t->model.family->evaluate(&t->model);
    evaluate(t, q);
    t->step = trained;
    t->around_marks[1] = t->run.n_events;
    save_model(t);
}

static uint64_t block_bytes(const struct birth *b)
{
    return (b->bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
}

/* Live blocks, as a walk sums them: their highest since each mark, and optimizer states that stand when the steps have ended. */
static void read_tape(const struct trainer *t, struct around *ret)
{
    const struct run *r = &t->run;
    uint64_t live = 0, states = 0, at_load = 0;

    for (uint32_t i = 0; i < r->n_events; i++) {
        uint32_t e = r->events[i];
        const struct birth *b = &r->births[e & EVENT_BLOCK];
        bool died = (e & EVENT_DEATH) != 0;

        if (i == t->steps_begin)
            at_load = live;
        if (!event_is_of_block(e))
            continue;
        live = died ? live - block_bytes(b) : live + block_bytes(b);
        if (b->mark == MARK_OPTIMIZER_STATE && i >= t->steps_begin)
            states = died ? states - block_bytes(b) : states + block_bytes(b);
        if (i >= t->around_marks[1] && live > ret->saving_bytes)
            ret->saving_bytes = live;
        if (i >= t->around_marks[0] && i < t->around_marks[1] && live > ret->evaluation_bytes)
            ret->evaluation_bytes = live;
    }
    if (live > ret->saving_bytes)
        ret->saving_bytes = live;
    ret->resuming_bytes = at_load + states;
}

struct hosting {
    enum dtype loaded; /* what is upcast later is loaded in half */
    uint64_t bytes;
};

static void count_host(void *context, struct module *m, struct param *p)
{
    struct hosting *h = context;

    (void)m;
    if (!p->tied)
        h->bytes += (uint64_t)param_numel(p) * dtype_bytes(dtype_is_float(p->dtype) ? h->loaded : p->dtype);
}

/* transformers 4.40 and 5.23 modeling_utils.py: save_pretrained()'s max_shard_size */
static uint64_t shard_bytes(const struct step *s)
{
    return s->quirks.bnb_loads_by_name ? UINT64_C(50000000000) : UINT64_C(5000000000);
}

static uint64_t loading_host(const struct trainer *t, const struct around_question *q)
{
    const struct recipe *s = &t->step->r;
    struct hosting h = {.loaded = t->model.reference_dtype};
    uint64_t bytes, shard = shard_bytes(t->step);

    if (s->tuning == TUNING_QLORA && !step_packs_by_host(t->step)) /* quantizers' update_device_map(): each tensor goes to the device as it is read */
        return 0;
    params_visit(t->model.tree.root, count_host, &h);
    bytes = h.bytes;
    if (s->method == METHOD_ZERO3 && s->zero.zero_init == TRI_TRUE)
        return bytes < shard ? bytes : shard;
    if ((method_is_fsdp1(s->method) || method_is_fsdp2(s->method)) && s->fsdp.cpu_ram_efficient_loading == TRI_TRUE)
        return bytes;
    return bytes * q->processes_per_node;
}

static bool is_modelled(const struct recipe *r)
{
    return r->method != METHOD_PP && !method_has_tensor_parallel(r->method) && !method_is_colossal(r->method) && !r->packing;
}

static enum err_code play_whole(const struct arch *arch, const struct step *step, const struct device *device, const struct around_question *q,
                                struct arena *arena, struct around *ret, struct err *err)
{
    unsigned char *mark = arena->cur;
    struct trainer *t = arena_new(arena, struct trainer);
    struct around a = {0};
    enum err_code rc;

    if (!t)
        return err_set(err, ERR_NOMEM, "", "the working memory of one request is too small");
    t->foretells = t->live_blocks_only = true;
    t->memory = MEMORY_PASSING;
    t->around = q;
    rc = trainer_run(t, arch, step, device, arena, err);
    if (!rc) {
        read_tape(t, &a);
        a.loading_host_bytes = loading_host(t, q);
        *ret = a;
    }
    arena_rewind(arena, mark);
    return rc;
}

enum { FEW = 2, DEEP = 4 }; /* periods of layers; so many times more are worth two looks */

static uint64_t on_line(uint64_t shallow, uint64_t deeper, uint64_t times)
{
    return deeper > shallow ? deeper + (deeper - shallow) * times : deeper;
}

/* Layers repeat each other: what they add lies on a line through two shallow depths. */
static enum err_code play_few(const struct arch *arch, const struct step *step, const struct device *device, const struct around_question *q,
                              struct arena *arena, struct around *ret, struct err *err)
{
    uint32_t period = fold_of(arch).period, first = fold_depth(arch, FEW);
    uint64_t times = (arch->layers - first) / period - 1;
    struct arch few = *arch;
    struct around a, b;
    enum err_code rc;

    few.layers = first;
    rc = play_whole(&few, step, device, q, arena, &a, err);
    few.layers = first + period;
    if (!rc)
        rc = play_whole(&few, step, device, q, arena, &b, err);
    if (rc)
        return rc;
    *ret = (struct around){on_line(a.evaluation_bytes, b.evaluation_bytes, times), on_line(a.saving_bytes, b.saving_bytes, times),
                           on_line(a.resuming_bytes, b.resuming_bytes, times), on_line(a.loading_host_bytes, b.loading_host_bytes, times)};
    return ERR_OK;
}

enum err_code train_around(const struct arch *arch, const struct step *step, const struct device *device, const struct around_question *q,
                           struct arena *arena, struct around *ret, struct err *err)
{
    bool windows = step->r.method == METHOD_ZERO3; /* of what is gathered ahead: their ends are not those of layers */
    struct fold f = fold_of(arch);
    bool deep = !windows && !arch->fixed_depth && arch->layers >= f.prefix + DEEP * FEW * f.period;

    if (!is_modelled(&step->r))
        return err_set(err, ERR_FIELD_CONFLICT, "/training", "what stands around a step of %s is not modelled", method_rows[step->r.method].name);
    return deep ? play_few(arch, step, device, q, arena, ret, err) : play_whole(arch, step, device, q, arena, ret, err);
}
