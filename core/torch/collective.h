/*
 * collective.h - collectives that autograd knows: what a layout of DTensor makes of a tensor on its way between the ranks of a group.
 *
 * Purpose   an operator for each change of layout that tensor parallelism needs, with the blocks that its forward and its backward hold.
 * Source    torch/distributed/tensor/_redistribute.py, placement_types.py (Shard._to_replicate_tensor, _replicate_to_shard, Partial._reduce_value),
 *           _api.py from_local, distributed/_functional_collectives.py 2.15: the functional all-reduce works on a clone.
 * Models    rank 0's part, the largest where the group does not divide a dimension.
 */
#ifndef TORCH_COLLECTIVE_H
#define TORCH_COLLECTIVE_H

#include "torch/run.h"
#include "torch/work.h"

/* Replicate, and each rank's gradient is a part of the sum: the same tensor, backward is an all-reduce. */
val sum_gradient(struct run *r, val x, struct work_group g);
/* Partial to Replicate: a clone that is reduced in place; backward hands the gradient on. */
val sum_over_ranks(struct run *r, val x, struct work_group g);
/* The clone alone, unseen by autograd. */
val reduced_clone(struct run *r, val x, struct work_group g);
/* Shard(-1) to Replicate, `width` columns: gathered along the first dimension, then cut and put side by side; backward copies this rank's columns. */
val gather_columns(struct run *r, val x, int64_t width, struct work_group g);


/*
 * c10d's lists of tensors (torch 2.0 csrc/distributed/c10d/ProcessGroupNCCL.cpp allgather, reduce_scatter): a flat tensor beside them, which NCCL's stream
 * reads until it has copied; who calls waits at once. `elems` of the whole.
 */
void list_collective(struct run *r, enum collective what, enum dtype dtype, int64_t elems, struct work_group g);
/* all_reduce of a tensor in its own place; NCCL's stream reads it. */
void all_reduce_in_place(struct run *r, val v, struct work_group g);
/* Colossal-AI's change of layout along the last dimension: Replicate to Shard, a clone, whose gradient is gathered; and the other way round. */
val shard_columns(struct run *r, val x, struct work_group g);
val gather_list(struct run *r, val x, struct work_group g);
/* The inverse of that: a copy of this rank's columns; backward gathers the gradient. */
val take_columns(struct run *r, val x, struct work_group g);

/* _AllReduceBackward, _AllReduceForward of transformers/distributed/parallel_utils.py 5.23: the same tensor, whose gradient is reduced where it lies (a copy
 * of one that is not contiguous); the same tensor, reduced where it lies, whose gradient is handed on. */
val sum_gradient_in_place(struct run *r, val x, struct work_group g);
val sum_in_place(struct run *r, val x, struct work_group g);
/* DTensor.to_local(): `x` itself where nothing wants a gradient of it, else an alias, a temporary. */
val to_local(struct run *r, val x);

#endif
