/* zero3_fetch.c - PartitionedParameterCoordinator: what is fetched before a module runs, ahead of it, and released after. */
#include "parallel/zero/inside3.h"
#include "torch/checkpoint.h"
#include "torch/work.h"

/* ------------------------------------------------------------------------------------------------- who uses a parameter */
static void add_user(struct zero3 *z, struct zero3_param *p, uint32_t module)
{
    for (uint32_t i = 0; i < p->n_active; i++)
        if (p->active[i] == module)
            return;
    if (p->n_active == ZERO3_USERS)
        run_fail(z->r, ERR_INTERNAL, "", "more modules use one parameter at once than the model of ZeRO-3 holds");
    else
        p->active[p->n_active++] = module;
}

static void remove_user(struct zero3_param *p, uint32_t module)
{
    for (uint32_t i = 0; i < p->n_active; i++)
        if (p->active[i] == module) {
            p->active[i] = p->active[--p->n_active];
            return;
        }
}

static void let_go(struct zero3 *z, struct zero3_param *p)
{
    if (p->status == ZERO3_AVAILABLE && !p->n_active)
        zero3_free(z, p);
}

/* ------------------------------------------------------------------------------------------------- modules in backward */
static void begin_backward(struct zero3 *z, struct zero3_module *m)
{
    if (m->running)
        return;
    m->running = true;
    m->before = z->newest;
    m->after = ZERO3_NONE;
    if (z->newest != ZERO3_NONE)
        z->modules[z->newest].after = m->number;
    z->newest = m->number;
}

static void end_backward(struct zero3 *z, struct zero3_module *m)
{
    if (!m->running)
        return;
    m->running = false;
    if (m->after != ZERO3_NONE)
        z->modules[m->after].before = m->before;
    else
        z->newest = m->before;
    if (m->before != ZERO3_NONE)
        z->modules[m->before].after = m->after;
}

/* update_recompute_parameters: a frozen parameter that a recomputation uses belongs to the module whose backward asked for it. */
static void give_to_owner(struct zero3 *z, uint32_t param)
{
    struct zero3_module *owner = &z->modules[z->newest];
    uint32_t link = z->free_link;

    add_user(z, &z->params[param], owner->number);
    for (uint32_t i = owner->recomputed; i != ZERO3_NONE; i = z->links[i].next)
        if (z->links[i].param == param)
            return;
    if (link == ZERO3_NONE) {
        run_fail(z->r, ERR_INTERNAL, "", "more frozen parameters are recomputed at once than the model of ZeRO-3 holds");
        return;
    }
    z->free_link = z->links[link].next;
    z->links[link] = (struct zero3_link){param, owner->recomputed};
    owner->recomputed = link;
}

/* Those that `m` owns are released with it. */
static void release_recomputed(struct zero3 *z, struct zero3_module *m)
{
    while (m->recomputed != ZERO3_NONE) {
        uint32_t link = m->recomputed;
        struct zero3_param *p = &z->params[z->links[link].param];

        m->recomputed = z->links[link].next;
        z->links[link].next = z->free_link;
        z->free_link = link;
        remove_user(p, m->number);
        if (!p->persistent)
            let_go(z, p);
    }
}

/* --------------------------------------------------------------------------------------------------------------- fetch */
/* Takes from the queue what the module that runs uses, where it was not read ahead. */
static void pass_by(struct zero3 *z, const struct zero3_module *m)
{
    uint32_t left = 0;

    for (uint32_t i = 0; i < m->n; i++)
        left += z->params[z->of_module[m->first + i]].fetched_for < z->step;
    z->stamp++;
    while (left && z->queue_at < z->n_queue) {
        struct zero3_use u = z->queue[z->queue_at++];

        z->params[u.param].fetched_for = u.step;
        left -= z->params[u.param].stamp != z->stamp;
        z->params[u.param].stamp = z->stamp;
    }
}

static void prefetch(struct zero3 *z)
{
    int64_t room = (int64_t)z->o->zero.max_live_elems - z->available_elems, bucket = (int64_t)z->o->zero.prefetch_elems, elems = 0;
    uint32_t n = 0;

    room = room < bucket ? room : bucket;
    z->stamp++;
    while (z->queue_at < z->n_queue && elems < room) {
        struct zero3_use u = z->queue[z->queue_at++];
        struct zero3_param *p = &z->params[u.param];

        if (p->fetched_for < u.step)
            p->fetched_for = u.step;
        if (p->status != ZERO3_ABSENT || p->stamp == z->stamp)
            continue;
        p->stamp = z->stamp;
        z->list[n++] = u.param;
        elems += p->elems;
    }
    if (n)
        zero3_gather(z, n, z->list);
}

/* __ongoing_fetch_events: a host that runs ahead of the gathers waits for the third last that was picked up. */
static void pick_up(struct zero3 *z, uint32_t param)
{
    struct run *r = z->r;

    if (z->params[param].gather == ZERO3_NONE)
        return;
    r->stream = z->gather_stream;
    if (z->n_fetched > ZERO3_AHEAD)
        event_awaited(r, z->fetched[z->n_fetched % (ZERO3_AHEAD + 1)]);
    zero3_arrive(z, param);
    r->stream = z->gather_stream;
    z->fetched[z->n_fetched++ % (ZERO3_AHEAD + 1)] = event_records(r);
    r->stream = STREAM_COMPUTE;
}

void zero3_fetch(struct zero3 *z, struct zero3_module *m, bool forward)
{
    struct run *r = z->r;
    bool recomputes = forward && r->in_backward && r->q->zero3_owns_recomputed && z->newest != ZERO3_NONE;

    if (!forward)
        begin_backward(z, m);
    for (uint32_t i = 0; i < m->n; i++)
        z->list[i] = z->of_module[m->first + i];
    if (m->n)
        zero3_gather(z, m->n, z->list);
    for (uint32_t i = 0; i < m->n; i++) {
        /* a set's order is that of addresses: of a leaf's the last first, so that what was read ahead keeps its buffer until all stand */
        uint32_t p = z->of_module[m->first + (m->whole ? m->n - 1 - i : i)];

        add_user(z, &z->params[p], m->number);
        z->params[p].held = r->values[z->params[p].value].refs;
        if (recomputes && !z->params[p].trained)
            give_to_owner(z, p);
        pick_up(z, p);
    }
    stream_waits(r, z->gather_stream);
    if (z->trace == ZERO3_TRACE_COMPLETE) {
        pass_by(z, m);
        if (z->o->zero.prefetch_elems)
            prefetch(z);
    }
    z->step++;
}

/* ------------------------------------------------------------------------------------------------------------- release */
static bool may_go(const struct zero3 *z, const struct zero3_module *m, const struct zero3_param *p, bool whole_soon)
{
    return !p->persistent && p->fetched_for <= z->step && !(m->whole ? whole_soon : zero3_used_soon(z, p));
}

/* __params_to_release has functools.lru_cache: what it said of a module at a step the first time holds for good, whatever is read ahead later. */
static const bool *verdict(struct zero3 *z, struct zero3_module *m)
{
    bool *goes = &z->goes[z->n_goes], soon;

    for (uint32_t i = m->verdicts; i != ZERO3_NONE; i = z->verdicts[i].next)
        if (z->verdicts[i].step == z->step)
            return &z->goes[z->verdicts[i].first];
    if (z->n_verdicts == z->max_order || m->n > z->max_uses - z->n_goes) {
        run_fail(z->r, ERR_NOMEM, "", "modules are called more often than the working memory of one request holds for ZeRO-3");
        return NULL;
    }
    soon = m->whole && zero3_whole_used_soon(z, m);
    for (uint32_t i = 0; i < m->n; i++)
        goes[i] = may_go(z, m, &z->params[z->of_module[m->first + i]], soon);
    z->verdicts[z->n_verdicts] = (struct zero3_verdict){z->step, m->verdicts, z->n_goes};
    m->verdicts = z->n_verdicts++;
    z->n_goes += m->n;
    return goes;
}

/* torch/utils/checkpoint.py keeps of what a recomputation saves a detached tensor, but the parameter itself where it wants no gradient. Before
 * deepspeed's pull request 8148 the module lets it go, empty, on its return, and check_recomputed_tensors_match() finds another shape than
 * forward kept. */
static bool is_lost(const struct zero3 *z, const struct zero3_param *p)
{
    const struct run *r = z->r;

    bool raises = r->q->checkpoint_keeps_frozen && !r->q->zero3_owns_recomputed;

    return raises && !p->trained && p->status == ZERO3_AVAILABLE && !p->n_active && r->region && region_recomputes(r->region) &&
           r->values[p->value].refs > p->held;
}

void zero3_release(struct zero3 *z, struct zero3_module *m, bool forward)
{
    const bool *goes = z->trace == ZERO3_TRACE_COMPLETE && m->n ? verdict(z, m) : NULL;

    if (run_dead(z->r))
        return;
    if (!forward)
        end_backward(z, m);
    for (uint32_t i = 0; i < m->n; i++) {
        struct zero3_param *p = &z->params[z->of_module[m->first + i]];

        remove_user(p, m->number);
        if (goes && !goes[i])
            continue;
        if (forward && is_lost(z, p))
            run_fail(z->r, ERR_FIELD_CONFLICT, "/training/checkpoint_reentrant",
                     "DeepSpeed before 0.19 lets frozen parameters go while a checkpoint computes them again, and torch raises CheckpointError: "
                     "checkpoint_reentrant true, or deepspeed 0.19");
        let_go(z, p);
    }
    if (!forward)
        release_recomputed(z, m);
}

/* Modules whose input wanted no gradient: nobody told that their backward is over. */
void zero3_release_leftovers(struct zero3 *z)
{
    while (z->newest != ZERO3_NONE && !run_dead(z->r)) {
        struct zero3_module *m = &z->modules[z->newest];

        end_backward(z, m);
        for (uint32_t i = 0; i < m->n; i++) {
            struct zero3_param *p = &z->params[z->of_module[m->first + i]];

            remove_user(p, m->number);
            if (!p->persistent)
                let_go(z, p);
        }
        release_recomputed(z, m);
    }
}

/* release_and_reset_all */
void zero3_release_all(struct zero3 *z)
{
    for (uint32_t i = 0; i < z->n && !run_dead(z->r); i++) {
        zero3_arrive(z, i);
        z->params[i].n_active = 0;
        let_go(z, &z->params[i]);
    }
}
