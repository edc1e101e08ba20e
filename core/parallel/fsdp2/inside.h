/*
 * inside.h - torch.distributed.fsdp.fully_shard over a declared model: what its files share, and what another program calls.
 *
 * Purpose   every parameter is cut along its first dimension; a unit (a module, or a few, and what of it no other unit has) is gathered
 *           before it runs and reduced when its backward has passed. Each term is a storage that is born and dies where fully_shard has it.
 * Order     fsdp2_wrap() in place of model.to(device), after the tree's parameters have the sizes that shall be cut; then as program.h says.
 * Names     are those of torch/distributed/fsdp/_fully_shard: state = FSDPState, group = FSDPParamGroup. Here both are a `unit`: one call
 *           of fully_shard makes one state with one group at most.
 * Source    torch/distributed/fsdp/_fully_shard/{_fully_shard,_fsdp_state,_fsdp_param_group,_fsdp_collectives,_fsdp_param,_fsdp_init}.py,
 *           torch 2.15.
 * Files     fsdp2.c the program and its hooks; fsdp2_units.c which module is in which unit; fsdp2_place.c shards on the device;
 *           fsdp2_group.c gather and release; fsdp2_reduce.c gradients; fsdp2_copies.c the scratch of the fused copies.
 * Not modelled: shards along another dimension, meshes for single parameters, reshard_after_forward to a smaller world, symmetric
 *           memory, gradient reduction by hand (manual_backward_finalization), tensor subclasses with gather hooks.
 * Errors    ERR_FIELD_CONFLICT for a release without fully_shard, and offload of the optimizer alone.
 * Owner     the tree's arena.
 */
#ifndef PARALLEL_FSDP2_INSIDE_H
#define PARALLEL_FSDP2_INSIDE_H

#include "parallel/program.h"
#include "torch/work.h"

enum { FSDP2_MODULES = 3, FSDP2_TURNS = 4 };

/* TrainingState */
enum fsdp2_state { FSDP2_IDLE, FSDP2_FORWARD, FSDP2_PRE_BACKWARD, FSDP2_POST_BACKWARD };

struct fsdp2_param {
    struct param *declared;
    val gathered;               /* a leaf: its storage comes and goes; 0 until it is gathered for the first time */
    val accumulated;            /* unsharded_accumulated_grad, before torch 2.15 */
    int64_t shard_elems;        /* of each rank, padding included; those of rank 0 need none */
    enum dtype stored, compute; /* compute: what is gathered, orig_dtype where the policy names none */
    bool widens;                /* its gradient is left in `compute` and reduced in a wider dtype */
    bool host_gradient;         /* under offload: its gradient waits on the host */
};

struct fsdp2_unit {
    struct fsdp2 *all;
    struct module *modules[FSDP2_MODULES];
    struct fsdp2_param *params;
    uint32_t n_modules, n_params;
    uint32_t to_run; /* bits of modules: those of a grouped unit that this forward still has to run */
    enum fsdp2_state state, group_state;
    bool sharded, reshards; /* reshards: reshard_after_forward */
    bool bytes;             /* parameters of several dtypes are gathered as bytes */
    bool pending;           /* _all_gather_result: gathered, not yet copied out */
    val result;
    uint32_t gather;                      /* its message */
    val all_reduced;                      /* _all_reduce_state */
    uint32_t turns[FSDP2_TURNS], n_turns; /* _post_forward_indices */
    struct fsdp2_unit *next_forward;      /* set_modules_to_forward_prefetch() */
};

struct fsdp2 {
    struct run *r;
    struct tree *tree;
    uint32_t ranks, copies; /* that share a copy; copies (hsdp2), which are reduced over */
    bool hybrid; /* of a mesh of two dimensions, be there one copy alone */
    uint32_t stride;        /* between the ranks of a copy */
    bool hosts;             /* its ranks are on several: asked of Muon alone */
    bool mixed, offload;
    bool beside; /* it is only asked: no backward, no optimizer */
    enum dtype compute, reduce;
    uint32_t n_units;
    struct fsdp2_unit *units;  /* as named_modules() meets them: the root is the first */
    struct fsdp2_unit **order; /* post_forward_order */
    uint32_t n_order;
    struct param **tied; /* that have no storage of their own */
    uint32_t n_tied;
    struct fsdp2_unit **of;            /* by module number: the unit that it begins; NULL: it is in that of the one above */
    val kept;                          /* all_gather_state: the last buffer, until the next copy-in */
    val reduce_input;                  /* reduce_scatter_states: one at most */
    uint32_t reduction, all_reduction; /* the last messages */
    struct fsdp2_unit *forward_root;
    bool queued, sync;
    bool casts_items; /* the root casts each float argument: the number of labels is one */
    val items;
    uint64_t host_bytes, trained_host_bytes; /* under offload: shards and two states; shards of what is trained */
};

/* ---- the program, as another one calls it. wrap: NULL when the run has failed. */
void *fsdp2_wrap(struct wrapping *w);
void fsdp2_begin_micro_step(void *of, bool sync);
void fsdp2_pre_forward(void *of);
val fsdp2_items(const void *of);
void fsdp2_post_forward(void *of, uint32_t n, val *outputs);
void fsdp2_optimizer_step(void *of, struct optim *optim);
uint64_t fsdp2_host_bytes(const void *of);

/* ---- fsdp2_units.c */
static inline struct fsdp2_unit *fsdp2_unit_of(const struct fsdp2 *f, const struct module *m)
{
    return f->of[m->number];
}
bool fsdp2_make_units(struct fsdp2 *f, struct wrapping *w); /* false: the run has failed */
/* From the order of the calls to that of named_modules(); after the shards are placed. */
void fsdp2_order(struct fsdp2 *f, const struct wrapping *w);

/* ---- fsdp2_place.c: shards and buffers on the device, or shards on the host */
void fsdp2_place(struct fsdp2 *f, struct wrapping *w);

/* ---- fsdp2_group.c */
void fsdp2_unshard(struct fsdp2_unit *u, enum fsdp2_state as); /* as: of _prefetch_unshard, else the unit's own */
void fsdp2_wait(struct fsdp2_unit *u);
void fsdp2_reshard(struct fsdp2_unit *u);
void fsdp2_release_kept(struct fsdp2 *f);
void fsdp2_pre_backward(struct fsdp2_unit *u);

/* ---- fsdp2_reduce.c */
void fsdp2_gradient_dtypes(struct fsdp2_unit *u, bool defer);
void fsdp2_post_backward(struct fsdp2_unit *u);
void fsdp2_end_backward(struct fsdp2 *f);

/* ---- fsdp2_copies.c: bytes of the tables that a fused copy uploads */
uint64_t fsdp2_split_table_bytes(const struct run *r, const struct fsdp2_unit *u); /* split_with_sizes_copy */
struct fsdp2_chunks {
    uint64_t longs;
};
void fsdp2_chunk(struct fsdp2_chunks *c, uint64_t chunk_bytes); /* one tensor of _chunk_cat: its chunk in the output's dtype */
uint64_t fsdp2_chunk_table_bytes(const struct fsdp2_chunks *c);

#endif
