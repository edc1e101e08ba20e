/* masked.c - elements that a mask of truth values chooses (x[mask], masked_scatter; how many they are is the caller's to know), or two lists of places. */
#include "torch/autograd.h"
#include "torch/calls.h"

#include <string.h>

/* TensorAdvancedIndexing.cpp: nonzero() of the mask, an index for each of its dimensions, one gather */
val mask_index(struct run *r, val x, int dim, val mask, int64_t n)
{
    ASKED(r, mask_index, 2, ((const val[]){x, mask}), 2, ((const int64_t[]){n, dim}));
    const int gone = r->values[mask].ndim;
    int64_t size[MAX_DIMS];
    int nd = 0;
    uint32_t node = attach(r, OP_MASK_INDEX, 1, &x), places;
    val out;

    if (run_dead(r))
        return 0;
    if (node) {
        meta_of(r, node, 0, x);
        r->nodes[node].at.i[0] = n;
    }
    save(r, node, mask);
    for (int d = 0; d < r->values[x].ndim; d++)
        if (d == dim)
            size[nd++] = n;
        else if (d < dim || d >= dim + gone)
            size[nd++] = r->values[x].size[d];
    places = scratch_take(r, OP_NONZERO, (uint64_t)(n * 8 * gone), MARK_NONE);
    out = value_empty(r, OP_MASK_INDEX, dtype_of(r, x), nd, size);
    launch(r, OP_MASK_INDEX, out, 1, &mask);
    scratch_give(r, places);
    attach_output(r, node, out, 0);
    consume(r, mask);
    consume(r, x);
    return out;
}

/* A copy of x, whose masked elements are those of the source in their order: the places are a scan of the mask. */
val masked_scatter(struct run *r, val x, val mask, val source, int64_t n)
{
    ASKED(r, masked_scatter, 3, ((const val[]){x, mask, source}), 1, &n);
    const val in[2] = {x, source};
    uint32_t node = attach(r, OP_MASKED_SCATTER, 2, in), places;
    int64_t elems;
    val out;

    if (run_dead(r))
        return 0;
    elems = numel(r, x);
    if (node) {
        meta_of(r, node, 1, source);
        r->nodes[node].at.i[0] = n;
    }
    save(r, node, mask);
    out = value_empty(r, OP_CLONE, dtype_of(r, x), r->values[x].ndim, r->values[x].size);
    places = scratch_take(r, OP_MASKED_SCATTER, (uint64_t)elems * 8, MARK_NONE);
    scratch(r, OP_MASKED_SCATTER, (uint64_t)cub_scan_bytes(r, elems, 8));
    launch(r, OP_MASKED_SCATTER, out, 2, (val[]){source, mask});
    scratch_give(r, places);
    attach_output(r, node, out, 0);
    consume(r, source);
    consume(r, mask);
    consume(r, x);
    return out;
}

/* x[i, j] of two lists as long as each other, or of a list and one number, which is copied as often while the kernel runs (TensorAdvancedIndexing.cpp
 * AdvancedIndex) */
val index_pair(struct run *r, val x, val i, val j)
{
    ASKED_VVV(r, index_pair, x, i, j);
    int64_t size[MAX_DIMS] = {size_of(r, i, 0)};
    int nd = 1;
    uint32_t node = attach(r, OP_INDEX_PAIR, 1, &x);
    val out, spread = 0;

    if (run_dead(r))
        return 0;
    if (node)
        meta_of(r, node, 0, x);
    save(r, node, i);
    save(r, node, j);
    for (int d = 2; d < r->values[x].ndim; d++)
        size[nd++] = r->values[x].size[d];
    if (size_of(r, j, 0) != size[0])
        spread = owned(r, contiguous(r, expand(r, j, 1, size)));
    out = value_empty(r, OP_INDEX_PAIR, dtype_of(r, x), nd, size);
    launch(r, OP_INDEX_PAIR, out, 1, &i);
    attach_output(r, node, out, 0);
    value_unref(r, spread);
    consume(r, j);
    consume(r, i);
    consume(r, x);
    return out;
}
