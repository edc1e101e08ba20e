/*
 * optim_dtensor.h - products of matrices that a mesh of one dimension shares, as torch.distributed.tensor runs them: of the layouts that a product offers it
 * takes the one that costs least to get to, and brings the factors there first.
 *
 * Source    torch 2.15 distributed/tensor: _ops/_matrix_ops.py gen_single_dim_einsum_strategies, _ops/single_dim_strategy.py, _sharding_prop.py
 *           _select_min_cost_strategy, _collective_utils.py (its cost of a collective), placement_types.py (what a collective makes).
 * Models    this rank's part where the group divides what is cut. No gradients.
 * Errors    ERR_FIELD_CONFLICT for other sizes.
 */
#ifndef TORCH_OPTIM_DTENSOR_H
#define TORCH_OPTIM_DTENSOR_H

#include "torch/optim.h"

enum placement { PLACED_ROWS, PLACED_COLUMNS, PLACED_WHOLE, PLACED_SUM }; /* Shard(0), Shard(1), Replicate, Partial */

struct dtensor {
    val local; /* owned by who holds it */
    enum placement at;
    int64_t rows, columns; /* of the whole */
};

/* A view, owned. */
struct dtensor dtensor_turned(struct run *r, const struct dtensor *d);
/* This rank's part in another layout, owned; 0 when it lies so. */
val dtensor_moved(struct run *r, const struct optim_mesh *m, const struct dtensor *d, enum placement to);
/* a b, or bias + a b. */
struct dtensor dtensor_product(struct run *r, const struct optim_mesh *m, const struct dtensor *bias, const struct dtensor *a, const struct dtensor *b);

#endif
