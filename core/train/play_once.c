/* play_once.c - a step played in full. */
#include "torch/offload.h"
#include "config/arch.h"
#include "train/fold.h"
#include "train/play_inside.h"
#include "train/timing.h"

enum err_code play_no_room(struct err *err)
{
    return err_set(err, ERR_NOMEM, "", "the working memory of one request is too small");
}

void play_look_at_host(struct kept_run *k)
{
    const struct trainer *t = k->t;
    const struct method_program *p = t->method;
    uint64_t saved = t->offload ? offload_host_bytes(t->offload) : 0;

    k->host_bytes = (t->method && t->step->r.method != METHOD_DDP ? t->optim.page_bytes : trainer_paged_bytes(t)) + saved;
    k->host_bytes_of_all = k->host_bytes * t->step->r.data_parallel;
    if (!p || !p->host_bytes || !t->wrapped) /* nothing is wrapped where a tape was laid out: then nothing is offloaded */
        return;
    k->host_bytes = p->host_bytes(t->wrapped) + saved;
    k->host_bytes_of_all = p->host_bytes_of_all ? p->host_bytes_of_all(t->wrapped) + saved * t->parallel.at.world : k->host_bytes * t->parallel.at.world;
}

/* What becomes of its model; whether it has the log that LOOK_COSTS would have, too. */
enum how { LASTING, KEPT, PASSING, PASSING_WITH_COSTS };

bool play_tells_costs(const struct play_question *q)
{
    const struct recipe *r = &q->step->r;
    bool all_steps = q->look == LOOK_REPLAY || (q->look == LOOK_WALK && r->method != METHOD_DDP && !trainer_skips_first(q->arch, q->step));

    return all_steps && r->gradient_accumulation_steps == 1 && r->method != METHOD_PP && r->rank == 0;
}

static enum err_code play_within(const struct play_question *q, enum how how, unsigned wider, struct arena *arena, struct kept_run *ret, bool *ret_outgrew,
                                 struct err *err)
{
    struct kept_run k = {.t = arena_new(arena, struct trainer)};
    bool with_costs = how == PASSING_WITH_COSTS || (how == KEPT && play_tells_costs(q));
    enum err_code rc = k.t ? ERR_OK : play_no_room(err);

    if (!rc && (q->logged || q->look == LOOK_COSTS))
        rc = timing_log(q->arch, q->step, q->look == LOOK_COSTS || q->look == LOOK_FORETELL, wider, arena, &k.t->log, err);
    if (!rc && with_costs && !(k.t->log && trainer_learns_order(q->step))) /* the same step's: one log is both */
        rc = timing_log(q->arch, q->step, true, wider, arena, &k.t->costs, err);
    if (rc)
        return rc;
    k.t->live_blocks_only = q->look == LOOK_WALK || q->look == LOOK_FORETELL;
    k.t->memory = how == LASTING ? MEMORY_OWN : how == KEPT ? MEMORY_KEPT : MEMORY_PASSING;
    k.t->wider = (uint8_t)wider;
    k.t->foretells = q->look == LOOK_FORETELL;
    k.t->costs_alone = q->look == LOOK_COSTS;
    rc = trainer_run(k.t, q->arch, q->step, q->device, arena, err);
    *ret_outgrew = rc && k.t->run.outgrew;
    if (rc)
        return rc;
    play_look_at_host(&k);
    *ret = k;
    return ERR_OK;
}

enum { WIDER = 2, WIDEST = 8 }; /* powers of two */

/* Limits are those of usual models; a forward that loops, over experts or tokens, is played again with wider ones, as long as there is room. */
static enum err_code play(const struct play_question *q, enum how how, struct arena *arena, struct kept_run *ret, struct err *err)
{
    unsigned char *mark = arena->cur;
    bool outgrew = false;
    enum err_code rc = play_within(q, how, 0, arena, ret, &outgrew, err);

    for (unsigned wider = WIDER; outgrew && wider <= WIDEST; wider += WIDER) {
        arena_rewind(arena, mark);
        outgrew = false;
        rc = play_within(q, how, wider, arena, ret, &outgrew, err);
    }
    return rc;
}

enum err_code play_once(const struct play_question *q, struct arena *arena, struct kept_run *ret, struct err *err)
{
    return play(q, LASTING, arena, ret, err);
}

enum err_code play_kept(const struct play_question *q, struct arena *arena, struct kept_run *ret, struct err *err)
{
    return play(q, KEPT, arena, ret, err);
}

enum err_code play_passing(const struct play_question *q, struct arena *arena, struct kept_run *ret, struct err *err)
{
    return play(q, PASSING, arena, ret, err);
}

enum err_code play_passing_with_costs(const struct play_question *q, struct arena *arena, struct kept_run *ret, struct err *err)
{
    return play(q, PASSING_WITH_COSTS, arena, ret, err);
}

/* -------------------------------------------------------------------------------------------------------------- layers */
static uint32_t stages_of(const struct step *s)
{
    return s->r.pipeline_parallel ? s->r.pipeline_parallel : 1;
}

/* Two of a kind: the first and the last of a model do not always do alike. */
uint32_t play_few_layers(const struct play_question *q)
{
    struct fold f = fold_of(q->arch);

    return f.prefix + 2 * f.period * stages_of(q->step);
}

enum { DEEP = 4 }; /* times as many layers: below, a whole run is as cheap */

/* A pipeline's rounds are the more the fewer its layers are, where the allocator is played. */
bool play_is_deep(const struct play_question *q)
{
    bool few_rounds = q->step->r.method != METHOD_PP || q->look != LOOK_REPLAY;

    return !q->arch->fixed_depth && q->look != LOOK_FORETELL && q->look != LOOK_COSTS && few_rounds && q->arch->layers >= DEEP * play_few_layers(q);
}

static uint32_t hashed(uint32_t hash, const char *name)
{
    for (; *name; name++)
        hash = (hash ^ (uint8_t)*name) * UINT32_C(16777619);
    return hash;
}

/* Of a ModuleList's child. */
static uint32_t index_of(const char *name)
{
    uint32_t n = 0;

    for (; *name >= '0' && *name <= '9'; name++)
        n = n * 10 + (uint32_t)(*name - '0');
    return n;
}

/* A path, whose layers go by their kind. */
static uint32_t role_of(const struct module *m, struct fold f, uint32_t *roles)
{
    uint32_t above, i;

    if (!m)
        return UINT32_C(2166136261);
    if (roles[m->number])
        return roles[m->number];
    above = role_of(m->parent, f, roles);
    if (*m->name >= '0' && *m->name <= '9') {
        i = index_of(m->name);
        roles[m->number] = (above + 1 + (i < f.prefix ? i : f.prefix + (i - f.prefix) % f.period)) * UINT32_C(16777619);
    } else {
        roles[m->number] = hashed(above, m->name);
    }
    return roles[m->number];
}

const uint32_t *play_roles(const struct tree *tree, const struct arch *arch, struct arena *arena)
{
    uint32_t *roles = arena_array(arena, uint32_t, tree->n_modules);
    struct fold f = fold_of(arch);

    for (uint32_t i = 1; roles && i < tree->n_modules; i++)
        (void)role_of(tree->modules[i], f, roles);
    return roles;
}
