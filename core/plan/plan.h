/*
 * plan.h - which ways of training fit on this GPU, with which batch, and which of them first.
 *
 * Purpose   a question (what is fixed, and axes of what may vary) becomes ranked candidates: each resolved, its largest
 *           micro-batch searched, judged by the replay, with a reason and the nearest change where it does not fit.
 * Search    models of few layers foretell each candidate's largest micro-batch and its time, and rank them; the first is then played until one stands:
 *           n is its largest when the replay of n fits and that of n + 1 does not, or its live blocks alone exceed the budget. An asked micro-batch is judged
 *           by itself: what else fits is searched only where it does not, for the advice, or where the question says so.
 * Basis     replayed: played on the allocator's model: the recommendation, and all where there are few. bounded: live blocks only, between low and high,
 *           at the foreseen micro-batch, which leaves the allocator room.
 * Fits      reserved + context + NCCL within capacity - margin * capacity on every rank; else a replay at that capacity decides, and of what fits
 *           so its figures are told: whatever fits, no figure of it is above that. Of a stack with two readings both have to.
 * Speed     each modelled candidate has a step time, fits or not; of a searched one the micro-batch is the fastest, see pace.h.
 * Models    the methods of parallel/methods.def that have a program. A known word without one keeps its candidate: modelled = false, with a reason and no
 *           figures. Offload that nobody asked for is tried where a candidate does not fit without; sync_each_batch, unasked, where gradients would wait
 *           whole for the last micro-batch of an accumulation; neither where a micro-batch is asked.
 * Advice    what was tried and fits, see advise.c: of each loser, and of the whole. It may take a quarter of the work that the rest took.
 * Work      counted in the budget of `scratch` (base/budget.h). Where it ends, so does the planning: what was looked at until then is answered, the
 *           rest has the reason `budget`. Foretelling may take half of it, so that what it finds best is looked at closer; that comes first.
 * Errors    ERR_NOMEM; ERR_CANCELLED; what train_resolve refuses of an asked option. Not fitting is a result.
 * Owner     the answer lives in `keep`; `scratch` is empty again afterwards.
 */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include "base/arena.h"
#include "base/err.h"
#include "perf/perf.h"
#include "train/measure.h"
#include "train/recipe.h"

#include <string.h>

#include <stdbool.h>
#include <stdint.h>

/* Of candidates, and of those that run; lists that ask for more are refused before any of them is. */
enum { PLAN_MAX_CANDIDATES = 256, PLAN_MAX_MEASURED = 128, PLAN_MAX_MICRO_BATCH = 65536 };

enum { PLAN_UNMODELLED = -1 };

/* Remainders of blocks that the allocator does not split, as a share of the peak: 2.6 % at most in all traces of one GPU that were seen, 4.7 % of several
 * (small shards: TinyLlama over 8 GPUs of tensor parallelism). tests/data/accuracy, block_slack. Empirical. */
#define PLAN_LARGEST_REMAINDER 0.048

enum { PLAN_REPLAY_ALL = 8 }; /* with at most so many candidates that have a model all are replayed */

/* One word that an axis may take: the enum of recipe.h it means, or PLAN_UNMODELLED. */
struct plan_choice {
    const char *name;
    int value;
};

enum plan_axis_name {
    AXIS_METHOD,
    AXIS_TUNING,
    AXIS_OFFLOAD,
    AXIS_PRECISION,
    AXIS_OPTIMIZER,
    AXIS_ATTENTION,
    AXIS_LOSS,
    AXIS_CHECKPOINTING, /* enum tri, enum checkpoint_kind */
    AXIS_COUNT
};

struct plan_axis {
    const struct plan_choice *choices;
    uint32_t n; /* >= 1 */
    bool asked;
};

enum objective { OBJECTIVE_FASTEST, OBJECTIVE_LEAST_MEMORY, OBJECTIVE_FEWEST_GPUS, OBJECTIVE_LONGEST_SEQUENCE, OBJECTIVE_COUNT };

/* More of these GPUs, or others: from the nearest on. false of `alternative`: there are no more. */
struct plan_alternative {
    const char *gpu; /* NULL: the same */
    uint32_t gpus, gpus_per_node;
    struct device device;
    struct perf_system system;
    bool is_timed; /* `system` is known */
    bool at_any_rate; /* with adapters and one sequence, whatever was asked: where else there is no way out */
    uint64_t capacity_bytes;
};

struct plan_question {
    const struct arch *arch;   /* NULL: nothing is modelled, `gap` says why */
    const char *gap;           /* a part of the request without a model; NULL: there is none */
    const char *adapter_gap;   /* the same, of candidates with adapters alone */
    bool undated;              /* the asked stack lies where a change cannot be dated: low..high spans both readings */
    struct device device;
    uint32_t gpus;                    /* of the cluster: a method of several takes them all */
    uint32_t gpus_per_node;           /* 0: all in one node */
    uint64_t host_memory_bytes_per_node; /* 0: not known, offload is judged on the GPU alone */
    const struct perf_system *system; /* NULL: nothing gives its rates, candidates have no times */
    uint64_t capacity_bytes;          /* the smaller of what the GPU has and what is free on it */
    double margin;                    /* fraction of it that stays free */
    bool expandable_segments;
    enum objective objective;
    bool (*launches)(const struct step *step); /* whether a launcher starts it; NULL: all */
    struct recipe recipe;              /* what no axis varies; micro_batch_size 0: searched */
    bool largest;                      /* search the largest micro-batch although one is asked */
    uint32_t global_batch_size;        /* 0: left out */
    const uint32_t *method_degrees;    /* tensor-parallel degree of each choice of AXIS_METHOD, 0: as the recipe says; NULL: all so */
    bool (*alternative)(void *of, uint32_t i, struct plan_alternative *ret); /* i-th other cluster to try where nothing fits; NULL: none */
    void *alternative_of;
    struct plan_axis axes[AXIS_COUNT]; /* unasked tuning: tried in this order until one fits that can be launched */
};

/* What was tried and fits; 0, NULL and TRI_UNSET: stays as it is. */
struct plan_nearest {
    const char *method, *tuning, *offload, *precision, *optimizer, *attention;
    enum tri gradient_checkpointing, sync_each_batch;
    uint32_t micro_batch_size, seq_len_tokens, tensor_parallel;
    const char *target_modules; /* adapters where peft has no default for the type */
    bool expandable_segments;
    const char *gpu;
    uint32_t gpus, gpus_per_node; /* gpus 0: as many as there are */
};

/* A change of the first candidate, with what it comes to: peak by live blocks, or as the candidate that it is was told. */
enum { PLAN_ADVICE_MAX = 6 };
struct plan_advice {
    struct plan_nearest change;
    uint64_t peak_bytes, capacity_bytes;
    int64_t saves_bytes;  /* of the first candidate's peak; negative: it takes more */
    struct step_time time; /* tokens_per_s 0: not known */
};

struct plan_reason {
    const char *code; /* NULL: none. Slugs of openapi.yaml: "does-not-fit", "not-modelled", ... */
    const char *detail;
    const char *file, *construct; /* of modelling code: where it ends and what stands there; NULL: nothing of it */
    unsigned line;
    struct plan_nearest nearest;
};

static inline bool reason_is(const struct plan_reason *r, enum err_code code)
{
    return r->code && !strcmp(r->code, err_slug(code));
}

enum basis { BASIS_NONE, BASIS_BOUNDED, BASIS_REPLAYED };

/* Where ranks differ: the peaks of each at the micro-batches that were foreseen last, of the whole model and of the two shallow ones. For the
 * planner itself. */
enum { PLAN_RANKS_TRIED = 4 };
enum plan_depth { PLAN_WHOLE, PLAN_NEAR, PLAN_FAR, PLAN_DEPTHS };
struct plan_ranks {
    uint32_t n; /* tried in all: the last of them are kept */
    struct {
        uint32_t micro_batch_size;
        uint64_t bytes[PLAN_DEPTHS][RANKS_TOLD];
    } tried[PLAN_RANKS_TRIED];
    uint32_t ranks; /* of each; 0: they do not differ */
};

/* The times that were foreseen last of one step at several micro-batches. For the planner itself. */
enum { PLAN_PACES = 4 };
struct plan_paces {
    uint32_t n; /* in all */
    struct {
        uint32_t micro_batch_size;
        struct step_time time;
    } at[PLAN_PACES];
};

struct plan_candidate {
    const struct plan_choice *choice[AXIS_COUNT];
    bool sync_each_batch; /* tried beside the same without, where nobody asked (nor for a micro-batch) and whole gradients would wait for the last one */
    bool modelled;
    struct plan_reason reason;
    /* the rest only when modelled */
    bool fits, tight;
    bool launchable;
    bool room_tried;  /* a tight one: whether a smaller micro-batch leaves room */
    bool retries;     /* it fits because the allocator gives cached segments back and asks again */
    enum basis basis; /* bounded: memory is train_walk()'s, device_bytes is not known */
    struct step step; /* micro_batch_size: as asked, else the one chosen */
    uint32_t max_micro_batch_size;  /* of an asked micro-batch without `largest`: that, where it fits; else one that may be advised */
    uint32_t max_seq_len_tokens; /* of one micro-batch, asked or 1; 0 unless the objective is the longest sequence */
    uint32_t global_batch_size;
    uint64_t device_bytes;          /* reserved + context + NCCL */
    struct step_time time;          /* tokens_per_s 0: not known */
    uint64_t low_bytes, high_bytes; /* peak allocated: both readings of an undated stack; bounded: the remainders too; where streams share blocks, a GPU that
                                       never lags behind the host and one that always does */
    uint64_t host_bytes_per_node;   /* that offload keeps there; where ranks hold different amounts, of the mean node */
    bool dominated;                 /* another one that fits needs no more memory on the GPU and the host, and is no slower */
    struct measured memory;
    struct plan_ranks ranks;
    struct plan_paces paces;
};

struct plan_answer {
    struct plan_candidate *candidates; /* ranked */
    uint32_t n;
    bool any_fits, any_modelled, any_launches; /* any_launches: of those that fit */
    bool any_beyond;                           /* of those without figures: a tensor of theirs is larger than any memory */
    uint32_t n_cut;                            /* candidates that the budget did not reach */
    uint32_t n_left_out;                       /* that nobody asked for (offload, synchronising each batch, another tuning), beyond the limits */
    uint32_t n_outgrown;                       /* those that outgrew the scratch */
    uint32_t n_untried;                        /* changes that were to be tried before they are advised, and outgrew the scratch or the work that is left */
    uint32_t n_advice;                         /* nearest first: where nothing fits what does, else what would save or gain */
    struct plan_advice advice[PLAN_ADVICE_MAX];
};

/* That nothing fits is known only where all were looked at. */
static inline bool plan_saw_all(const struct plan_answer *a)
{
    return !a->n_cut && !a->n_outgrown && !a->n_left_out;
}

MUST_CHECK enum err_code plan_answer(const struct plan_question *q, struct arena *keep, struct arena *scratch, struct plan_answer *ret,
                                     struct err *err);

#endif
