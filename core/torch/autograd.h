/*
 * autograd.h - what ops and formulas share: nodes, what they save, gradients. Included by core/torch only.
 */
#ifndef TORCH_AUTOGRAD_H
#define TORCH_AUTOGRAD_H

#include "torch/ops.h"
#include "torch/run.h"
#include "torch/work.h"

static inline int64_t div_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}
static inline int64_t round_up(int64_t n, int64_t m)
{
    return div_up(n, m) * m;
}

#define SAVED_PACKED    UINT32_C(0x80000000)
#define SAVED_OFFLOADED UINT32_C(0x40000000)

/* A formula runs one node's backward. Temporaries of a C++ full expression die together, the last first. */
struct back {
    struct run *r;
    uint32_t node;
    val grad[MAX_OUTPUTS];  /* of the forward's outputs; 0: undefined */
    val *out;               /* of its inputs */
    val few[MAX_EDGES];     /* where they are, unless there are more */
    val saved[MAX_SAVED];   /* in the order in which they were saved; unpacked before the formula runs */
    val temp[12];
    int n_temps;
};
typedef void (*formula)(struct back *b);
void node_gives_saved(struct back *b); /* b->saved is the formula's own from now on, and the node keeps nothing */

#define OP(id, aten, node, saves, backward, autocast, work, source) void backward(struct back *b);
#include "torch/ops.def"
#undef OP

bool wants_grad(const struct run *r, val v);

/* Where the gradient of a node's k-th result waits. */
static inline val *waiting_gradient(struct node *n, int k)
{
    return n->wide ? &n->wide->grad[k] : &n->grad[k];
}
/* Room for the gradients of `n` results: call before the first is attached. */
struct wide *widen(struct run *r, uint32_t node, uint32_t n);

/* ---- the log of work.h, where there is one */
struct attended;
void work_launch(struct run *r, enum op op, val out, int n, const val *in);
void work_product(struct run *r, enum op op, val out, val a, val b, val added);
void work_grouped(struct run *r, enum op op, val out, val a, val b, int64_t groups, int64_t rows, int64_t inner, int64_t columns);
void work_attention(struct run *r, enum op op, const struct attended *a, val q, val k);

static inline void host_call(struct run *r) /* an operator without a kernel, an autograd node */
{
    if (r->work)
        r->work->calls++;
}
static inline void hook_call(struct run *r) /* a hook in Python */
{
    if (r->work)
        r->work->hooks++;
}
static inline void launch(struct run *r, enum op op, val out, int n, const val *in) /* reads `in`, writes `out` */
{
    if (r->work)
        work_launch(r, op, out, n, in);
}
static inline void launch_product(struct run *r, enum op op, val out, val a, val b, val added) /* [batch] rows x inner times inner x columns */
{
    if (r->work)
        work_product(r, op, out, a, b, added);
}
/* softmax(q k') v: how many of what; a causal one computes the lower triangle. Backward is 5 products where forward is 2. */
struct attended {
    int64_t batch, heads, queries, keys, head_dim;
    bool causal;
};
/* flash_3.c: tokens of all sequences where they are one behind another, else 0 */
void flash_3_backward(struct run *r, struct attended a, int64_t kv_heads, int64_t tokens);

static inline void launch_attention(struct run *r, enum op op, struct attended a, val q, val k)
{
    if (r->work)
        work_attention(r, op, &a, q, k);
}
static inline void launch_move(struct run *r, enum op op, uint64_t bytes, uint32_t launches)
{
    if (r->work)
        work_add(r, op, 0, bytes, launches);
}

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

/* autocast_mode.cpp cached_cast: what the operator's row of ops.def says of one argument; itself where nothing is cast. A temporary. */
val autocast_arg(struct run *r, enum op op, val v);
/* The dtype that an operator of class DTYPE is told when its caller names none (DTYPE_COUNT). */
enum dtype autocast_dtype(const struct run *r, enum op op, val v, enum dtype asked);

void writer_runs(struct back *b); /* the formula of what the node is, which unpacks what was saved; and its temporaries end */
void views_renew(struct run *r, int n, const val *v); /* those that were written and are asked for their grad_fn */
bool saved_written(const struct back *b);             /* what the node saved has been written since: the run has failed */
void slices_release(struct run *r, struct node *n);

/* Makes the node of `op` when an input wants a gradient; 0 otherwise. Edge k is input k. Inputs are saved before the kernel
 * runs, as generated code does; attach_output() ties the result to it. */
uint32_t attach(struct run *r, enum op op, int n_in, const val *in);
void attach_output(struct run *r, uint32_t node, val out, int nr);
void meta_of(struct run *r, uint32_t node, int edge, val in);
void save(struct run *r, uint32_t node, val v);        /* an input, or what the kernel made beside its result */
void save_result(struct run *r, uint32_t node, val v);
void pin_leaf(struct run *r, val leaf);
uint32_t accumulate_node(struct run *r, val leaf); /* made when it is first needed */
enum { MAX_ROOTS = 2 };
void run_graph(struct run *r, int n, const val *outputs, const val *gradients); /* torch.autograd.backward(outputs, gradients) */

/* Kernels without graph and without taking their arguments: for formulas and the engine. Results float. */
val pointwise(struct run *r, enum op op, enum dtype dtype, int n, const val *in);
val pointwise_empty(struct run *r, enum op op, enum dtype dtype, int n, const val *in); /* its result, without the kernel */
val empty_in_order(struct run *r, enum op op, val a, const int64_t *size); /* of that size, the dimensions in memory as those of `a` (MemoryFormat::Preserve) */
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
