/*
 * checkpoint.h - torch.utils.checkpoint, reentrant and not.
 *
 * Purpose   checkpoint() runs a layer so that its activations are made again in backward.
 *           Reentrant: forward under no_grad; one node saves the tensor arguments, its backward recomputes and runs a
 *           backward of its own. Not reentrant: forward builds its graph, but what it saves is a handle; the first handle
 *           that is opened runs the layer again, up to the last tensor that was saved (early stop).
 * Lives     positional tensors are saved; what the function closes over (keyword arguments) lives as long as the region.
 * Source    torch/utils/checkpoint.py 2.2 and 2.15.
 */
#ifndef TORCH_CHECKPOINT_H
#define TORCH_CHECKPOINT_H

#include "torch/run.h"

enum { REGION_ARGS = 12, REGION_CLOSED = 6 };

/* Runs the layer on its positional arguments; the result is a temporary. `context` outlives the step. */
typedef val (*region_function)(struct run *r, void *context, const val *args);

struct module;

/* What `context` holds ends with the last that may run it again; NULL: it outlives the step. For the next checkpoint(). */
typedef void (*region_release)(struct run *r, void *context);
void checkpoint_releases(struct run *r, region_release release);
/* What `context` holds of a run in backward, beside the tensors that it gave, ends as CheckpointFunction.backward() returns. */
void checkpoint_returns(struct run *r, region_release returns);

/* `module`: whose __call__ the checkpointed function is; NULL where only its forward is (the caller then enters it once). */
val checkpoint(struct run *r, bool reentrant, struct module *module, region_function run, void *context, int n_args, const val *args,
               int n_closed, const val *closed);

/* Selective (create_selective_checkpoint_contexts), where run.selective was set as the region began: results of the operators on torchtitan's list are kept,
 * but for every second mm, and handed out as the region runs again. Whether the operator that comes is one of them; then region_kept() fills `ret` with
 * what it gave, and says so; else region_keeps() holds what it gave. The caller owns nothing that was not made anew: they are temporaries. */
enum { KEPT_RESULTS = 4 };
bool region_selects(struct run *r, enum op op);
bool region_kept(struct run *r, int n, val *ret);
void region_keeps(struct run *r, uint32_t node, int n, const val *results); /* `node`: that gave them; 0: whose results are read in any case */

/* Used by autograd.c. */
bool region_recomputes(const struct region *region);
bool region_pack(struct run *r, struct region *region, uint32_t *ret_handle); /* false: no room, the run has failed */
void region_keep(struct run *r, struct region *region, val v, bool result); /* of the node that saves it, which comes to it only after */
val region_unpack(struct run *r, struct region *region, uint32_t handle); /* the caller owns it */
void region_drop(struct run *r, struct region *region, uint32_t handle);
void region_ref(struct region *region);
void region_unref(struct run *r, struct region *region);

#endif
