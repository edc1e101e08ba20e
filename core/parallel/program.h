/*
 * program.h - the program of a distributed method: how a declared model comes to one rank's device, and what is done around each part of a step.
 *
 * Purpose   train/ drives the same loop for every method and asks the method's program at these places. A program is a file here and a row in
 *           methods.def; it hangs hooks (torch/hooks.h) on modules of the declared tree, found by role, and knows no family.
 * Order     wrap() once, in place of model.to(device). A micro-step: begin_micro_step(), pre_forward(), the model, post_forward(), backward. After the
 *           last: clip, optimizer. An engine (DeepSpeed) has a backward and a step of its own, and ends every micro-step.
 * Units     bytes and elements as named.
 * Errors    run_fail() on the run.
 * Owner     what a program makes lives in the run's arena.
 */
#ifndef PARALLEL_PROGRAM_H
#define PARALLEL_PROGRAM_H

#include "parallel/method.h"
#include "torch/module.h"
#include "torch/optim.h"

/* Who is where. world = data_parallel x tensor_parallel x pipeline_parallel; ranks of a tensor-parallel group are neighbours. */
struct layout {
    uint32_t world, rank; /* rank: whose memory is played */
    uint32_t data_parallel, tensor_parallel, pipeline_parallel;
    uint32_t shard_group; /* hybrid sharding: ranks that share one copy; else data_parallel */
    bool hosts;           /* of Muon alone: those of a group are on several */
};

struct ddp_settings {
    uint64_t bucket_bytes, first_bucket_bytes;
    bool find_unused_parameters, bucket_view;
};

struct fsdp_settings {
    enum fsdp_wrap wrap;
    enum fsdp_prefetch backward_prefetch;
    bool forward_prefetch, use_orig_params, limit_all_gathers;
    enum dtype reduce_dtype;
};

/* deepspeed runtime/zero/config.py; elements of the engine's dtype */
enum { ZERO12_RANKS = 8 }; /* up to so many are played one and all under ZeRO-1 and 2; of more, so many and the owners of the largest tensors */
enum { ZERO_PREFETCH_ELEMS = 50000000, ZERO_PERSISTENCE_ELEMS = 100000 }; /* its defaults */
struct zero_settings {
    uint64_t reduce_elems, allgather_elems, prefetch_elems, max_live_elems, reuse_elems, sub_group_elems, persistence_elems;
    bool overlap_comm, zero_init, round_robin;
};

struct parallel_options {
    enum method method;
    struct layout at;
    bool plain; /* a loop over torch alone; else the Trainer's */
    bool mixed; /* what is trained is in fp32, computed in `compute` */
    enum dtype compute;
    bool checkpointing, reentrant;
    bool adapters; /* the base is frozen */
    bool upcasts; /* accelerate holds in fp32 what FSDP1 has flattened in half and trains */
    bool inputs_want_grad; /* a hook on the embeddings has their output want a gradient: enable_input_require_grads() */
    bool quantised; /* packed weights stand whole on the device before a method takes them */
    bool counts_items; /* forward is handed the number of labels that count, an fp32 scalar on the device */
    uint32_t gradient_accumulation_steps;
    bool sync_each_batch;
    double max_grad_norm; /* 0: no clipping */
    enum optim_kind optimizer;
    bool paged; /* its large states lie in managed memory */
    enum offload offload;
    struct ddp_settings ddp;
    struct fsdp_settings fsdp;
    struct zero_settings zero;
};

/* What the optimizer trains, in the order in which it is handed over. */
struct leaves {
    uint32_t n, max;
    val *leaf;
    uint8_t *group; /* of the optimizer */
};

/* A declared model on its way to the device. */
struct wrapping {
    struct run *r;
    struct tree *tree;
    struct module *embeddings, *head, *layers; /* layers: the list of decoder layers */
    const struct parallel_options *o;
    struct leaves leaves;
    void (*place)(struct wrapping *w); /* the whole model on the device, adapters included: train's own */
    void *of;                          /* of place() */
};

/* A leaf that the optimizer trains: require_grad() and its node are made here. */
void wrapping_train(struct wrapping *w, val leaf, unsigned group);
/* Every trained parameter, in the order of named_parameters(): its shard where it has one. */
void wrapping_train_all(struct wrapping *w);

/* module.half() of a model on the device: parameters and buffers of each module, in the compute dtype. wrapping_cast() does one of them. */
void wrapping_half(struct wrapping *w);
void wrapping_cast(struct wrapping *w, struct param *p);
void wrapping_retie(struct wrapping *w); /* tied parameters take what they are tied to again */

struct method_program {
    const char *source;
    void *(*wrap)(struct wrapping *w);             /* NULL when the run has failed */
    /* A model beside it that is only asked: TRL's prepare_deepspeed() and prepare_fsdp(), before wrap(). Then pre_forward() and post_forward() are called of
     * what it returns, too. NULL: such a model stands whole on each GPU. */
    void *(*refer)(struct wrapping *w);
    void (*begin_micro_step)(void *of, bool sync); /* sync: gradients are reduced after it */
    void (*pre_forward)(void *of);
    val (*items)(const void *of); /* num_items_in_batch as the wrapper cast it for this forward, 0 where it does not; NULL: it never does */
    void (*post_forward)(void *of, uint32_t n,
                         val *outputs);     /* loss, logits, then the cache where it is a tuple, the rest; may put others in their place */
    val (*clip)(void *of, double max_norm); /* returns the norm, owned; NULL: clip_grad_norm_ over the leaves */
    void (*optimizer_step)(void *of, struct optim *optim); /* NULL: the optimizer's own */
    void (*zero_grad)(void *of);                           /* NULL: every leaf's gradient becomes None */
    /* of an engine; NULL: none */
    void (*backward)(void *of, val loss);
    void (*end_micro_step)(void *of, bool boundary); /* engine.step(): at the boundary it clips, updates, clears */
    void (*prepare)(void *of);                       /* makes the optimizer states that the first step would */
    void (*leave)(void *of);                         /* and what else of it stays; NULL: nothing */
    uint64_t (*host_bytes)(const void *of);          /* that offload holds on the host between two steps, of this rank */
    uint64_t (*host_bytes_of_all)(const void *of);   /* of all ranks together; NULL: each holds as much */
    /* Ranks whose memory may be the highest, for a declared model; NULL: all are alike, rank 0 stands for them. At most `max`. */
    uint32_t (*ranks)(const struct parallel_options *o, const struct tree *tree, uint32_t max, uint32_t *ret);
    bool cuts_layers;          /* shares, buckets or windows end inside layers: figures lie on no line over the depth (train/fold.h) */
    bool first_is_highest; /* the first of ranks() is the highest as a rule: walks look at it alone, replays at all */
    bool records_streams;  /* record_stream(): blocks may outlive their last owner */
    uint32_t steps; /* until figures repeat; 0: two */
    bool learns_order; /* in its first step, by which the second reads ahead: neither memory nor time of the first is the others' */
};

#endif
