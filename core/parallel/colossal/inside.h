/*
 * inside.h - Colossal-AI's Gemini around a model, as LLMem ran it: the memory of one rank. Included by core/parallel/colossal only.
 *
 * Purpose   parameters lie in chunks of one size, which a search finds: half ones that are computed with, and whose gradients take the weights' place, and
 *           fp32 masters of the same layout. A chunk over several ranks is a shard between two uses: gathered when the first of its parameters is
 *           used, kept so (placement `cuda` evicts nothing), reduced and scattered when the last of its gradients has come.
 *           1-D tensor parallelism cuts every Linear and Embedding along its last dimension; what is not cut lies in chunks of a group of its own.
 * Parts     search.c the size of chunks; chunk.c their lives; linear1d.c the cut; gemini.c the program.
 * Source    colossalai 0.3.0 zero/gemini/{chunk/chunk,chunk/manager,chunk/search_utils,gemini_ddp,gemini_hook,gemini_optimizer,placement_policy}.py,
 *           tensor/{param_op_hook,dist_spec_mgr}.py, nn/_ops/{linear,embedding}.py, nn/optimizer/hybrid_adam.py; as patched and called by
 *           taehokim20/LLMem 3d289b4: search_utils.py keeps chunks of one rank whole, parallel/layers splits inputs, tp_real.py, dp_real.py.
 * Streams   STREAM_GATHER is NCCL's; collectives are waited for at once.
 * Not modelled: placement `cpu` and `auto`, accumulation (gradients take the weights' place), an overflow, 2-D and 2.5-D tensor parallelism.
 * Units     elements of a tensor, bytes as named.
 * Owner     the run's arena.
 */
#ifndef PARALLEL_COLOSSAL_INSIDE_H
#define PARALLEL_COLOSSAL_INSIDE_H

#include "parallel/program.h"
#include "torch/work.h"

enum { COLOSSAL_GROUPS = 2 }; /* what is cut, and what each rank of a tensor-parallel group has whole */

/* Chunks of the parameters that so many ranks share: config_key of register_tensor(). */
struct colossal_group {
    struct work_group ranks; /* ranks.ranks == 0: nobody is in it */
    bool keeps;              /* keep_gathered */
    int64_t chunk_elems;     /* 0: of parameters without a group */
    uint32_t open;           /* the chunk that is being filled, + 1 */
};

struct colossal_param {
    struct param *p;
    int64_t elems, begin; /* begin: in its chunk */
    uint32_t chunk;
    uint8_t group;
    val exp_avg, exp_avg_sq;
};

struct colossal_chunk {
    struct colossal_group *group;
    int64_t elems, used;
    val half, master;              /* cuda_global_chunk of each; that of a shard is empty between its uses */
    val half_shard, master_shard;  /* 0 where the whole stands */
    uint32_t n, ready;             /* parameters; those whose gradient has come */
};

struct colossal {
    struct run *r;
    const struct parallel_options *o;
    enum dtype dtype;
    struct colossal_group groups[COLOSSAL_GROUPS];
    uint32_t n, n_chunks;
    struct colossal_param *params; /* in the order of model.parameters() */
    struct colossal_chunk *chunks;
    uint32_t *index_of; /* by value: parameter + 1 */
    val last_value;
    bool stands, emptied; /* optimizer states; the cache, once */
};

/* search.c: search_chunk_configuration(); fills chunk_elems and `keeps` of the groups */
void colossal_search(struct colossal *c);

/* chunk.c */
void colossal_register(struct colossal *c, uint32_t param);
void colossal_close(struct colossal *c, struct colossal_group *g);
void colossal_access(struct colossal *c, struct colossal_chunk *k);
void colossal_reduce(struct colossal *c, struct colossal_chunk *k);
int64_t colossal_share(const struct colossal_chunk *k); /* elements of it that this rank has */

/* linear1d.c: sizes and forwards become those of one rank's part */
void colossal_cut(struct wrapping *w);
bool colossal_is_cut(const struct module *m, const struct param *p);

#endif
