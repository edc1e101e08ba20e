/* One question: which way of training fits, with which batch. */
#include "api/estimate.h"

#include "parallel/nccl.h"

#include <string.h>

/* Most of what is left is for the runs, which come and go; the rest keeps the answer. */
static struct arena scratch_of(struct arena *arena)
{
    size_t room = (size_t)(arena->end - arena->cur);
    struct arena scratch = {arena->end - room / 4 * 3, arena->end};

    arena->end = scratch.cur;
    return scratch;
}

static const struct plan_candidate *first_modelled(const struct plan_answer *a)
{
    for (uint32_t i = 0; i < a->n; i++)
        if (a->candidates[i].modelled)
            return &a->candidates[i];
    return NULL;
}

/* Adapters that found no module: peft refuses (tuners_utils.py, inject_adapter). */
static enum err_code check_targets(const struct estimate *e, const struct plan_candidate *c)
{
    if (c->step.r.tuning != TUNING_LORA || e->inventory.adapted_modules)
        return ERR_OK;
    return err_set(e->call->err, ERR_FIELD_VALUE, "/training/lora/target_modules", "none of them is a module of this model");
}

static enum err_code take_inventory(struct estimate *e)
{
    const struct plan_candidate *c = first_modelled(&e->answer);
    enum err_code rc;

    if (!c)
        return ERR_OK;
    rc = inventory_of(&e->model.arch, &c->step, e->call->arena, &e->inventory, e->call->err);
    return rc ? rc : check_targets(e, c);
}

static bool any_bounded(const struct plan_answer *a)
{
    for (uint32_t i = 0; i < a->n; i++)
        if (a->candidates[i].modelled && a->candidates[i].basis == BASIS_BOUNDED)
            return true;
    return false;
}

static bool any_ddp(const struct plan_answer *a)
{
    for (uint32_t i = 0; i < a->n; i++)
        if (a->candidates[i].modelled && a->candidates[i].step.r.method == METHOD_DDP)
            return true;
    return false;
}

/* Adapters under reentrant checkpoints in the Trainer's loop: resolve.c tells why. */
static bool any_unused_ignored(const struct plan_answer *a)
{
    for (uint32_t i = 0; i < a->n; i++) {
        const struct step *s = &a->candidates[i].step;

        if (a->candidates[i].modelled && s->r.method == METHOD_DDP && s->r.framework == FRAMEWORK_TRANSFORMERS && s->r.tuning != TUNING_FULL &&
            !s->find_unused_parameters)
            return true;
    }
    return false;
}

static void assume_ddp(struct estimate *e)
{
    struct stack by = stack_modelled(&e->stack, ~0U).by;

    note(&e->assumptions, "ddp: peaks are those of the third step; DistributedDataParallel makes its buckets anew in the second");
    if (any_unused_ignored(&e->answer))
        note(&e->assumptions, "ddp: ddp_find_unused_parameters is false, as it must be for adapters under reentrant checkpointing");
    if (e->rq.training.padded != TRI_TRUE && quirks_of(&by).attention_interface)
        note(&e->assumptions, "ddp: batches have no attention mask, and transformers takes their rows for packed sequences where it looks for them: "
                              "it makes a mask of its own; training.padded true hands one over");
}

static void assume(struct estimate *e)
{
    const struct plan_candidate *c = first_modelled(&e->answer);

    if (!c)
        return;
    if (!e->rq.training.seq_len.set)
        note(&e->assumptions, "training.seq_len %u: left out, the smaller of 2048 and the model's maximum", c->step.r.seq_len_tokens);
    note(&e->assumptions,
         "scratch of cub's scan and unique_by_key (cub_scan_tail_bytes %d, cub_unique_tile %d, cub_unique_tail_bytes %d) was read off traces of embeddings' "
         "backward and cumsum on two releases of torch",
         c->step.quirks.cub_scan_tail_bytes, c->step.quirks.cub_unique_tile, c->step.quirks.cub_unique_tail_bytes);
    if (e->question.system)
        note(&e->assumptions, "%s", perf_assumption());
    if (e->question.system && e->answer.n > 1)
        note(&e->assumptions, "of candidates within 5 %% of the fastest the simplest comes first: one GPU, then no checkpointing");
    if (any_bounded(&e->answer))
        note(&e->assumptions, "basis bounded: low_bytes are live blocks, high_bytes add %.1f %%, the largest remainder of unsplit blocks that was traced",
             100 * PLAN_LARGEST_REMAINDER);
    if (!e->rq.training.micro_batch_size.set)
        note(&e->assumptions, "micro_batch_size: the fastest of those that fit%s; of equal speeds the smaller",
             e->rq.training.global_batch_size.set ? " and divide the global batch" : "");
    if (any_ddp(&e->answer))
        assume_ddp(e);
    if (c->step.r.data_parallel > 1)
        note(&e->assumptions, "NCCL holds %d MiB on a GPU of a pair, %d MiB of more (NVIDIA/nccl issue 964: 4 A100, NVLink)", (int)NCCL_MIB_PAIR,
             (int)NCCL_MIB_MORE);
    if (c->step.r.attention == ATTENTION_EAGER && e->rq.training.attention.n && c->choice[AXIS_ATTENTION]->value == ATTENTION_SDPA)
        note(&e->warnings, "/training/attention: the %s class of this release has no sdpa, it runs eager", e->model.model_type);
    if (c->step.r.use_cache == TRI_FALSE && e->rq.training.use_cache == TRI_TRUE)
        note(&e->warnings, "/training/use_cache: switched off while checkpointing, as transformers does");
}

static enum err_code estimate(struct estimate *e)
{
    struct call *c = e->call;
    struct arena scratch;
    enum err_code rc = request_read(c->doc, c->arena, &e->warnings, &e->rq, c->err);

    if (!rc)
        rc = stack_read(&e->rq.stack, &e->stack, c->err);
    if (!rc)
        rc = theirs_read(e);
    if (!rc)
        rc = request_check(&e->rq, c->err);
    if (!rc)
        rc = model_read(c, e->rq.model, e->rq.revision, e->rq.config, &e->warnings, &e->model);
    if (!rc)
        rc = theirs_resolve(e);
    if (!rc)
        rc = question_build(e);
    if (rc)
        return rc;
    scratch = scratch_of(c->arena);
    rc = baseline_read(e, &scratch);
    if (!rc && !baseline_only(&e->rq))
        rc = plan_answer(&e->question, c->arena, &scratch, &e->answer, c->err);
    c->arena->end = scratch.end;
    if (!rc)
        rc = take_inventory(e);
    if (rc)
        return rc;
    model_compare_count(&e->model, e->inventory.base_parameters, &e->warnings);
    assume(e);
    resolve_request(e);
    return answer_write(e);
}

enum err_code estimate_answer(struct call *c, const struct shape *shape, const struct notes *noted)
{
    struct estimate *e = arena_new(c->arena, struct estimate);
    enum err_code rc;

    if (!e)
        return err_set(c->err, ERR_NOMEM, "", "no room for the request");
    e->call = c;
    e->shape = shape;
    e->warnings.arena = e->assumptions.arena = c->arena;
    for (uint32_t i = 0; noted && i < noted->n; i++)
        note(&e->warnings, "%s", noted->v[i]);
    rc = estimate(e);
    json_free(e->model.owned);
    for (size_t i = 0; i < sizeof e->owned / sizeof *e->owned; i++)
        json_free(e->owned[i]);
    return rc;
}
