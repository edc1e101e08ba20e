/* fsdp2.c - fully_shard as a program: FSDPState's hooks on modules, outputs and the end of a backward. */
#include "parallel/fsdp2/inside.h"

#include "parallel/programs.h"
#include "torch/autograd.h"
#include "torch/hooks.h"

/* ------------------------------------------------------------------------------------------------------------ backward */
static void end_of_backward(struct run *r, void *of)
{
    (void)r;
    fsdp2_end_backward(of);
}

/* FSDPState._pre_backward: the gradient of an output has come. */
static void output_has_gradient(struct run *r, void *of)
{
    struct fsdp2_unit *u = of;
    struct fsdp2 *f = u->all;

    u->state = FSDP2_PRE_BACKWARD;
    if (!f->queued)
        hook_backward_end(r, end_of_backward, f);
    f->queued = true;
    fsdp2_pre_backward(u);
}

/* RegisterPostBackwardFunction.backward: the gradient of the unit's input has come. */
static void input_has_gradient(struct run *r, void *of)
{
    (void)r;
    fsdp2_post_backward(of);
}

/* ------------------------------------------------------------------------------------------------------------- forward */
static val cast_input(const struct fsdp2 *f, val x)
{
    if (!f->mixed || !x || !dtype_is_float(dtype_of(f->r, x)) || dtype_of(f->r, x) == f->compute)
        return x;
    return to_dtype(f->r, x, f->compute);
}

/* FSDPParamGroup.pre_forward */
static val group_enters(struct fsdp2_unit *u, val x)
{
    bool entering = u->group_state != FSDP2_FORWARD;

    if (!u->n_params)
        return x;
    u->group_state = FSDP2_FORWARD;
    fsdp2_unshard(u, FSDP2_FORWARD);
    fsdp2_wait(u);
    if (!entering || !u->all->r->grad_enabled || !wants_grad(u->all->r, x))
        return x;
    return hook_backward(u->all->r, x, input_has_gradient, u);
}

/* FSDPState._pre_forward. Where a checkpoint that is not reentrant runs again, the hook of its output has gathered already. */
static val unit_enters(struct fsdp2_unit *u, val x)
{
    struct fsdp2 *f = u->all;
    bool first;

    if (u->state == FSDP2_PRE_BACKWARD) {
        fsdp2_unshard(u, u->group_state);
        fsdp2_wait(u);
        return cast_input(f, x);
    }
    first = u->state != FSDP2_FORWARD;
    u->state = FSDP2_FORWARD;
    if (!f->forward_root)
        f->forward_root = u;
    x = group_enters(u, cast_input(f, x));
    if (first && u->next_forward)
        fsdp2_unshard(u->next_forward, FSDP2_FORWARD);
    return x;
}

/* FSDPParamGroup.post_forward */
static void group_returns(struct fsdp2_unit *u)
{
    struct fsdp2 *f = u->all;

    if (!u->n_params)
        return;
    if (!f->r->in_backward || f->r->q->fsdp2_recomputes_in_order) {
        if (u->reshards)
            fsdp2_reshard(u);
        if (u->n_turns == FSDP2_TURNS && !f->beside) {
            run_fail(f->r, ERR_INTERNAL, "", "a unit of fully_shard runs more often in one forward than the model of it holds");
            return;
        }
        if (!f->beside) { /* a list that only a backward would read, and empty */
            u->turns[u->n_turns++] = f->n_order;
            f->order[f->n_order++] = u;
        }
    }
    u->group_state = FSDP2_IDLE;
}

static void hook_outputs(struct fsdp2_unit *u, uint32_t n, const val *outputs)
{
    struct run *r = u->all->r;

    for (uint32_t i = 0; i < n && r->grad_enabled; i++)
        if (outputs[i])
            hook_gradient(r, outputs[i], output_has_gradient, u);
    u->state = FSDP2_IDLE;
}

/* _force_complete_incomplete_states: a grouped unit of which not all modules ran, as where the head's weight is read and no head called. */
static void complete_units(struct fsdp2 *f, uint32_t n, const val *outputs)
{
    for (uint32_t i = f->n_units; i-- > 1;) {
        struct fsdp2_unit *u = &f->units[i];

        if (!u->to_run)
            continue;
        group_returns(u);
        hook_outputs(u, n, outputs);
        u->to_run = 0;
    }
}

/* FSDPState._post_forward */
static void unit_returns(struct fsdp2_unit *u, uint32_t n, const val *outputs)
{
    struct fsdp2 *f = u->all;

    if (u->state == FSDP2_PRE_BACKWARD)
        return;
    group_returns(u);
    hook_outputs(u, n, outputs);
    if (f->forward_root == u) {
        complete_units(f, n, outputs);
        fsdp2_release_kept(f);
        f->forward_root = NULL;
    }
}

/* --------------------------------------------------------------------------------------------------------------- hooks */
static val module_enters(struct run *r, struct module *m, void *of, val x)
{
    struct fsdp2_unit *u = of;

    (void)r;
    (void)m;
    if (u->n_modules > 1 && !u->to_run)
        u->to_run = (1u << u->n_modules) - 1;
    return unit_enters(u, x);
}

/* A grouped unit is done when its last module is. */
static val module_leaves(struct run *r, struct module *m, void *of, val result)
{
    struct fsdp2_unit *u = of;

    (void)r;
    for (uint32_t k = 0; k < u->n_modules && u->n_modules > 1; k++)
        if (u->modules[k] == m)
            u->to_run &= ~(1u << k);
    if (!u->to_run)
        unit_returns(u, 1, &result);
    return result;
}

static void hang_hooks(struct fsdp2 *f)
{
    for (uint32_t i = 1; i < f->n_units; i++)
        for (uint32_t k = 0; k < f->units[i].n_modules; k++) {
            struct module *m = f->units[i].modules[k];

            module_hook(f->tree, &m->hooks, (struct module_hook){module_enters, module_leaves, &f->units[i], NULL, NULL});
            m->casts_to = f->mixed ? (uint8_t)(f->compute + 1) : 0; /* cast_forward_inputs: rotary tables in fp32, alibi */
        }
}

/* --------------------------------------------------------------------------------------------------------- the program */
/* NULL, or what of it has no model. */
static const char *refused(const struct wrapping *w)
{
    if (!w->r->q->fully_shard_exists)
        return "fully_shard came with torch 2.4";
    if (w->o->offload == OFFLOAD_OPTIMIZER)
        return "fully_shard takes parameters and optimizer states to the host together: offload optimizer+params";
    return NULL;
}

static struct fsdp2 *begin(struct wrapping *w)
{
    const struct parallel_options *o = w->o;
    struct fsdp2 *f = arena_new(w->tree->arena, struct fsdp2);

    if (!f) {
        run_fail(w->r, ERR_NOMEM, "", "the working memory of one request is too small for fully_shard");
        return NULL;
    }
    f->r = w->r;
    f->tree = w->tree;
    f->ranks = o->method == METHOD_HSDP2 && o->at.shard_group ? o->at.shard_group : o->at.data_parallel;
    f->copies = o->at.data_parallel / f->ranks;
    f->hybrid = o->method == METHOD_HSDP2;
    f->stride = o->at.tensor_parallel;
    f->hosts = o->at.hosts;
    f->mixed = o->mixed;
    f->compute = o->compute;
    f->reduce = o->fsdp.reduce_dtype;
    f->offload = o->offload == OFFLOAD_OPTIMIZER_PARAMS;
    f->sync = true;
    f->casts_items = o->mixed && o->counts_items;
    return f;
}

static struct fsdp2 *shard(struct wrapping *w, bool beside)
{
    const char *why = refused(w);
    struct fsdp2 *f;

    if (why) {
        run_fail(w->r, ERR_FIELD_CONFLICT, "/training/methods", why);
        return NULL;
    }
    if (w->o->quantised)
        w->place(w);
    f = begin(w);
    if (!f)
        return NULL;
    f->beside = beside;
    if (!fsdp2_make_units(f, w))
        return NULL;
    fsdp2_place(f, w);
    fsdp2_order(f, w);
    hang_hooks(f);
    return f;
}

void *fsdp2_wrap(struct wrapping *w)
{
    struct fsdp2 *f = shard(w, false);

    if (f && !f->offload)
        wrapping_train_all(w);
    return f;
}

/* trl models/utils.py prepare_fsdp(): gathered as one. */
static void *refer(struct wrapping *w)
{
    return shard(w, true);
}

/* set_requires_gradient_sync() */
void fsdp2_begin_micro_step(void *of, bool sync)
{
    struct fsdp2 *f = of;

    f->sync = sync;
}

void fsdp2_pre_forward(void *of)
{
    struct fsdp2 *f = of;

    if (run_dead(f->r))
        return;
    f->items = f->casts_items ? owned(f->r, value_empty(f->r, OP_TO_COPY, f->compute, 0, NULL)) : 0;
    (void)unit_enters(&f->units[0], 0);
}

val fsdp2_items(const void *of)
{
    const struct fsdp2 *f = of;

    return f->items;
}

void fsdp2_post_forward(void *of, uint32_t n, val *outputs)
{
    struct fsdp2 *f = of;

    if (run_dead(f->r))
        return;
    unit_returns(&f->units[0], n, outputs);
    value_unref(f->r, f->items);
    f->items = 0;
}

/* Muon's products are those of DTensors; the rows of a matrix are told from a rank's, where all have as many. */
static void hand_mesh(struct fsdp2 *f, struct optim *optim)
{
    optim->mesh = (struct optim_mesh){{f->ranks, f->stride}, f->hosts};
    for (uint32_t i = 0; i < f->n_units; i++)
        for (uint32_t k = 0; k < f->units[i].n_params; k++) {
            const struct param *p = f->units[i].params[k].declared;

            if (p->requires_grad && !p->group && p->size[0] % f->ranks)
                run_fail(f->r, ERR_FIELD_CONFLICT, "/training/optimizer",
                         "Muon over matrices whose rows the ranks do not divide is not modelled yet: adamw_torch, or ddp");
        }
}

/* Under offload the optimizer runs where its leaves are; the run holds none of them. */
void fsdp2_optimizer_step(void *of, struct optim *optim)
{
    struct fsdp2 *f = of;

    if (optim->kind == OPTIM_MUON)
        hand_mesh(f, optim);
    if (f->offload)
        (void)work_send(f->r, (struct work_sending){COLLECTIVE_HOST_STEP, f->trained_host_bytes, {0, 0}, STREAM_COMPUTE, true});
    else
        optim_step(f->r, optim);
}

uint64_t fsdp2_host_bytes(const void *of)
{
    const struct fsdp2 *f = of;

    return f->host_bytes;
}

const struct method_program fsdp2_program = {
    .source = "torch/distributed/fsdp/_fully_shard",
    .wrap = fsdp2_wrap,
    .refer = refer,
    .begin_micro_step = fsdp2_begin_micro_step,
    .pre_forward = fsdp2_pre_forward,
    .items = fsdp2_items,
    .post_forward = fsdp2_post_forward,
    .optimizer_step = fsdp2_optimizer_step,
    .host_bytes = fsdp2_host_bytes,
};
