/*
 * planning.h - one question on its way to an answer: what the files of this folder share. Only plan/ includes this.
 */
#ifndef PLAN_PLANNING_H
#define PLAN_PLANNING_H

#include "plan/plan.h"
#include "plan/search.h"

struct planning {
    const struct plan_question *q;
    struct arena *keep, *scratch;
    unsigned char *begin; /* of the scratch arena: between two looks it is empty */
    struct plan_answer *answer;
    uint32_t measured, conflicts;
    uint32_t listed, listed_to_run; /* combinations of the lists that are still to come */
    struct foreseen_like like[2]; /* what the candidate before was foreseen to fit, without checkpointing and with: the next may be like it */
    bool plays_all;    /* each at the micro-batch that was stated: a verdict needs no foretelling, only what does not fit has it */
    bool rooms_of_all; /* whoever turns out tight tries a smaller micro-batch at once, not only when it stands first */
    uint64_t work_events;    /* that may be done in all */
    struct memo *memo;
    uint64_t foretell_until; /* of the budget: so far candidates are foretold, and the first of them at all events */
    struct err *err;
};

static inline enum err_code no_room(struct planning *p)
{
    return err_set(p->err, ERR_NOMEM, "", "no room for the candidates");
}

/* One step of this question. */
static inline struct probe probe_on(const struct planning *p, const struct step *step)
{
    return (struct probe){.q = p->q, .step = step, .scratch = p->scratch, .err = p->err, .memo = p->memo};
}

static inline struct probe probe_on_candidate(const struct planning *p, struct plan_candidate *c)
{
    struct probe probe = probe_on(p, &c->step);

    probe.ranks = &c->ranks;
    probe.paces = &c->paces;
    return probe;
}

/* Resolves a candidate. modelled: it can be run; what contradicts itself in one combination of several, or has no model, is set aside with its reason. */
MUST_CHECK enum err_code candidate_resolve(struct planning *p, struct plan_candidate *c);

/* The largest micro-batch of a resolved one, the one it is answered with, its time and whether it fits as models of few layers foretell them
 * (BASIS_NONE). */
MUST_CHECK enum err_code candidate_foresee(struct planning *p, struct plan_candidate *c);

/* The largest micro-batch and the time of one that was played as it was stated and does not fit. */
MUST_CHECK enum err_code candidate_foretell_asked(struct planning *p, struct plan_candidate *c);

/* All of that by replays; or the figures of the foreseen micro-batch by live blocks, and by replays where those do not settle it. */
MUST_CHECK enum err_code candidate_settle(struct planning *p, struct plan_candidate *c);
MUST_CHECK enum err_code candidate_bound(struct planning *p, struct plan_candidate *c);

/* A tight one that was played gives way to a smaller micro-batch of it that leaves room, where there is one; tried once. */
MUST_CHECK enum err_code candidate_make_room(struct planning *p, struct plan_candidate *c);

/* max_micro_batch_size of a candidate that was played and does not fit as it was asked. */
MUST_CHECK enum err_code candidate_advise_less(struct planning *p, struct plan_candidate *c);

/* What `rc` of a look means: a candidate that no model can run, or whose run outgrows the scratch arena, is set aside with its reason and touches
 * no other; else rc. */
MUST_CHECK enum err_code candidate_stands(struct planning *p, struct plan_candidate *c, enum err_code rc);

/* Micro-batch n is the candidate's. */
void candidate_take(struct planning *p, struct plan_candidate *c, uint32_t n);

/* low_bytes of such a candidate: what any graph has to keep. The verdict stays. */
MUST_CHECK enum err_code widen_to_least(struct planning *p, struct plan_candidate *c);

/* The recipe of a candidate: what is fixed and what its choices say. */
struct recipe recipe_of(const struct plan_question *q, const struct plan_candidate *c);

/* Peak allocated under the allocator that was asked for; after a walk the live blocks. */
uint64_t peak_of(const struct plan_question *q, const struct plan_candidate *c);

/* What `rc` of a change means that was only tried: what cannot be run at all is no advice; what outgrew the question is counted. A full `keep` and a question
 * that nobody waits for end the answer. The scratch arena is empty afterwards. */
MUST_CHECK enum err_code candidate_tried(struct planning *p, enum err_code rc);

/* Why a modelled candidate does not fit, and the nearest change of its own that does. */
MUST_CHECK enum err_code explain(struct planning *p, struct plan_candidate *c);

/* Whether a step fits: by what is foreseen where that is far from the budget, else by live blocks, else by a replay. ret_foreseen may be NULL. */
MUST_CHECK enum err_code surely_fits(const struct probe *probe, uint32_t n, bool *ret, struct measured *ret_foreseen);

/* Whether a like step, with another batch, length, checkpointing or GPU, surely does not fit: what stood between two steps of one that was measured is above
 * the other's budget. */
bool rests_above(const struct measured *known, const struct recipe *of, const struct probe *other);

/* The answer's advice, and the nearest change of losers that have none of their own. Whatever cannot be tried is no advice. */
MUST_CHECK enum err_code advise(struct planning *p);

#endif
