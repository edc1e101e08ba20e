/*
 * views.h - autograd's views: which tensor one is of, and what a write in place does to both.
 *
 * A view holds its base. A write into either is counted by their storage; where a gradient passes, the base goes on from a CopySlices
 * that runs the writer's formula on a part, and each view, once it is asked, from an AsStridedBackward of the base.
 * Source    torch/csrc/autograd/variable.cpp rebase_history, VariableHooks::grad_fn; functions/tensor.cpp CopySlices::apply_impl;
 *           FunctionsManual.cpp as_strided_backward; VariableTypeUtils.h check_inplace
 * Not modelled: offsets of views: a base is taken to begin where its storage does, and to reach as far as its views.
 */
#ifndef TORCH_VIEWS_H
#define TORCH_VIEWS_H

#include "torch/run.h"

/* How often a storage, or another of its number before it, was written in place, and the sequence number of the last time. */
struct storage_write {
    uint32_t version, at;
};

static inline struct storage_write writes_of(const struct run *r, uint32_t storage)
{
    return storage < r->n_writes ? r->writes[storage] : (struct storage_write){0};
}

/* The view `v` is of `a`, or of what that is of; told of every view where run.views_known. */
void view_is_of(struct run *r, val v, val a);

/* The history of `v` once a view of a tensor that was written is made anew; 0: it has none. */
void view_renews(struct run *r, val v);
static inline uint32_t grad_fn(struct run *r, val v)
{
    const struct value *x = &r->values[v];

    if (r->wrote && x->base && x->version != writes_of(r, x->storage).version)
        view_renews(r, v);
    return x->node;
}

/* check_inplace(): may `v` be written where a gradient passes? false: the run has failed as PyTorch raises. */
bool check_in_place(struct run *r, val v);
/* `v` has been written; `writer`, the operator's result on its storage, hands on its node. 0, or `v` itself: no gradient passes. */
void rebase_history(struct run *r, val v, val writer);
/* Whether `v`, which was saved at that sequence number, has been written since: saved_variable.cpp's RuntimeError, the run has failed. */
bool written_since(struct run *r, uint64_t sequence, val v);

val copy_in_place(struct run *r, val a, val from);            /* a.copy_(from) */
val fill_in_place(struct run *r, val a);                      /* a.fill_(number), a.zero_() */
val write_in_place(struct run *r, enum op op, val a, val b);  /* a op= b for OP_ADD, OP_SUB, OP_MUL, OP_DIV; b 0: a number */
val unary_in_place(struct run *r, enum op op, val a, double p); /* a.exp_(), a.relu_() ..; p: the exponent of a.pow_(p) */
val clamp_in_place(struct run *r, val a, bool min, bool max); /* which of them are given */

#endif
