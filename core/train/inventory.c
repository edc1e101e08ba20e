#include "train/inventory.h"

#include "train/trainer.h"
#include "tuning/lora.h"

#include <string.h>

struct listing {
    const struct model *model;
    const struct tree *tree;
    struct arena *arena;
    struct tensor_info *rows; /* NULL: count only */
    uint32_t n;
    struct inventory total;
    uint64_t experts; /* their elements */
    bool full;
};

static const char *full_name(struct listing *l, const struct param *p)
{
    char buf[256];
    const char *path = module_path(l->tree, p->owner->number, buf, sizeof buf);
    size_t n = strlen(path), k = strlen(p->name);
    char *name = arena_array(l->arena, char, n + k + 2);

    if (!name) {
        l->full = true;
        return "";
    }
    memcpy(name, path, n);
    if (n)
        name[n++] = '.';
    memcpy(name + n, p->name, k);
    return name;
}

/* Below a module called experts. */
static bool is_of_experts(const struct param *p)
{
    for (const struct module *m = p->owner; m; m = m->parent)
        if (m->name[0] == 'e' && !strcmp(m->name, "experts"))
            return true;
    return false;
}

static void list_one(struct listing *l, const struct param *p)
{
    struct tensor_info *row = l->rows ? &l->rows[l->n] : NULL;
    uint64_t elems = (uint64_t)param_numel(p);

    l->n++;
    if (row) {
        row->name = full_name(l, p);
        row->tied_to = p->tied ? full_name(l, p->tied) : NULL;
        row->ndim = (uint32_t)p->ndim;
        for (int i = 0; i < p->ndim; i++)
            row->shape[i] = (uint64_t)p->size[i];
        row->elems = elems;
        row->trainable = p->requires_grad && !p->buffer;
        row->buffer = p->buffer;
        row->kind = p->owner->kind;
        row->input_embeddings = p->owner == l->model->embeddings;
        row->output_embeddings = p->owner == l->tree->head;
        row->dtype = dtype_name(p->dtype);
    }
    if (p->buffer || p->tied)
        return;
    l->total.tensors++;
    l->total.parameters += elems;
    l->total.base_parameters += p->late ? 0 : elems;
    if (!p->late && is_of_experts(p) && l->model->arch->experts)
        l->experts += elems;
    l->total.trainable_parameters += p->requires_grad ? elems : 0;
}

/* model.named_parameters(): a module's own first, then its children; buffers beside them. */
static void list_module(struct listing *l, const struct module *m)
{
    for (const struct param *p = m->params; p; p = p->next)
        list_one(l, p);
    for (const struct module *c = m->first; c; c = c->next)
        list_module(l, c);
}

/* peft's _set_trainable() passes such names over. */
static uint64_t saved_nowhere(const struct tree *t, const struct lora *l)
{
    char buf[256];
    uint64_t nowhere = 0;

    for (uint32_t k = 0; k < l->n_saved && k < SAVED_TOLD; k++) {
        const struct lora_options one = {.n_saved = 1, .saved_names = &l->saved[k]};
        bool met = false;

        for (uint32_t i = 1; i < t->n_modules && !met; i++)
            met = lora_saves(&one, module_path(t, t->modules[i]->number, buf, sizeof buf));
        nowhere |= (uint64_t)!met << k;
    }
    return nowhere;
}

enum err_code inventory_of(const struct arch *arch, const struct step *step, struct arena *arena, struct inventory *ret, struct err *err)
{
    struct trainer *t = arena_new(arena, struct trainer);
    struct listing l = {.arena = arena};
    enum err_code rc;

    if (!t)
        return err_set(err, ERR_NOMEM, "", "the working memory of one request is too small for an inventory");
    t->as_saved = true;
    t->memory = MEMORY_KEPT; /* as tapes that are kept have it, whose whole model it is */
    rc = trainer_declare(t, arch, step, arena, err);
    if (rc)
        return rc;
    l.model = &t->model;
    l.tree = &t->model.tree;
    list_module(&l, t->model.tree.root);
    l.rows = arena_array(arena, struct tensor_info, l.n + 1);
    if (!l.rows)
        return err_set(err, ERR_NOMEM, "", "the working memory of one request is too small for an inventory");
    l.n = 0;
    l.experts = 0;
    l.total = (struct inventory){0};
    list_module(&l, t->model.tree.root);
    if (l.full || arena->full)
        return err_set(err, ERR_NOMEM, "", "the working memory of one request is too small for the names of an inventory");
    l.total.n = l.n;
    l.total.rows = l.rows;
    l.total.active_parameters = l.total.base_parameters - l.experts;
    if (l.experts)
        l.total.active_parameters += l.experts / arch->experts * arch->experts_used;
    l.total.adapted_modules = t->adapted_modules;
    if (step->r.tuning != TUNING_FULL)
        l.total.saved_nowhere = saved_nowhere(&t->model.tree, &step->r.lora);
    *ret = l.total;
    return ERR_OK;
}

static void count(void *context, struct module *m, struct param *p)
{
    struct parameter_count *c = context;
    uint64_t n = p->stands_for < 0 ? 0 : (uint64_t)(p->stands_for ? p->stands_for : param_numel(p));

    (void)m;
    if (p->tied)
        return;
    c->parameters += n;
    if (is_of_experts(p)) {
        c->experts += n;
        c->trained_experts += p->requires_grad ? n : 0;
    }
    c->trainable += p->requires_grad ? n : 0;
    c->tensors++;
}

struct parameter_count parameters_of(struct module *root)
{
    struct parameter_count c = {0};

    params_visit(root, count, &c);
    return c;
}

struct parameter_count parameters_along(const struct parameter_count *a, const struct parameter_count *b, uint32_t times)
{
    return (struct parameter_count){
        .parameters = b->parameters + times * (b->parameters - a->parameters),
        .trainable = b->trainable + times * (b->trainable - a->trainable),
        .experts = b->experts + times * (b->experts - a->experts),
        .trained_experts = b->trained_experts + times * (b->trained_experts - a->trained_experts),
        .tensors = b->tensors + times * (b->tensors - a->tensors),
    };
}
