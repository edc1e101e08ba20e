/* One candidate: resolved, its micro-batch chosen, measured and judged. */
#include "plan/longest.h"
#include "plan/pace.h"
#include "plan/planning.h"

#include <string.h>

/* The GPUs that the degrees leave are data-parallel ranks; what does not divide is seen before. */
static void take_degrees(struct recipe *r, uint32_t gpus)
{
    bool tp = r->method == METHOD_TP || r->method == METHOD_TP_FSDP2;

    r->pipeline_parallel = r->method == METHOD_PP ? (r->pipeline_parallel ? r->pipeline_parallel : gpus) : 1;
    r->tensor_parallel = tp ? (r->tensor_parallel ? r->tensor_parallel : gpus) : 1;
    r->data_parallel = r->method == METHOD_SINGLE ? 1 : gpus / (r->tensor_parallel * r->pipeline_parallel);
}

struct recipe recipe_of(const struct plan_question *q, const struct plan_candidate *c)
{
    struct recipe r = q->recipe;

    r.method = (enum method)c->choice[AXIS_METHOD]->value;
    r.offload = (enum offload)c->choice[AXIS_OFFLOAD]->value;
    take_degrees(&r, q->gpus);
    r.tuning = (enum tuning)c->choice[AXIS_TUNING]->value;
    r.precision = (enum precision)c->choice[AXIS_PRECISION]->value;
    r.optimizer = (enum optimizer)c->choice[AXIS_OPTIMIZER]->value;
    r.attention = (enum attention)c->choice[AXIS_ATTENTION]->value;
    r.gradient_checkpointing = (enum tri)c->choice[AXIS_CHECKPOINTING]->value;
    return r;
}

uint64_t peak_of(const struct plan_question *q, const struct plan_candidate *c)
{
    const struct measured *m = &c->memory;

    return c->basis == BASIS_REPLAYED && q->expandable_segments ? m->peak_allocated_expandable_bytes : m->peak_allocated_bytes;
}

/* What the other neighbour of the asked stack would need, with the same options. */
static enum err_code widen(struct planning *p, struct plan_candidate *c)
{
    struct plan_candidate other = *c;
    struct probe probe = {p->q, &other.step, p->scratch, p->err};
    uint32_t n = c->step.r.micro_batch_size;
    struct verdict v;
    uint64_t peak;
    enum err_code rc;

    other.step.quirks = quirks_of(p->q->other);
    rc = c->basis == BASIS_REPLAYED ? probe_judge(&probe, n, &v) : probe_walk(&probe, n, &v.memory);
    if (rc)
        return rc == ERR_FIELD_CONFLICT ? ERR_OK : rc;
    other.memory = v.memory;
    peak = peak_of(p->q, &other);
    c->low_bytes = peak < c->low_bytes ? peak : c->low_bytes;
    c->high_bytes = peak > c->high_bytes ? peak : c->high_bytes;
    return ERR_OK;
}

enum err_code candidate_replay(struct planning *p, struct plan_candidate *c)
{
    struct probe probe = {p->q, &c->step, p->scratch, p->err};
    struct verdict v;
    enum err_code rc = probe_judge(&probe, c->step.r.micro_batch_size, &v);

    if (rc)
        return rc;
    c->basis = BASIS_REPLAYED;
    c->fits = v.fits;
    c->tight = v.tight;
    c->memory = v.memory;
    c->device_bytes = v.device_bytes;
    c->low_bytes = c->high_bytes = peak_of(p->q, c);
    return p->q->other ? widen(p, c) : ERR_OK;
}

static enum err_code by_live_blocks(struct planning *p, struct plan_candidate *c)
{
    struct probe probe = {p->q, &c->step, p->scratch, p->err};

    c->basis = BASIS_BOUNDED;
    c->low_bytes = c->memory.walk_peak_bytes;
    c->high_bytes = c->low_bytes + (uint64_t)(PLAN_LARGEST_REMAINDER * (double)c->low_bytes);
    if (c->fits ? c->high_bytes > probe_budget(&probe) : c->low_bytes <= probe_budget(&probe))
        return candidate_replay(p, c);
    return p->q->other ? widen(p, c) : ERR_OK;
}

/* Live blocks settle it where they, with the remainders, are clear of the budget; else it is played. */
enum err_code candidate_bound(struct planning *p, struct plan_candidate *c)
{
    struct probe probe = {p->q, &c->step, p->scratch, p->err};
    enum err_code rc = probe_walk(&probe, c->step.r.micro_batch_size, &c->memory);

    return rc ? rc : by_live_blocks(p, c);
}

/* The search has walked its largest. Another that fits is left open: it may be the one that is replayed. */
static enum err_code first_look(struct planning *p, struct plan_candidate *c, const struct largest_fit *f)
{
    uint32_t n = c->step.r.micro_batch_size;

    c->fits = n <= f->n;
    if (n != (f->n ? f->n : 1))
        return c->fits && p->q->objective != OBJECTIVE_LEAST_MEMORY ? ERR_OK : candidate_bound(p, c);
    c->tight = c->fits && f->retries;
    c->memory = f->walk;
    return by_live_blocks(p, c);
}

static enum err_code measure(struct planning *p, struct plan_candidate *c)
{
    struct probe probe = {p->q, &c->step, p->scratch, p->err};
    uint32_t n = p->q->recipe.micro_batch_size;
    struct largest_fit f;
    enum err_code rc;

    if (p->measured++ == PLAN_MAX_MEASURED)
        return err_set(p->err, ERR_FIELD_RANGE, "/training", "the lists ask for more than %d combinations: name fewer",
                       (int)PLAN_MAX_MEASURED);
    rc = probe_largest(&probe, &f);
    if (!rc && !n)
        rc = pace_fastest(&probe, &f, &n, &c->time);
    else if (!rc)
        rc = n <= f.n ? pace_at(&probe, n, &c->time) : pace_foresee(&probe, n, &c->time);
    if (rc)
        return rc;
    if (p->q->objective == OBJECTIVE_LONGEST_SEQUENCE)
        rc = longest_sequence(&probe, p->q->recipe.micro_batch_size ? p->q->recipe.micro_batch_size : 1, &c->max_seq_len_tokens);
    if (rc)
        return rc;
    c->max_micro_batch_size = f.n;
    c->step = probe_step(&probe, n);
    c->global_batch_size = n * c->step.r.gradient_accumulation_steps * c->step.r.data_parallel;
    c->modelled = true;
    return first_look(p, c, &f);
}

/* global = micro x accumulation x replicas, for some whole number of what was left out. */
static bool shares_evenly(const struct plan_question *q, const struct step *s)
{
    uint64_t n = q->recipe.micro_batch_size, steps = q->recipe.gradient_accumulation_steps, dp = s->r.data_parallel,
             global = q->global_batch_size;
    uint64_t at_once = dp * (n ? n : 1) * (steps ? steps : 1);

    return !global || (n && steps ? at_once == global : global % at_once == 0);
}

static enum err_code set_aside(struct planning *p, struct plan_candidate *c, const char *code)
{
    c->modelled = false;
    c->reason = (struct plan_reason){.code = code, .detail = arena_str(p->keep, p->err->detail, strlen(p->err->detail))};
    return c->reason.detail ? ERR_OK : no_room(p);
}

/* LoRA without targets is an error only of who asked for LoRA. What contradicts itself in one combination of several is set aside; that
 * all do is found at the end. */
enum err_code candidate_judge(struct planning *p, struct plan_candidate *c)
{
    struct recipe r = recipe_of(p->q, c);
    struct err *err = p->err;
    enum err_code rc = train_resolve(&r, p->q->arch, &p->q->device, p->keep, &c->step, err);

    if (rc == ERR_NO_TARGETS && !p->q->axes[AXIS_TUNING].asked)
        return set_aside(p, c, err_slug(rc));
    if (rc == ERR_FIELD_CONFLICT) {
        p->conflicts++;
        return set_aside(p, c, "not-offered");
    }
    if (rc)
        return rc;
    if (!shares_evenly(p->q, &c->step)) {
        (void)err_set(err, ERR_FIELD_CONFLICT, "/training/global_batch_size",
                      "%u sequences cannot be shared by %u replicas in whole micro-batches", p->q->global_batch_size,
                      c->step.r.data_parallel);
        return set_aside(p, c, "batch-conflict");
    }
    rc = measure(p, c);
    if (rc != ERR_FIELD_CONFLICT && rc != ERR_ARCH_UNKNOWN)
        return rc;
    return set_aside(p, c, "not-modelled"); /* measure.h: an option or a family that the model cannot run */
}
