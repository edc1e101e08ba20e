/* Advice where nothing fits: what losers found by themselves, then as lean as it gets, then other clusters. */
#include "plan/advise.h"

/* A loser's own nearest change, with its figures. */
static enum err_code try_nearest(struct planning *p, const struct plan_candidate *c, const struct plan_candidate *first)
{
    const struct plan_nearest *near = &c->reason.nearest;
    struct trial t = trial_of(p, c);
    uint32_t n = near->micro_batch_size ? near->micro_batch_size : c->step.r.micro_batch_size;
    struct plan_nearest change = candidate_difference(first, c);
    enum err_code rc;

    if (near->tuning)
        (void)trial_tune(&t, TUNING_LORA);
    if (near->gradient_checkpointing)
        t.recipe.gradient_checkpointing = near->gradient_checkpointing;
    if (near->seq_len_tokens)
        t.recipe.seq_len_tokens = near->seq_len_tokens;
    rc = trial_run(p, &t, n);
    change.tuning = near->tuning ? near->tuning : change.tuning;
    change.seq_len_tokens = near->seq_len_tokens;
    change.micro_batch_size = n == p->q->recipe.micro_batch_size ? 0 : near->micro_batch_size;
    if (near->gradient_checkpointing)
        change.gradient_checkpointing =
            near->gradient_checkpointing == first->step.r.gradient_checkpointing ? TRI_UNSET : near->gradient_checkpointing;
    trial_tell(p, &change, &t, first);
    return rc;
}

/* What would fit if the allocator kept its segments together: of those whose live blocks fit, the first. ROCm's allocator learnt it late and by its own release
 * (pytorch/pytorch pull requests 177974, 179930; issue 192259 hangs): nobody is sent there. */
static enum err_code try_expandable(struct planning *p, const struct plan_candidate *first)
{
    enum err_code rc = ERR_OK;
    bool told = false;

    for (uint32_t i = 0; !rc && !told && !p->q->expandable_segments && i < p->answer->n; i++) {
        const struct plan_candidate *c = &p->answer->candidates[i];
        struct plan_nearest change = candidate_difference(first, c);
        struct trial t;

        if (!c->modelled || c->fits || !c->launchable || c->basis != BASIS_REPLAYED || !c->step.quirks.has_expandable_segments || p->q->device.untraced)
            continue;
        t = trial_of(p, c);
        t.q.expandable_segments = change.expandable_segments = true;
        if (c->device_bytes - measured_reserved(&c->memory, false) + measured_reserved(&c->memory, true) > p->q->capacity_bytes)
            continue;
        rc = trial_run(p, &t, c->step.r.micro_batch_size);
        trial_tell(p, &change, &t, first);
        told = t.fits;
    }
    return rc;
}

/* Adapters that peft has to be told where to put: over all linear layers, as candidates would have come. */
static enum err_code try_targets(struct planning *p, const struct plan_candidate *first)
{
    static const enum tuning tunings[] = {TUNING_LORA, TUNING_QLORA};
    uint32_t n = p->q->recipe.micro_batch_size ? p->q->recipe.micro_batch_size : 1;
    enum err_code rc = ERR_OK;
    bool told = false;

    for (uint32_t i = 0; !rc && !told && i < sizeof tunings / sizeof *tunings * p->answer->n; i++) {
        const struct plan_candidate *c = &p->answer->candidates[i % p->answer->n];
        struct plan_nearest change;
        struct trial t;
        const char *tuning;

        if (!reason_is(&c->reason, ERR_NO_TARGETS))
            continue;
        t = trial_of(p, c);
        tuning = trial_tune(&t, tunings[i / p->answer->n]);
        rc = trial_run(p, &t, n);
        change = candidate_difference(first, &t.c); /* a candidate without targets has no step */
        change.tuning = tuning;
        change.micro_batch_size = first->modelled && n != first->step.r.micro_batch_size ? n : 0;
        trial_tell(p, &change, &t, first);
        told = t.fits;
    }
    return rc;
}

enum kind { KIND_NONE, KIND_CHECKPOINTING, KIND_TUNING, KIND_BATCH, KIND_LENGTH, KIND_COUNT };

static enum kind kind_of(const struct plan_nearest *n)
{
    if (n->tuning)
        return KIND_TUNING;
    if (n->gradient_checkpointing)
        return KIND_CHECKPOINTING;
    return n->micro_batch_size ? KIND_BATCH : n->seq_len_tokens ? KIND_LENGTH : KIND_NONE;
}

/* The loser whose change of this kind takes the least away; of equals the first of the ranking. */
static const struct plan_candidate *least_changed(const struct plan_answer *a, enum kind kind)
{
    const struct plan_candidate *best = NULL;

    for (uint32_t i = 0; i < a->n; i++) {
        const struct plan_candidate *c = &a->candidates[i];
        const struct plan_nearest *n = &c->reason.nearest;

        if (!c->modelled || !c->launchable || kind_of(n) != kind)
            continue;
        if (!best || n->seq_len_tokens > best->reason.nearest.seq_len_tokens || n->micro_batch_size > best->reason.nearest.micro_batch_size)
            best = c;
    }
    return best;
}

enum { NEAREST = 2, CLUSTERS = 2 }; /* of the advice: losers' own changes, and room for other clusters */

/* The first candidate over quantised weights, and with optimizer states of eight bits where all is trained: each with checkpointing. */
static enum err_code try_smaller(struct planning *p, const struct plan_candidate *first, bool optimizer)
{
    struct trial t = trial_of(p, first);
    struct plan_nearest change = {0};
    enum err_code rc;

    if (optimizer ? first->step.r.tuning != TUNING_FULL || t.recipe.optimizer : first->step.r.tuning == TUNING_QLORA || p->q->adapter_gap)
        return ERR_OK;
    if (optimizer) {
        t.recipe.optimizer = OPTIMIZER_BNB_ADAMW_8BIT;
        change.optimizer = "adamw_bnb_8bit";
    } else {
        change.tuning = trial_tune(&t, TUNING_QLORA);
    }
    rc = trial_run(p, &t, first->step.r.micro_batch_size);
    if (!rc && !t.fits && t.recipe.gradient_checkpointing == TRI_FALSE) {
        t.recipe.gradient_checkpointing = change.gradient_checkpointing = TRI_TRUE;
        rc = trial_run(p, &t, first->step.r.micro_batch_size);
    }
    trial_tell(p, &change, &t, first);
    return rc;
}

static enum err_code try_nearest_of_all(struct planning *p, const struct plan_candidate *first)
{
    enum err_code rc = ERR_OK;
    bool tried = false;

    for (int kind = KIND_CHECKPOINTING; !rc && kind < KIND_COUNT; kind++) {
        const struct plan_candidate *c = least_changed(p->answer, (enum kind)kind);

        if (kind == KIND_BATCH && !tried) { /* before anything is taken away of the batch or the length */
            rc = try_smaller(p, first, false);
            if (!rc)
                rc = try_smaller(p, first, true);
            tried = true;
        }
        if (c && !rc && p->answer->n_advice < (tried ? PLAN_ADVICE_MAX - CLUSTERS : NEAREST))
            rc = try_nearest(p, c, first);
    }
    return rc;
}

static bool may_take(const struct plan_axis *axis, int value, bool otherwise)
{
    if (!axis->asked)
        return otherwise;
    for (uint32_t i = 0; i < axis->n; i++)
        if (axis->choices[i].value == value)
            return true;
    return false;
}

/* As lean as the request allows: adapters and checkpointing where nobody said otherwise. */
static struct plan_nearest make_lean(const struct planning *p, struct trial *t, const struct plan_candidate *first, bool at_any_rate)
{
    struct plan_nearest change = {0};
    bool adapts = at_any_rate || may_take(&p->q->axes[AXIS_TUNING], TUNING_LORA, true);

    if (first->step.r.tuning == TUNING_FULL && !p->q->adapter_gap && adapts)
        change.tuning = trial_tune(t, TUNING_LORA);
    if (t->recipe.gradient_checkpointing != TRI_TRUE) {
        t->recipe.gradient_checkpointing = TRI_TRUE;
        change.gradient_checkpointing = TRI_TRUE;
    }
    return change;
}

enum { HALVES = 4 };

/* The cluster that there is, as lean as it gets: adapters, then over a quantised base, checkpointing, one sequence, and that shorter and shorter. */
static enum err_code try_leanest(struct planning *p, const struct plan_candidate *first)
{
    enum err_code rc = ERR_OK;

    for (int i = 0; !rc && i < 2 * HALVES && !p->answer->n_advice; i++) {
        struct trial t = trial_of(p, first);
        struct plan_nearest change = make_lean(p, &t, first, true);
        uint32_t tokens = first->step.r.seq_len_tokens >> i / 2;

        t.recipe.seq_len_tokens = tokens;
        change.seq_len_tokens = i / 2 ? tokens : 0;
        if (i % 2 && first->step.r.tuning != TUNING_QLORA && !p->q->adapter_gap)
            change.tuning = trial_tune(&t, TUNING_QLORA);
        change.micro_batch_size = first->step.r.micro_batch_size > 1 ? 1 : 0;
        rc = trial_run(p, &t, 1);
        trial_tell(p, &change, &t, first);
    }
    return rc;
}

/* One cluster, with what shards over it: the first that this stack starts. */
static enum err_code try_cluster(struct planning *p, const struct plan_candidate *first, const struct plan_alternative *other)
{
    static const enum method sharded[] = {METHOD_FSDP2, METHOD_ZERO3, METHOD_FSDP};
    bool alone = other->gpus == 1, more = other->gpus != p->q->gpus;
    enum err_code rc = ERR_OK;

    for (size_t i = 0; !rc && i < (alone || !more ? 1 : sizeof sharded / sizeof *sharded); i++) {
        struct trial t = trial_of(p, first);
        struct plan_nearest change = make_lean(p, &t, first, other->at_any_rate);
        uint32_t n = p->q->recipe.micro_batch_size && !other->at_any_rate ? p->q->recipe.micro_batch_size : 1;

        t.q.device = other->device;
        t.q.capacity_bytes = other->capacity_bytes;
        t.q.gpus = other->gpus;
        t.q.gpus_per_node = other->gpus_per_node;
        t.q.system = other->is_timed ? &other->system : NULL;
        if (more) {
            t.recipe.method = sharded[i];
            t.recipe.data_parallel = other->gpus;
            t.recipe.tensor_parallel = t.recipe.pipeline_parallel = 1;
            t.recipe.shard_group = 0;
            change.method = method_rows[sharded[i]].name;
            change.gpus = other->gpus;
            change.gpus_per_node = other->gpus_per_node;
        }
        if (t.recipe.offload != OFFLOAD_NONE && !p->q->axes[AXIS_OFFLOAD].asked) {
            t.recipe.offload = OFFLOAD_NONE;
            change.offload = "none";
        }
        change.gpu = other->gpu;
        change.micro_batch_size = first->modelled && n != first->step.r.micro_batch_size ? n : 0;
        rc = trial_run(p, &t, n);
        trial_tell(p, &change, &t, first);
        if (t.ran)
            break;
    }
    return rc;
}

/* More of the same, and the next larger: the nearest of each that fits. */
static enum err_code try_clusters(struct planning *p, const struct plan_candidate *first)
{
    struct plan_alternative other;
    bool more = false, larger = false;
    enum err_code rc = ERR_OK;

    for (uint32_t i = 0; !rc && p->q->alternative && p->q->alternative(p->q->alternative_of, i, &other); i++) {
        uint32_t before = p->answer->n_advice;

        if (other.at_any_rate ? p->answer->n_advice > 0 : other.gpu ? larger : more)
            continue;
        rc = try_cluster(p, first, &other);
        if (p->answer->n_advice > before)
            *(other.gpu ? &larger : &more) = true;
    }
    return rc;
}

enum err_code advise_fewer(struct planning *p, const struct plan_candidate *first)
{
    const struct plan_question *q = p->q;
    uint32_t node = q->gpus_per_node ? q->gpus_per_node : q->gpus, before = p->answer->n_advice;
    enum err_code rc = ERR_OK;

    if (first->step.r.method == METHOD_SINGLE)
        return ERR_OK;
    for (uint32_t n = 2; !rc && n < q->gpus && p->answer->n_advice == before; n = n < node && 2 * n > node ? node : 2 * n) {
        struct plan_alternative fewer = {.gpus = n, .gpus_per_node = n < node ? n : node, .device = q->device, .capacity_bytes = q->capacity_bytes};

        rc = try_cluster(p, first, &fewer);
    }
    return rc;
}

enum err_code advise_stuck(struct planning *p, const struct plan_candidate *first)
{
    enum err_code rc = try_expandable(p, first);

    if (!rc)
        rc = try_targets(p, first);
    if (!rc && first->modelled)
        rc = try_nearest_of_all(p, first);
    if (!rc && first->modelled)
        rc = try_leanest(p, first);
    return rc || !first->modelled ? rc : try_clusters(p, first);
}
