/* fsdp2_units.c - which modules are a unit together, which parameters are in it: _fully_shard.py, _fsdp_init.py. */
#include "parallel/fsdp2/inside.h"

#include <string.h>

/* ------------------------------------------------------------------------------------------------------- which modules */
static bool holds(const char *name, const char *part)
{
    return strstr(name, part) != NULL;
}

/* The norm after the last layer: of those beside the list of layers, the last that is called so. */
static struct module *final_norm(const struct module *layers)
{
    struct module *norm = NULL;

    for (struct module *m = layers && layers->parent ? layers->parent->first : NULL; m; m = m->next)
        if ((holds(m->name, "norm") || holds(m->name, "ln_f")) && !holds(m->name, "embed"))
            norm = m;
    return norm;
}

static void add_module(struct fsdp2_unit *u, struct module *m)
{
    if (m)
        u->modules[u->n_modules++] = m;
}

static struct fsdp2_unit *unit_new(struct fsdp2 *f, bool reshards)
{
    struct fsdp2_unit *u = &f->units[f->n_units++];

    *u = (struct fsdp2_unit){.all = f, .sharded = true, .reshards = reshards};
    return u;
}

/* prepare_fsdp(): fully_shard of the model alone, as the plugin says. */
static void make_one_unit(struct fsdp2 *f, const struct wrapping *w)
{
    add_module(unit_new(f, w->o->method != METHOD_FSDP2_NORESHARD), w->tree->root);
}

/* In the order in which fully_shard is called; the root comes last. */
static void make_units(struct fsdp2 *f, const struct wrapping *w)
{
    enum fsdp_wrap wrap = w->o->fsdp.wrap;
    bool reshards = w->o->method != METHOD_FSDP2_NORESHARD, grouped = wrap == FSDP_WRAP_TITAN || wrap == FSDP_WRAP_ACCELERATE;
    bool tied = w->head && w->head->weight && w->head->weight->tied && !(w->embeddings && w->embeddings->original);
    struct fsdp2_unit *u;

    if (wrap == FSDP_WRAP_TITAN && !tied)
        add_module(unit_new(f, reshards), w->embeddings);
    for (struct module *m = w->layers ? w->layers->first : NULL; m; m = m->next)
        add_module(unit_new(f, reshards), m);
    if (wrap == FSDP_WRAP_ACCELERATE && !tied)
        add_module(unit_new(f, reshards), w->embeddings);
    if (grouped) {
        u = unit_new(f, false);
        add_module(u, final_norm(w->layers));
        if (tied)
            add_module(u, w->embeddings);
        add_module(u, w->head);
        f->n_units -= !u->n_modules; /* an encoder has neither */
    }
    add_module(unit_new(f, false), w->tree->root); /* its parameters would be gathered again at once */
}

/* ---------------------------------------------------------------------------------------------------- which parameters */
struct search {
    struct fsdp2 *f;
    struct fsdp2_unit *u;
    struct fsdp2_param *at; /* the next free one of all */
    uint32_t n_params, n_tied;
};

static bool cast_by_policy(const struct fsdp2 *f, const struct param *p)
{
    return f->mixed && p->dtype != f->compute && dtype_is_float(p->dtype);
}

static struct fsdp2_param take(const struct fsdp2 *f, struct param *p)
{
    int64_t row = 1, rows = p->size[0], ranks = f->ranks;
    struct fsdp2_param q = {.declared = p, .stored = p->dtype, .compute = cast_by_policy(f, p) ? f->compute : p->dtype};

    for (int i = 1; i < p->ndim; i++)
        row *= p->size[i];
    q.shard_elems = (rows + ranks - 1) / ranks * row;
    q.widens = p->requires_grad && f->mixed && dtype_bytes(f->reduce) > dtype_bytes(q.compute);
    return q;
}

static void take_params(struct search *s, const struct module *m)
{
    for (struct param *p = m->params; p; p = p->next) {
        if (p->buffer || p->tied)
            continue;
        *s->at = take(s->f, p);
        s->u->bytes |= s->at->compute != s->u->params[0].compute;
        s->u->n_params++;
        s->at++;
    }
}

/* _get_managed_modules: children before their parent, without those of a unit of their own. */
static void search(struct search *s, const struct module *m)
{
    for (const struct module *c = m->first; c; c = c->next)
        if (!fsdp2_unit_of(s->f, c))
            search(s, c);
    take_params(s, m);
}

/* _fsdp_param_group.py _init_mp_dtypes, when a unit runs first */
static void check_dtypes(const struct search *s)
{
    const struct param *first = NULL;

    for (uint32_t i = 0; i < s->u->n_params; i++) {
        const struct param *p = s->u->params[i].declared;

        if (!p->requires_grad && s->f->r->q->fsdp2_mixes_frozen)
            continue;
        if (first && p->dtype != first->dtype && s->f->r->q->fsdp2_mixes_frozen)
            run_fail(s->f->r, ERR_FIELD_CONFLICT, "/training/precision",
                     "fully_shard raises \"FSDP expects uniform original parameter dtype\": this model trains parameters of two dtypes in one unit. Weights "
                     "in fp32 (bf16-mixed)");
        else if (first && p->dtype != first->dtype)
            run_fail(s->f->r, ERR_FIELD_CONFLICT, "/training/precision",
                     "fully_shard before torch 2.8 raises \"FSDP expects uniform original parameter dtype\", of frozen parameters too: adapters and their "
                     "base in one dtype (training.lora.dtype), prepare_kbit none, or torch 2.8");
        first = first ? first : p;
    }
}

static void fill_units(struct search *s)
{
    for (uint32_t i = 0; i < s->f->n_units; i++) {
        s->u = &s->f->units[i];
        s->u->params = s->at;
        for (uint32_t k = 0; k < s->u->n_modules; k++)
            search(s, s->u->modules[k]);
        check_dtypes(s);
    }
}

/* all_states: as named_modules() meets the first module of each, a parent before its children; modules are numbered in that order. */
static uint32_t first_number(const struct fsdp2_unit *u)
{
    uint32_t least = u->modules[0]->number;

    for (uint32_t k = 1; k < u->n_modules; k++)
        least = u->modules[k]->number < least ? u->modules[k]->number : least;
    return least;
}

/* Few are far from their place. */
static void sort_units(struct fsdp2 *f)
{
    for (uint32_t i = 1; i < f->n_units; i++)
        for (uint32_t k = i; k && first_number(&f->units[k]) < first_number(&f->units[k - 1]); k--) {
            struct fsdp2_unit u = f->units[k];

            f->units[k] = f->units[k - 1];
            f->units[k - 1] = u;
        }
}

void fsdp2_order(struct fsdp2 *f, const struct wrapping *w)
{
    struct fsdp2_unit *last = NULL;

    sort_units(f);
    for (uint32_t i = 0; i < f->n_units && w->o->fsdp.forward_prefetch; i++) {
        struct fsdp2_unit *u = &f->units[i];

        if (u->modules[0]->parent != w->layers)
            continue;
        if (last)
            last->next_forward = u;
        last = u;
    }
}

static void count_param(void *context, struct module *m, struct param *p)
{
    struct search *s = context;

    (void)m;
    if (p->tied && s->f->tied)
        s->f->tied[s->f->n_tied++] = p;
    s->n_tied += p->tied != NULL;
    s->n_params++;
}

static bool room_for(struct fsdp2 *f, struct wrapping *w, struct search *s)
{
    struct arena *a = w->tree->arena;
    uint32_t units = 4;

    for (const struct module *m = w->layers ? w->layers->first : NULL; m; m = m->next)
        units++;
    params_visit(w->tree->root, count_param, s);
    f->units = arena_array(a, struct fsdp2_unit, units);
    f->order = arena_array(a, struct fsdp2_unit *, FSDP2_TURNS * (size_t)units);
    s->at = arena_array(a, struct fsdp2_param, s->n_params + 1);
    f->of = arena_array(a, struct fsdp2_unit *, w->tree->n_modules);
    f->tied = arena_array(a, struct param *, s->n_tied + 1);
    if (f->units && f->order && s->at && f->of && f->tied)
        return true;
    run_fail(w->r, ERR_NOMEM, "", "the working memory of one request is too small for the units of fully_shard");
    return false;
}

static const struct fsdp2_unit *unit_around(const struct fsdp2 *f, const struct module *m)
{
    while (m && !f->of[m->number])
        m = m->parent;
    return m ? f->of[m->number] : NULL;
}

/* torch 2.15 _fsdp_state.py _validate_no_duplicate_params; what a release before it keeps of such a parameter was not traced */
static void check_tied(void *context, struct module *m, struct param *p)
{
    struct fsdp2 *f = context;

    if (p->tied && unit_around(f, m) != unit_around(f, p->tied->owner))
        run_fail(f->r, ERR_FIELD_CONFLICT, "/training/lora/modules_to_save",
                 "what peft keeps of a tied module stays tied, over two groups of fully_shard: torch 2.15 raises ValueError (\"is shared with a parameter "
                 "already managed by another FSDP group\"), releases before it are not modelled. FSDP1, ZeRO, or training.fsdp.wrap layers");
}

bool fsdp2_make_units(struct fsdp2 *f, struct wrapping *w)
{
    struct search s = {.f = f};

    if (!room_for(f, w, &s))
        return false;
    params_visit(w->tree->root, count_param, &s);
    if (f->beside)
        make_one_unit(f, w);
    else
        make_units(f, w);
    for (uint32_t i = 0; i < f->n_units; i++)
        for (uint32_t k = 0; k < f->units[i].n_modules; k++)
            f->of[f->units[i].modules[k]->number] = &f->units[i];
    params_visit(w->tree->root, check_tied, f);
    if (run_dead(f->r))
        return false;
    fill_units(&s);
    return true;
}
