/*
 * inside3.h - DeepSpeed's engine with ZeRO stage 3: what its parts share. Included by core/parallel/zero3*.c only.
 *
 * Purpose   every parameter is cut into equal shards over the ranks; a module's parameters are gathered before it runs and released
 *           after. The order in which modules run is recorded once and then read ahead. Gradients are copied into one bucket, which is
 *           reduced when the next would not fit, and the rank's part of each is kept in one flat buffer until the step.
 * Parts     zero3.c flat buffers; zero3_index.c numbers; zero3_trace.c what was recorded; zero3_gather.c handles of gathers;
 *           zero3_fetch.c fetch, prefetch, release; zero3_hooks.c hooks and backward; zero3_reduce.c the bucket; zero3_step.c the step.
 * Source    deepspeed 0.14.2 and 0.19.8: runtime/zero/{stage3,parameter_offload,partitioned_param_coordinator,partition_parameters}.py,
 *           runtime/comm/coalesced_collectives.py, runtime/engine.py.
 * Streams   gathers are born on STREAM_GATHER and the bucket's copies on STREAM_REDUCE where overlap_comm; else all on the compute stream.
 * Not modelled: NVMe, hpZ, quantised weights or gradients, leaf modules that a file names, MiCS, several data types; external parameters but ties, peft's,
 *           convolutions and those that a fused loss reads; a host that waits for the stream of the gathers, which itself waits for no other; a model that
 *           zero.Init builds in shards comes whole here (its start, not its steps).
 * Units     elements of the engine's data type, bytes as named. Parameters are numbered in the order of named_parameters(), as their ds_id.
 * Owner     the run's arena.
 */
#ifndef PARALLEL_ZERO_INSIDE3_H
#define PARALLEL_ZERO_INSIDE3_H

#include "parallel/zero/zero_common.h"
#include "torch/hooks.h"

enum zero3_status { ZERO3_ABSENT, ZERO3_INFLIGHT, ZERO3_AVAILABLE };
enum zero3_trace { ZERO3_TRACE_INVALID, ZERO3_TRACE_RECORD, ZERO3_TRACE_COMPLETE };
enum {
    ZERO3_USERS = 6,
    ZERO3_AHEAD = 2 /* max_param_reduce_events, __max_ongoing_fetch_events */,
    ZERO3_WRAPPERS = 2,
    ZERO3_NONE = UINT32_MAX
};

struct zero3_param {
    struct param *p;
    val value; /* the Parameter; its data comes and goes */
    val shard; /* ds_tensor: of its own where it is frozen, else 0, a part of the flat buffer */
    int64_t elems, shard_elems;
    int64_t fetched_for;          /* __most_recent_step_id_param_fetched_for */
    uint32_t gather, next;        /* its handle in the registry of those in flight, ZERO3_NONE; the next of that handle */
    uint32_t first_use, n_uses;   /* in zero3.uses: steps of the trace */
    uint32_t active[ZERO3_USERS]; /* ds_active_sub_modules */
    uint32_t stamp, whole;        /* whole: the leaf module whose it is, 0: none */
    uint32_t held;                /* by whom its value was held when it was fetched */
    uint8_t n_active, status;
    bool persistent, trained;
};

/* An all-gather that somebody still waits for; the buffer lives until each of its parameters was picked up. */
struct zero3_gather {
    val flat;
    uint32_t first, left, message;
    bool complete, coalesced;
};

struct zero3;

/* A module as the coordinator sees it: `of` of its hooks. */
struct zero3_module {
    struct zero3 *z;
    uint32_t number, first, n; /* its parameters in zero3.of_module, those of others that it reads among them */
    uint32_t room;             /* for how many */
    const struct module *whole; /* a leaf of ZeRO-3: what is below is its, and has no hooks; NULL: none */
    int32_t grads_remaining;
    uint32_t recomputed;    /* ds_recompute_parameters: a list in zero3.links; ZERO3_NONE */
    uint32_t before, after; /* of those in backward, by their order; `running` */
    uint32_t verdicts;      /* a list in zero3.verdicts; ZERO3_NONE */
    bool running;
};

struct zero3_link {
    uint32_t param, next;
};

/* A piece of the optimizer's work: fp32 weights of the shards of some parameters. */
struct zero3_sub_group {
    struct optim optim;
    struct optim_state state;
    val master; /* 0: on the host */
    val norm; /* while a step runs */
    int64_t elems;
    uint32_t first, n; /* in zero3.trained */
    uint8_t group;
};

struct zero3 {
    struct run *r;
    const struct parallel_options *o;
    uint32_t ranks;
    enum dtype dtype;
    bool offload, offload_params;
    uint8_t gather_stream, reduce_stream;

    uint32_t n, n_modules, n_trained;
    uint32_t n_wrappers; /* of peft around the model, outermost first: they stand behind the modules, and have no parameters of their own */
    struct zero3_param *params;
    struct zero3_module *modules; /* by number */
    uint32_t *of_module, n_indexed;
    uint32_t *trained; /* by sub-group */
    uint32_t n_sub_groups;
    struct zero3_sub_group *sub_groups;
    uint32_t *index_of; /* by value: parameter + 1 */
    val last_value;

    /* the coordinator */
    uint8_t trace;
    int64_t step, available_elems;
    uint32_t n_order, max_order, n_queue, queue_at, stamp;
    uint32_t *order; /* modules, as they ran */
    int64_t *passed; /* elements of all modules before a step */
    int64_t *below;  /* elements of a module and of all below it */
    struct zero3_use {
        uint32_t param;
        uint32_t step;
    } * queue;
    uint32_t *uses, max_uses;
    struct zero3_verdict { /* __params_to_release of a module at a step */
        int64_t step;
        uint32_t next, first; /* in zero3.goes, a parameter each */
    } * verdicts;
    bool *goes;
    uint32_t n_verdicts, n_goes;
    struct zero3_gather *gathers;
    uint32_t n_gathers, free_gather;
    uint32_t fetched[ZERO3_AHEAD + 1], n_fetched; /* CUDA events of the parameters that were picked up last */
    struct zero3_link *links;
    uint32_t free_link, newest; /* newest: the last module of those in backward */
    uint32_t *list, *sorted;    /* room for every parameter */

    /* the engine */
    struct zero_engine engine;
    val half, gradients, bucket, tracker;
    int64_t bucket_elems;
    struct zero3_reduced {
        uint32_t position, event; /* where the tape stood; the CUDA event */
    } reduced[ZERO3_AHEAD + 1];   /* reductions that nobody has waited for */
    uint32_t n_reduced;
    uint32_t n_bucket, *in_bucket;
    uint32_t micro_step;
    bool boundary;
    val *norms; /* offload: of each parameter's gradient */
    struct module *root, *embeddings;
    struct module **modules_of; /* the tree's, by number */
};

/* zero3_index.c */
bool zero3_number(struct zero3 *z, struct tree *t); /* room for all, and a number for every parameter */
bool zero3_index_values(struct zero3 *z);           /* once they stand on the device */
void zero3_index_modules(struct zero3 *z, const struct tree *t);

/* zero3_trace.c */
bool zero3_trace_room(struct zero3 *z);
void zero3_trace_module(struct zero3 *z, uint32_t module); /* prologue, and the record while it is made */
void zero3_trace_reset(struct zero3 *z);                   /* reset_step */
bool zero3_used_soon(const struct zero3 *z, const struct zero3_param *p);
bool zero3_whole_used_soon(const struct zero3 *z, const struct zero3_module *m); /* of a leaf's parameters: all or none */

/* zero3_gather.c */
void zero3_gather(struct zero3 *z, uint32_t n, uint32_t *list); /* those of them that are absent; sorts the list */
void zero3_arrive(struct zero3 *z, uint32_t param);             /* takes it from the registry */
void zero3_free(struct zero3 *z, struct zero3_param *p);
void zero3_gather_persistent(struct zero3 *z);
void zero3_read(struct zero3 *z, struct zero3_module *m, struct zero3_module *reader); /* looks at its parameters */
void zero3_view(struct zero3 *z, struct zero3_param *p, val of); /* its data becomes a part of what `of` holds */
void zero3_crosses(struct run *r, val v);                        /* record_stream(current_stream) */

/* zero3_fetch.c */
void zero3_fetch(struct zero3 *z, struct zero3_module *m, bool forward);
void zero3_release(struct zero3 *z, struct zero3_module *m, bool forward);
void zero3_release_leftovers(struct zero3 *z);
void zero3_release_all(struct zero3 *z);

/* zero3_hooks.c */
void zero3_hook(struct zero3 *z, struct tree *t);
void zero3_post_forward(void *of, uint32_t n, val *outputs);
void zero3_backward(void *of, val loss);

/* zero3_reduce.c */
void zero3_gradient_ready(void *of, val leaf);
void zero3_reduce_whole(struct zero3 *z, const struct zero3_module *m); /* reduce_leaf_module_grads */
void zero3_reduce_rest(struct zero3 *z); /* independent_gradient_partition_epilogue */

/* zero3_step.c */
void zero3_end_micro_step(void *of, bool boundary);

#endif
