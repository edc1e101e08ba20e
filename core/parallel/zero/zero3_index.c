/* zero3_index.c - parameters by ds_id, by value, by module. */
#include "parallel/zero/inside3.h"
#include "torch/autograd.h"

#include <string.h>

enum {
    HEAD = 4,           /* weight, bias; of peft's copy and its original */
    MAGNITUDE_READS = 2 /* DoRA's module looks at A's weight and the base's */
};

static void count(void *context, struct module *m, struct param *p)
{
    struct zero3 *z = context;

    (void)m;
    z->n += !p->tied;
    z->n_trained += !p->tied && p->requires_grad;
}

static void number(void *context, struct module *m, struct param *p)
{
    struct zero3 *z = context;
    struct zero3_param *q = &z->params[z->n];

    (void)m;
    if (p->tied)
        return;
    *q = (struct zero3_param){.p = p, .elems = param_numel(p), .gather = ZERO3_NONE, .next = ZERO3_NONE, .fetched_for = INT64_MIN};
    q->status = ZERO3_AVAILABLE;
    q->trained = p->requires_grad;
    q->shard_elems = div_up(q->elems, z->ranks);
    q->persistent = (uint64_t)q->elems <= z->o->zero.persistence_elems;
    z->n++;
}

bool zero3_number(struct zero3 *z, struct tree *t)
{
    struct run *r = z->r;

    params_visit(t->root, count, z);
    z->n_modules = t->n_modules;
    z->params = run_room(r, sizeof *z->params, z->n);
    z->modules = run_room(r, sizeof *z->modules, z->n_modules + (size_t)ZERO3_WRAPPERS);
    z->below = run_room(r, sizeof *z->below, z->n_modules);
    z->of_module = run_room(r, sizeof *z->of_module, 3 * (size_t)z->n + HEAD);
    z->trained = run_room(r, sizeof *z->trained, z->n_trained);
    z->sub_groups = run_room(r, sizeof *z->sub_groups, z->n_trained);
    z->gathers = run_room(r, sizeof *z->gathers, z->n + (size_t)1);
    z->links = run_room(r, sizeof *z->links, 2 * (size_t)z->n);
    z->list = run_room(r, sizeof *z->list, z->n);
    z->sorted = run_room(r, sizeof *z->sorted, z->n);
    z->in_bucket = run_room(r, sizeof *z->in_bucket, z->n);
    z->norms = run_room(r, sizeof *z->norms, 2 * (size_t)z->n);
    for (uint32_t i = 0; i < 2 * z->n && !run_dead(r); i++) {
        z->norms[i] = 0;
        z->links[i] = (struct zero3_link){0, i + 1 < 2 * z->n ? i + 1 : ZERO3_NONE};
    }
    z->free_gather = z->newest = ZERO3_NONE;
    if (run_dead(r))
        return false;
    z->n = 0;
    params_visit(t->root, number, z);
    return zero3_trace_room(z);
}

/* By value, once all parameters have theirs. */
bool zero3_index_values(struct zero3 *z)
{
    for (uint32_t i = 0; i < z->n; i++) {
        z->params[i].value = z->params[i].p->value;
        if (z->params[i].value > z->last_value)
            z->last_value = z->params[i].value;
    }
    z->index_of = run_room(z->r, sizeof *z->index_of, z->last_value + (size_t)1);
    if (!z->index_of)
        return false;
    for (val v = 0; v <= z->last_value; v++)
        z->index_of[v] = 0;
    for (uint32_t i = 0; i < z->n; i++)
        z->index_of[z->params[i].value] = i + 1;
    return true;
}

/* What its forward may read of the modules right below it, without calling them */
static uint32_t readable(const struct zero3 *z, const struct module *m)
{
    uint32_t n = 0;

    for (const struct module *child = m->first; child; child = child->next)
        for (const struct param *p = child->params; p; p = p->next)
            n += !p->buffer && p->value && z->index_of[p->value];
    return n;
}

/* leaf_module_config.py DEFAULT_LEAF_MODULE_CLASSES, by which set_z3_leaf_modules() knows modules whose parameters are fetched, released and reduced at once */
static bool is_whole(const struct run *r, const struct module *m)
{
    static const char *const leaves[][2] = {
        {"transformers.models.mixtral.modeling_mixtral", "MixtralSparseMoeBlock"},
        {"transformers.models.qwen2_moe.modeling_qwen2_moe", "Qwen2MoeSparseMoeBlock"},
        {"transformers.models.qwen3_moe.modeling_qwen3_moe", "Qwen3MoeSparseMoeBlock"},
    };

    if (!r->q->zero3_whole_experts || !m->class_name)
        return false;
    for (size_t i = 0; i < sizeof leaves / sizeof *leaves; i++)
        if (!strcmp(m->class_name, leaves[i][1]) && !strcmp(m->class_module, leaves[i][0]))
            return true;
    return false;
}

/* The leaf that a module is below, or is. */
static const struct module *whole_of(const struct run *r, const struct module *m)
{
    for (; m; m = m->parent)
        if (is_whole(r, m))
            return m;
    return NULL;
}

static void take_parameter(void *context, struct module *m, struct param *p)
{
    struct zero3 *z = context;

    (void)m;
    if (!p->value || !z->index_of[p->value])
        return;
    z->of_module[z->n_indexed++] = z->index_of[p->value] - 1;
}

static void add_up(struct zero3 *z, const struct tree *t)
{
    for (uint32_t i = 0; i < z->n_modules; i++)
        z->below[i] = 0;
    for (uint32_t i = 1; i < z->n_modules; i++) {
        int64_t elems = 0;

        for (const struct param *p = t->modules[i]->params; p; p = p->next)
            elems += !p->buffer && !p->tied ? param_numel(p) : 0;
        for (const struct module *m = elems ? t->modules[i] : NULL; m; m = m->parent)
            z->below[m->number] += elems;
    }
}

/* module.named_parameters(recurse=False): a tied one is the other's. There is room for what a module reads of others. peft: PeftModel and
 * LoraModel around the model, which before 0.21 is called past its hooks. */
void zero3_index_modules(struct zero3 *z, const struct tree *t)
{
    add_up(z, t);
    z->n_indexed = 0;
    z->modules_of = t->modules;
    for (uint32_t i = 0; i < z->n_modules; i++) {
        z->modules[i] = (struct zero3_module){.z = z, .number = i, .first = z->n_indexed, .recomputed = ZERO3_NONE, .verdicts = ZERO3_NONE};
        if (i && !module_is_below(t->modules[i], t->root))
            continue;
        z->modules[i].whole = i ? whole_of(z->r, t->modules[i]) : NULL;
        if (z->modules[i].whole == t->modules[i] && i)
            params_visit(t->modules[i], take_parameter, z);
        if (z->modules[i].whole) {
            z->modules[i].n = z->n_indexed - z->modules[i].first;
            for (uint32_t k = 0; k < z->modules[i].n; k++)
                z->params[z->of_module[z->modules[i].first + k]].whole = i;
            continue;
        }
        for (const struct param *p = i ? t->modules[i]->params : NULL; p; p = p->next)
            if (!p->buffer && p->value && z->index_of[p->value])
                z->of_module[z->n_indexed++] = z->index_of[p->value] - 1;
        z->modules[i].n = z->n_indexed - z->modules[i].first;
        z->n_indexed += i && t->modules[i] == t->root ? HEAD : 0; /* what it will have read of its head */
        z->n_indexed += i ? readable(z, t->modules[i]) : 0;
        z->n_indexed += i && !strcmp(t->modules[i]->last ? t->modules[i]->first->name : "", "base_layer");
        z->n_indexed += i && !strcmp(t->modules[i]->parent ? t->modules[i]->parent->name : "", "lora_magnitude_vector") ? MAGNITUDE_READS : 0;
        z->modules[i].room = z->n_indexed - z->modules[i].first;
    }
    z->n_wrappers = !z->o->adapters ? 0 : z->r->q->peft_calls_model ? 2 : 1;
    for (uint32_t i = 0; i < z->n_wrappers; i++)
        z->modules[z->n_modules + i] = (struct zero3_module){.z = z, .number = z->n_modules + i, .recomputed = ZERO3_NONE, .verdicts = ZERO3_NONE};
}
