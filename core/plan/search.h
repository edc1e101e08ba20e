/*
 * search.h - one step measured at any micro-batch: the verdict at one, and the largest that fits. Only plan/ includes this.
 *
 * Search    a model of few layers, walked at two depths and carried on in a straight line, foretells: it costs a tenth of the whole
 *           model. What is answered as replayed was played: the largest fits on the allocator's model, the next does not or its live blocks
 *           alone exceed the budget.
 */
#ifndef PLAN_SEARCH_H
#define PLAN_SEARCH_H

#include "config/arch.h"
#include "plan/plan.h"

/* One step on one GPU. */
struct probe {
    const struct plan_question *q;
    const struct step *step;
    struct arena *scratch;
    struct err *err;
    struct plays *plays; /* of this step; NULL: nobody keeps them */
    struct plan_ranks *ranks; /* which may be the highest, as foreseen; NULL: all may */
    struct plan_paces *paces; /* of this step; NULL: nobody keeps them */
    struct memo *memo;        /* of the whole question; NULL: nobody keeps it */
};

struct verdict {
    bool fits, tight, retries;
    uint64_t device_bytes;
    struct measured memory;
};

/* The step at micro-batch n, with the accumulation that goes with it. */
struct step probe_step(const struct probe *p, uint32_t n);

/* Replays at micro-batch n under the budget: what fits is told by that run, release-and-retry included; what does not, by one without a
 * limit. `likely`: it probably fits, the limit is tried first. probe_tell() makes the same of figures that are known to fit. */
/* More than 95 % of the capacity; what may be reserved without being so. */
bool probe_is_tight(const struct probe *p, uint64_t device_bytes);
uint64_t probe_roomy_budget(const struct probe *p);
void probe_tell(const struct probe *p, const struct measured *m, bool retries, struct verdict *ret);
MUST_CHECK enum err_code probe_judge(const struct probe *p, uint32_t n, bool likely, struct verdict *ret);

/* Live blocks only: what memory of a verdict says after train_walk(), after train_fold(); `one_step`: of that alone, see there. */
MUST_CHECK enum err_code probe_walk(const struct probe *p, uint32_t n, struct measured *ret);
MUST_CHECK enum err_code probe_fold(const struct probe *p, uint32_t n, bool one_step, struct measured *ret);

/* A replay under the budget, release-and-retry included; `measuring`: figures too; roomy as probe_is_tight() is not. */
MUST_CHECK enum err_code probe_fits(const struct probe *p, uint32_t n, enum measuring measuring, struct fit *ret);

/* What the allocator holds beside the live blocks of n sequences, as a model of few layers shows it. */
MUST_CHECK enum err_code probe_remainder(const struct probe *p, uint32_t n, struct remainder *ret);

uint64_t remainder_beside(uint64_t live, const struct remainder *r); /* with `live`; of few layers' remainder and the largest that was traced the larger */

/* What comes to be looked at where n sequences, whose blocks live so, do not fit: as many as there is room for beside what stands; of few, one less. */
uint32_t probe_fewer(const struct probe *p, uint32_t n, uint64_t stands, uint64_t live, const struct remainder *r);

/* Whether `live` and the remainder fit whatever the allocator does with one block more; few sequences are played before that is denied. */
MUST_CHECK enum err_code probe_surely_within(const struct probe *p, uint32_t n, uint64_t live, const struct remainder *r, bool *ret);

/* The most up to n that surely fit, as models of few layers tell; 0: not one. `r`: the remainder of the last that was looked at. */
MUST_CHECK enum err_code probe_most_within(const struct probe *p, uint32_t n, struct remainder *r, uint32_t *ret);

/* Whether n fits the rank that is the highest as a rule. */
MUST_CHECK enum err_code probe_may_advise(const struct probe *p, uint32_t n, bool *ret);

struct largest_fit {
    uint32_t n;             /* 0 when not even one sequence fits */
    uint32_t retries;       /* of the allocator at n, in the replayed steps */
    uint32_t without_retry; /* the largest seen that needs none; 0: none was seen */
    uint64_t reserved_bytes; /* at without_retry */
    uint64_t slope_bytes;   /* live blocks of one sequence more */
    uint64_t play_events;   /* of the last play of the search, with its replay */
};
/* Where the work that is left does not reach further plays and what the figures of the one that fits take, the search ends with that one.
 * `first`: the one to play first, as foreseen; below `bad`, which is known not to fit; 0: nothing is known. */
MUST_CHECK enum err_code probe_largest(const struct probe *p, uint32_t first, uint32_t bad, struct largest_fit *ret);

/* Events to be kept for what is told of it. */
uint64_t probe_reserve(const struct largest_fit *f);

/* The largest that was foreseen of a candidate, and how much more one more takes. n below 2: there is none; slope 0: not known. */
struct foreseen_like {
    uint32_t n;
    uint64_t slope_bytes;
};

/* The largest that is foreseen to fit, with room for what the allocator takes beside the live blocks; 0: not even one sequence. `like`: of a candidate that
 * may be like this one, where to look first; then this one's. */
MUST_CHECK enum err_code probe_foresee_largest(const struct probe *p, struct foreseen_like *like, uint32_t *ret);
/* Whether n is no larger than that. */
MUST_CHECK enum err_code probe_foresee_fits(const struct probe *p, uint32_t n, bool *ret);

/* Two runs of few layers stand for a deep model: layers that alternate stand in both alike, whole periods of kinds and what the model ends with where they
 * come again after more than two. A model below DEEP_ENOUGH is run as it is. */
enum { SHALLOW = 2, DEEP_ENOUGH = 10 };
struct depths {
    uint32_t near, far; /* layers of a stage, behind those that stand before what repeats */
};

bool probe_may_be_shallow(const struct probe *p);
struct depths probe_depths(const struct probe *p);
uint32_t probe_layers(const struct probe *p); /* of a stage, that repeat */

/* Stages that share the layers. */
static inline uint32_t probe_stages(const struct probe *p)
{
    return p->step->r.pipeline_parallel ? p->step->r.pipeline_parallel : 1;
}

/* The same probe of the model with so many layers on each stage, behind those that stand before what repeats. */
struct shallow {
    struct arch few;
    struct plan_question q;
    struct probe probe;
};
void probe_shallow(const struct probe *p, uint32_t layers, struct shallow *ret);

/* What models of few layers foretell of the walk: for proposals, and for advice that is far from the budget. */
MUST_CHECK enum err_code probe_foresee(const struct probe *p, uint32_t n, struct measured *ret);

/* A figure of the whole depth from those of either depth. */
double probe_along(struct depths at, double near, double far, uint32_t layers);

/* Bytes that may be reserved: the context and NCCL taken off; and what is taken off. */
uint64_t probe_budget(const struct probe *p);
uint64_t probe_beside(const struct probe *p);

#endif
