/*
 * autograd.h - what ops and formulas share: nodes, what they save, gradients. Included by core/torch only.
 */
#ifndef TORCH_AUTOGRAD_H
#define TORCH_AUTOGRAD_H

#include "torch/ops.h"
#include "torch/run.h"

#define SAVED_PACKED UINT32_C(0x80000000)

/* A formula runs one node's backward. Temporaries of a C++ full expression die together, the last first. */
struct back {
    struct run *r;
    uint32_t node;
    val grad[MAX_OUTPUTS];  /* of the forward's outputs; 0: undefined */
    val out[MAX_EDGES];     /* of its inputs */
    val saved[MAX_SAVED];   /* in the order in which they were saved; unpacked before the formula runs */
    val temp[12];
    int n_temps;
};
typedef void (*formula)(struct back *b);

#define OP(id, aten, node, saves, backward, autocast, work, source) void backward(struct back *b);
#include "torch/ops.def"
#undef OP

bool wants_grad(const struct run *r, val v);

/* Python holds an operator's arguments until it returns: composites pin temporaries for as long. */
struct pins {
    val held[4];
    int n;
};
static inline void pin(struct run *r, struct pins *p, val v)
{
    if (v && r->values[v].floating) {
        r->values[v].floating = false;
        p->held[p->n++] = v;
    }
}
static inline void unpin(struct run *r, struct pins *p)
{
    for (int i = 0; i < p->n; i++)
        value_unref(r, p->held[i]);
}

/* autocast_mode.cpp cached_cast; the argument itself where nothing is cast. What they make is a temporary. */
val autocast_half(struct run *r, val v);
val autocast_full(struct run *r, val v);

/* Makes the node of `op` when an input wants a gradient; 0 otherwise. Edge k is input k. Inputs are saved before the kernel
 * runs, as generated code does; attach_output() ties the result to it. */
uint32_t attach(struct run *r, enum op op, int n_in, const val *in);
void attach_output(struct run *r, uint32_t node, val out, int nr);
void meta_of(struct run *r, uint32_t node, int edge, val in);
void save(struct run *r, uint32_t node, val v);        /* an input, or what the kernel made beside its result */
void save_result(struct run *r, uint32_t node, val v);
void pin_leaf(struct run *r, val leaf);
enum { MAX_ROOTS = 2 };
void run_graph(struct run *r, int n, const val *outputs, const val *gradients); /* torch.autograd.backward(outputs, gradients) */

/* Kernels without graph and without taking their arguments: for formulas and the engine. Results float. */
val pointwise(struct run *r, enum op op, enum dtype dtype, int n, const val *in);
val add_like(struct run *r, val a, val b);
val cast_copy(struct run *r, val v, enum dtype dtype);
val sum_to(struct run *r, val v, val like);
val view_as(struct run *r, val v, int ndim, const int64_t *size); /* reshape: a view, or a contiguous clone */
val transposed(struct run *r, val v, int d0, int d1);
val mm_raw(struct run *r, val a, val b);
val bmm_raw(struct run *r, val a, val b);

/* Scratch of cub's single-pass algorithms over n: a state of 16 bytes for each tile and a warp more; of DeviceScan over int64. */
int64_t cub_states_bytes(int64_t n, int64_t tile, unsigned element); /* a status and an element for each tile */
int64_t cub_scan_bytes(const struct run *r, int64_t n, unsigned element);

#endif
