/* zero3_trace.c - partitioned_param_coordinator.py: the order in which modules run, recorded once and then relied on. */
#include "parallel/zero/inside3.h"

enum { CALLS_OF_A_MODULE = 8 }; /* forward, recomputation, backward, and for what is called more than once */

bool zero3_trace_room(struct zero3 *z)
{
    z->max_order = (z->n_modules + ZERO3_WRAPPERS) * CALLS_OF_A_MODULE;
    z->max_uses = z->n * CALLS_OF_A_MODULE;
    z->order = run_room(z->r, sizeof *z->order, z->max_order);
    z->passed = run_room(z->r, sizeof *z->passed, z->max_order + (size_t)1);
    z->queue = run_room(z->r, sizeof *z->queue, z->max_uses);
    z->uses = run_room(z->r, sizeof *z->uses, z->max_uses);
    z->verdicts = run_room(z->r, sizeof *z->verdicts, z->max_order);
    z->goes = run_room(z->r, sizeof *z->goes, z->max_uses);
    return z->order && z->passed && z->queue && z->uses && z->verdicts && z->goes;
}

/* What is still in flight is waited for and released. */
static void clean_registry(struct zero3 *z)
{
    for (uint32_t i = 0; i < z->n; i++)
        if (z->params[i].gather != ZERO3_NONE) {
            zero3_arrive(z, i);
            if (z->params[i].status == ZERO3_AVAILABLE && !z->params[i].n_active)
                zero3_free(z, &z->params[i]);
        }
}

/* _invalidate_trace, which lets go of what was read ahead since 0.15 */
static void invalidate(struct zero3 *z)
{
    z->trace = ZERO3_TRACE_INVALID;
    z->n_order = z->n_queue = z->queue_at = 0;
    if (z->r->q->zero3_resets_before_forward)
        clean_registry(z);
}

void zero3_trace_module(struct zero3 *z, uint32_t module)
{
    if (z->trace == ZERO3_TRACE_COMPLETE && (z->step >= z->n_order || z->order[z->step] != module))
        invalidate(z);
    if (z->trace != ZERO3_TRACE_RECORD)
        return;
    if (z->n_order == z->max_order)
        run_fail(z->r, ERR_NOMEM, "", "modules are called more often than the working memory of one request holds for ZeRO-3");
    else
        z->order[z->n_order++] = module;
}

/* record_parameters: each module's own, by ds_id. They stand so already. */
static bool queue_uses(struct zero3 *z)
{
    z->n_queue = 0;
    z->passed[0] = 0;
    for (uint32_t s = 0; s < z->n_order; s++) {
        const struct zero3_module *m = &z->modules[z->order[s]];

        z->passed[s + 1] = z->passed[s];
        if (z->n_queue + m->n > z->max_uses)
            return false;
        for (uint32_t i = 0; i < m->n; i++) {
            uint32_t p = z->of_module[m->first + i];

            z->queue[z->n_queue++] = (struct zero3_use){p, s};
            z->params[p].n_uses++;
            z->passed[s + 1] += m->whole ? 0 : z->params[p].elems; /* iter_params(module, recurse=False) has none of a leaf's */
        }
    }
    return true;
}

/* The steps at which each parameter is used, in their order. */
static void complete(struct zero3 *z)
{
    uint32_t at = 0;

    for (uint32_t i = 0; i < z->n; i++)
        z->params[i].n_uses = 0;
    if (!queue_uses(z)) {
        run_fail(z->r, ERR_NOMEM, "", "parameters are used more often than the working memory of one request holds for ZeRO-3");
        return;
    }
    for (uint32_t i = 0; i < z->n; i++) {
        z->params[i].first_use = at;
        at += z->params[i].n_uses;
        z->params[i].n_uses = 0;
    }
    for (uint32_t i = 0; i < z->n_queue; i++) {
        struct zero3_param *p = &z->params[z->queue[i].param];

        z->uses[p->first_use + p->n_uses++] = z->queue[i].step;
    }
    z->trace = ZERO3_TRACE_COMPLETE;
}

void zero3_trace_reset(struct zero3 *z)
{
    clean_registry(z);
    if (z->trace == ZERO3_TRACE_RECORD && z->n_order)
        complete(z);
    else if (z->trace == ZERO3_TRACE_INVALID)
        z->trace = ZERO3_TRACE_RECORD;
    for (uint32_t i = 0; i < z->n; i++)
        z->params[i].fetched_for = INT64_MIN;
    z->queue_at = 0;
    z->step = 0;
    z->available_elems = 0;
}

/* __params_to_release: it runs again within max_reuse_distance elements from now on. */
bool zero3_used_soon(const struct zero3 *z, const struct zero3_param *p)
{
    for (uint32_t i = 0; i < p->n_uses; i++) {
        uint32_t s = z->uses[p->first_use + i];

        if (s >= z->step)
            return z->passed[s] - z->passed[z->step] < (int64_t)z->o->zero.reuse_elems;
    }
    return false;
}

static const struct module *module_of(const struct zero3 *z, uint32_t number)
{
    return number && number < z->n_modules ? z->modules_of[number] : NULL; /* peft's are above all */
}

/* The same of a leaf, for which later modules count with all that is below them: iter_params(module, recurse=z3_leaf_module(submodule_to_release)). */
bool zero3_whole_used_soon(const struct zero3 *z, const struct zero3_module *m)
{
    int64_t passed = 0;

    for (int64_t s = z->step; s < z->n_order && passed < (int64_t)z->o->zero.reuse_elems; s++) {
        const struct module *next = module_of(z, z->order[s]);

        if (!next || module_is_below(z->modules_of[m->number], next))
            return true;
        passed += z->below[z->order[s]];
    }
    return false;
}
