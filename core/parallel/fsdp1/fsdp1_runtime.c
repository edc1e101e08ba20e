/* fsdp1_runtime.c - what units do in forward and backward, and what they prefetch. _runtime_utils.py, _exec_order_utils.py. */
#include "parallel/fsdp1/inside.h"

#include "torch/autograd.h"
#include "torch/hooks.h"
#include "torch/work.h"

/* ----------------------------------------------------------------------------------------------------------- prefetching */
static struct unit *next_in_backward(const struct unit *u)
{
    int32_t at = u->post_forward_index - 1;
    struct unit *next = at >= 0 && (uint32_t)at < u->all->n_order ? u->all->post_forward_order[at] : NULL;

    return next && next->needs_backward_unshard && !next->prefetched ? next : NULL;
}

static struct unit *next_in_forward(const struct unit *u)
{
    int32_t at = u->pre_forward_index + 1;
    struct unit *next = u->pre_forward_index >= 0 && (uint32_t)at < u->all->n_first_order ? u->all->pre_forward_order[at] : NULL;

    return next && next->needs_forward_unshard && !next->prefetched ? next : NULL;
}

/* _get_handle_to_prefetch */
static struct unit *next_of(const struct unit *u)
{
    enum fsdp_prefetch p = u->all->o->fsdp.backward_prefetch;

    if ((u->state == HANDLE_BACKWARD_PRE && p == FSDP_PREFETCH_PRE) || (u->state == HANDLE_BACKWARD_POST && p == FSDP_PREFETCH_POST))
        return next_in_backward(u);
    return u->state == HANDLE_FORWARD && u->all->o->fsdp.forward_prefetch ? next_in_forward(u) : NULL;
}

/* _prefetch_handle: as if it were in the state that it is gathered for */
static void prefetch(struct unit *u, enum handle_state as)
{
    struct unit *next = next_of(u);
    enum handle_state was;

    if (!next)
        return;
    was = next->state;
    next->state = as;
    unit_unshard(next);
    next->state = was;
    next->prefetched = true;
}

/* --------------------------------------------------------------------------------------------------------------- backward */
static bool frees_in_backward(const struct fsdp1 *f)
{
    return f->sharded && (f->synchronises || f->reshards_after_forward);
}

static void post_backward_reshard(struct unit *u)
{
    unit_reshard(u, frees_in_backward(u->all));
    prefetch(u, HANDLE_BACKWARD_PRE);
}

/* _post_backward_hook, of the flat parameter's AccumulateGrad */
void fsdp1_post_backward(void *of, val leaf)
{
    struct fsdp1 *f = of;
    uint32_t i = leaf <= f->last_flat ? f->unit_of_flat[leaf] : 0;
    struct unit *u = i ? &f->units[i - 1] : NULL;

    if (!u || run_dead(f->r))
        return;
    u->post_backward_called = true;
    u->state = HANDLE_BACKWARD_POST;
    post_backward_reshard(u);
    if (f->synchronises)
        unit_reduce_gradient(u);
    else if (f->o->fsdp.use_orig_params)
        unit_use_unsharded_gradient_views(u);
}

/* _post_backward_reshard_only_hook: a frozen unit's input has its gradient. */
static void post_backward_reshard_only(struct run *r, void *of)
{
    struct unit *u = of;

    if (r->q->fsdp1_frozen_units_prefetch)
        u->state = HANDLE_BACKWARD_POST;
    post_backward_reshard(u);
}

/* _finalize_params; what its hook watched is let go of */
static void finalize(struct unit *u)
{
    u->hooked = false;
    node_unref(u->all->r, u->watched);
    u->watched = 0;
    if (u->trained && u->all->synchronises) {
        unit_prepare_for_optimizer(u);
        u->post_backward_called = false;
    }
    u->ran_pre_backward = u->needs_backward_unshard = u->prefetched = false;
    u->post_forward_index = -1;
    u->state = HANDLE_IDLE;
}

/* _post_backward_final_callback */
static void backward_ended(struct run *r, void *of)
{
    struct fsdp1 *f = of;

    if (f->last_reduce)
        work_wait(r, f->last_reduce);
    if (f->last_all_reduce)
        work_wait(r, f->last_all_reduce);
    f->last_reduce = f->last_all_reduce = 0;
    if (f->offload && f->synchronises) /* current_stream().synchronize(), behind the copies to the host */
        host_waits(r);
    f->n_order = 0;
    f->second_iteration = true;
    for (uint32_t i = 0; i < f->n_units && !run_dead(r); i++) {
        struct unit *u = &f->units[i];

        if (!u->n_params)
            continue;
        if (!unit_is_resharded(u))
            unit_reshard(u, frees_in_backward(f));
        finalize(u);
    }
    f->callback_queued = false;
}

void fsdp1_reset_gradients(struct fsdp1 *f)
{
    for (uint32_t i = 0; i < f->n_units; i++)
        unit_reset_gradient(&f->units[i]);
}

/* _pre_backward_hook, of what forward returned */
static void pre_backward(struct run *r, void *of)
{
    struct unit *u = of;
    struct fsdp1 *f = u->all;

    if (u->ran_pre_backward)
        return;
    if (u == root_of(f) && !f->callback_queued) {
        f->callback_queued = true;
        hook_backward_end(r, backward_ended, f);
        fsdp1_reset_gradients(f);
    }
    u->state = HANDLE_BACKWARD_PRE;
    if (u->needs_backward_unshard && !u->prefetched)
        unit_unshard(u);
    unit_wait(u);
    u->needs_backward_unshard = false;
    prefetch(u, HANDLE_BACKWARD_PRE);
    unit_prepare_for_backward(u);
    u->ran_pre_backward = true;
}

/* ---------------------------------------------------------------------------------------------------------------- forward */
/* _register_post_backward_reshard_only_hook. What it registers holds the nodes of the inputs until backward has ended: a leaf's, and so its
 * gradient, where a reentrant checkpoint detached them. */
static void watch_input(struct unit *u, val x)
{
    struct run *r = u->all->r;

    u->hooked = true;
    if (u->trained || !wants_grad(r, x))
        return;
    hook_gradient(r, x, post_backward_reshard_only, u);
    if (!r->values[x].leaf)
        return;
    u->watched = accumulate_node(r, x);
    node_ref(r, u->watched);
}

static void record_pre_forward(struct unit *u)
{
    struct fsdp1 *f = u->all;

    if (f->second_iteration || u->pre_forward_index >= 0)
        return;
    u->pre_forward_index = (int32_t)f->n_first_order;
    f->pre_forward_order[f->n_first_order++] = u;
}

/* `if handle._post_forward_index`: the first one's is 0, and found anew when it runs again */
static void record_post_forward(struct unit *u)
{
    struct fsdp1 *f = u->all;

    if (f->n_order == f->max_order) {
        run_fail(f->r, ERR_INTERNAL, "", "a unit of FullyShardedDataParallel runs more often than the model of it holds");
        return;
    }
    if (u->post_forward_index <= 0)
        u->post_forward_index = (int32_t)f->n_order;
    f->post_forward_order[f->n_order++] = u;
}

val fsdp1_pre_forward(struct run *r, struct module *m, void *of, val x)
{
    struct unit *u = of;

    (void)m;
    if (u->state == HANDLE_BACKWARD_PRE)
        return x;
    record_pre_forward(u);
    u->state = HANDLE_FORWARD;
    if (!u->prefetched)
        unit_unshard(u);
    u->needs_forward_unshard = false;
    unit_wait(u);
    prefetch(u, HANDLE_FORWARD);
    if (r->grad_enabled && !u->hooked)
        watch_input(u, x);
    return x;
}

/* _register_pre_backward_hooks */
static void hook_outputs(struct unit *u, uint32_t n, const val *outputs)
{
    struct run *r = u->all->r;

    if (!r->grad_enabled)
        return;
    if (u == root_of(u->all))
        u->all->callback_queued = false;
    u->needs_backward_unshard = u->ran_pre_backward = false;
    for (uint32_t i = 0; i < n; i++) {
        if (!wants_grad(r, outputs[i]))
            continue;
        hook_gradient(r, outputs[i], pre_backward, u);
        u->needs_backward_unshard = true;
    }
}

void fsdp1_after_forward(struct unit *u, uint32_t n, const val *outputs)
{
    struct fsdp1 *f = u->all;

    if (u->state == HANDLE_BACKWARD_PRE || run_dead(f->r))
        return;
    if (!f->beside) /* a list that only a backward would read */
        record_post_forward(u);
    unit_reshard(u, u != root_of(f) && f->sharded && f->reshards_after_forward);
    hook_outputs(u, n, outputs);
    u->state = HANDLE_IDLE;
}

val fsdp1_post_forward(struct run *r, struct module *m, void *of, val result)
{
    (void)r;
    (void)m;
    fsdp1_after_forward(of, 1, &result);
    return result;
}
