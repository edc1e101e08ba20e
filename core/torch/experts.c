/* experts.c - what routes tokens to experts: top k, sorting, histograms, products by group, operators that write into their first argument. */
#include "torch/autograd.h"
#include "torch/calls.h"

#include <string.h>

/* ----------------------------------------------------------------------------------------------------------- selection */
/* TensorTopK.cu should_use_multiblock() */
static bool many_blocks(uint64_t slices, uint64_t length)
{
    static const struct {
        uint64_t slices, length;
    } least[] = {{4001, 400}, {800, 800}, {200, 3000}, {81, 5000}, {41, 8000}, {21, 10000}, {0, 20000}};
    unsigned i = 0;

    while (slices < least[i].slices)
        i++;
    return length >= least[i].length;
}

/* mbtopk::launch() of 2.2 to 2.15: what was found of each slice so far, counts of digits and of what belongs to the result of each block, CUB's scans. */
static void share_slices(struct run *r, uint64_t slices, uint64_t length, unsigned bytes)
{
    enum { THREADS = 256, BLOCKS = 6, LEAST_ITEMS = 4, MOST_ITEMS = 64, SCAN_BYTES = 1279, MOST_BUFFERS = 8 };
    uint64_t threads = (uint64_t)r->device.multiprocessors * BLOCKS * THREADS, items = (slices * length + threads - 1) / threads, blocks, word;
    uint32_t held[MOST_BUFFERS], n = 0;

    items = items < LEAST_ITEMS ? LEAST_ITEMS : items > MOST_ITEMS ? MOST_ITEMS : items;
    blocks = slices * ((length + items * THREADS - 1) / (items * THREADS));
    word = (r->q->topk_keeps_two ? 8 : 4) * slices;
    held[n++] = scratch_take(r, OP_TOPK, slices * bytes, MARK_NONE);
    if (!r->q->topk_sums_digits)
        held[n++] = scratch_take(r, OP_TOPK, slices * 4, MARK_NONE);
    held[n++] = scratch_take(r, OP_TOPK, word, MARK_NONE);
    held[n++] = scratch_take(r, OP_TOPK, word, MARK_NONE);
    held[n++] = scratch_take(r, OP_TOPK, blocks * 512, MARK_NONE);
    if (r->q->topk_sums_digits)
        held[n++] = scratch_take(r, OP_TOPK, slices * 1024, MARK_NONE);
    held[n++] = scratch_take(r, OP_TOPK, blocks * 4, MARK_NONE);
    held[n++] = scratch_take(r, OP_TOPK, blocks * 4, MARK_NONE);
    for (int i = 0; i < 2; i++)
        scratch(r, OP_TOPK, SCAN_BYTES);
    while (n)
        scratch_give(r, held[--n]);
}

/* TensorTopK.cu: one block a slice or many, sorted in place. */
void topk(struct run *r, val a, int dim, int64_t k, val ret[2])
{
    ASKED_TWO(r, topk, a, 2, ((const int64_t[]){dim, k}), ret);
    uint32_t node = attach(r, OP_TOPK, 1, &a);
    int64_t size[MAX_DIMS], length;
    int nd = r->values[a].ndim;
    uint64_t slices;

    ret[0] = ret[1] = 0;
    if (run_dead(r))
        return;
    memcpy(size, r->values[a].size, sizeof size);
    length = size[dim];
    size[dim] = k;
    ret[0] = value_empty(r, OP_TOPK, dtype_of(r, a), nd, size);
    ret[1] = value_empty(r, OP_TOPK, DTYPE_INT64, nd, size);
    if (!r->values[a].contiguous) /* self.contiguous(), for the kernel alone */
        scratch(r, OP_CLONE, (uint64_t)numel(r, a) * dtype_bytes(dtype_of(r, a)));
    slices = (uint64_t)numel(r, a) / (uint64_t)(length ? length : 1);
    if (k && many_blocks(slices, (uint64_t)length))
        share_slices(r, slices, (uint64_t)length, dtype_bytes(dtype_of(r, a)));
    launch(r, OP_TOPK, ret[0], 1, &a);
    if (node)
        meta_of(r, node, 0, a);
    save(r, node, ret[1]);
    attach_output(r, node, ret[0], 0);
    consume(r, a);
}

/* x.max(dim): the kernel reduces pairs, whose scratch is that of a reduction over one dimension */
void extreme_dim(struct run *r, enum op op, val a, int dim, bool keepdim, val ret[2])
{
    ASKED_TWO(r, extreme_dim, a, 3, ((const int64_t[]){op, dim, keepdim}), ret);
    uint32_t node = attach(r, op, 1, &a);
    int64_t size[MAX_DIMS];
    int nd = 0;

    ret[0] = ret[1] = 0;
    if (run_dead(r))
        return;
    for (int i = 0; i < r->values[a].ndim; i++)
        if (i != dim)
            size[nd++] = r->values[a].size[i];
        else if (keepdim)
            size[nd++] = 1;
    ret[0] = value_empty(r, op, dtype_of(r, a), nd, size);
    ret[1] = value_empty(r, op, DTYPE_INT64, nd, size);
    launch(r, op, ret[0], 1, &a);
    if (node)
        meta_of(r, node, 0, a);
    save(r, node, ret[1]);
    attach_output(r, node, ret[0], 0);
    consume(r, a);
}

/* gather(x, dim, index): as large as the index */
val gather_op(struct run *r, val a, val index)
{
    ASKED_VV(r, gather_op, a, index);
    uint32_t node = attach(r, OP_GATHER, 1, &a);
    val out;

    if (run_dead(r))
        return 0;
    if (node)
        meta_of(r, node, 0, a);
    save(r, node, index);
    save(r, node, a); /* gather_backward() is given self */
    out = value_empty(r, OP_GATHER, dtype_of(r, a), r->values[index].ndim, r->values[index].size);
    launch(r, OP_GATHER, out, 2, (val[]){out, index});
    attach_output(r, node, out, 0);
    consume(r, a);
    return out;
}

/* gather_backward: new_zeros, scatter_add_ */
void back_gather(struct back *b)
{
    const struct value *of = &b->r->values[b->r->nodes[b->node].meta[0]];
    val zeros = factory(b->r, OP_NEW_ZEROS, dtype_of(b->r, b->grad[0]), of->ndim, of->size);

    launch(b->r, OP_SCATTER, zeros, 1, b->grad);
    b->r->values[zeros].floating = false;
    b->out[0] = zeros;
}

/* FunctionsManual.h value_selecting_reduction_backward: zeros, scattered into */
void back_topk(struct back *b)
{
    const struct value *of = &b->r->values[b->r->nodes[b->node].meta[0]];
    val zeros = factory(b->r, OP_ZEROS, dtype_of(b->r, b->grad[0]), of->ndim, of->size);

    launch(b->r, OP_SCATTER, zeros, 1, b->grad);
    b->r->values[zeros].floating = false;
    b->out[0] = zeros;
}

/* cuda/Sort.cpp: up to 4096 in one block over an arange, beyond with cub's radix sort of all 64 bits; Sorting.cpp of one dimension */
enum { SORT_SMALL = 4096, SORT_TILE_PAIRS = 3840 };

void sort_integers(struct run *r, val a, val ret[2])
{
    ASKED_TWO(r, sort_integers, a, 0, NULL, ret);
    int64_t n = size_of(r, a, -1);
    uint64_t bytes = (uint64_t)numel(r, a) * 8;

    ret[0] = value_empty(r, OP_SORT, dtype_of(r, a), r->values[a].ndim, r->values[a].size);
    ret[1] = value_empty(r, OP_SORT, DTYPE_INT64, r->values[a].ndim, r->values[a].size);
    if (n <= SORT_SMALL) {
        scratch(r, OP_ARANGE, (uint64_t)n * 8);
    } else {
        uint32_t places = scratch_take(r, OP_SORT, bytes, MARK_NONE);

        scratch(r, OP_SORT, (uint64_t)(2 * round_up((int64_t)bytes, 256) + div_up(n, SORT_TILE_PAIRS) * 1024 + 8 * 2048 + 511));
        scratch_give(r, places);
    }
    launch(r, OP_SORT, ret[0], 1, &a);
    consume(r, a);
}

/* ------------------------------------------------------------------------------------------------------ grouped products */
/* Rows end at 16 bytes: GroupedMMUtils.h create_grouped_gemm_output_tensor */
static val grouped_output(struct run *r, enum dtype dtype, int nd, const int64_t *size)
{
    int64_t wide[MAX_DIMS], align = 16 / (int64_t)dtype_bytes(dtype);
    struct value *x;
    val out;

    memcpy(wide, size, (size_t)nd * sizeof *wide);
    wide[nd - 1] = round_up(wide[nd - 1], align);
    out = value_empty(r, OP_GROUPED_MM, dtype, nd, wide);
    x = &r->values[out];
    if (out && wide[nd - 1] != size[nd - 1]) {
        x->size[nd - 1] = size[nd - 1];
        x->contiguous = false;
    }
    return out;
}

/*
 * CUTLASS's kernels of sm_90 and sm_100 in bf16 are told pointers, strides and sizes of each product through one block (GroupMM.cu
 * bf16bf16_grouped_gemm_impl_sm90_sm100); a second one holds what a multiprocessor writes its tensor maps to, on sm_100 its accumulators' tiles
 * too: bytes of each traced on torch 2.11 and 2.15. Elsewhere a loop of cuBLAS's products stands for them (GroupedBlas.cpp).
 */
enum { GROUP_POINTERS = 24, GROUP_SIZES = 36, TENSOR_MAPS = 4 * 128, SM100_SMALL = 5376, SM100_LARGE = 5888, SM100_SMALL_ROWS = 128 };

static void grouped_scratch(struct run *r, enum dtype dtype, int64_t experts, int64_t rows, int64_t columns)
{
    unsigned major = r->device.cc_major;
    uint64_t each = major == 9 ? TENSOR_MAPS : rows <= SM100_SMALL_ROWS || columns <= SM100_SMALL_ROWS ? SM100_SMALL : SM100_LARGE;
    uint32_t told;

    if (dtype != DTYPE_BF16 || (major != 9 && major != 10))
        return;
    told = scratch_take(r, OP_GROUPED_MM, (uint64_t)(round_up(experts, 2) * GROUP_POINTERS + experts * GROUP_SIZES), MARK_NONE);
    scratch(r, OP_GROUPED_MM, each * r->device.multiprocessors);
    scratch_give(r, told);
}

/* `experts` products, each of its share of the tokens: equal ones */
static void launch_grouped(struct run *r, val out, val a, val b, int64_t experts, int64_t rows, int64_t inner, int64_t columns)
{
    grouped_scratch(r, dtype_of(r, a), experts, rows, columns);
    if (r->work)
        work_grouped(r, OP_GROUPED_MM, out, a, b, experts, rows, inner, columns);
}

val grouped_mm(struct run *r, val a, val b, val offs)
{
    ASKED_VVV(r, grouped_mm, a, b, offs);
    val in[2] = {a, b}, out;
    uint32_t node = attach(r, OP_GROUPED_MM, 2, in);

    if (run_dead(r))
        return 0;
    if (node) { /* whether the weights are a transposed view decides how their gradient lies */
        r->nodes[node].at.dim = r->values[b].stride[1] == 1;
        r->nodes[node].at.i[0] = size_of(r, b, 0);
    }
    if (wants_grad(r, a))
        save(r, node, b);
    save(r, node, offs);
    if (wants_grad(r, b))
        save(r, node, a);
    out = grouped_output(r, dtype_of(r, a), SHAPE(size_of(r, a, 0), size_of(r, b, 2)));
    launch_grouped(r, out, a, b, size_of(r, b, 0), size_of(r, a, 0) / size_of(r, b, 0), size_of(r, a, 1), size_of(r, b, 2));
    attach_output(r, node, out, 0);
    consume(r, a);
    consume(r, b);
    consume(r, offs);
    return out;
}

static bool needs(const struct back *b, int edge)
{
    return node_edge(&b->r->nodes[b->node], edge)->node != 0;
}

static void hand(struct back *b, int edge, val v)
{
    b->r->values[v].floating = false;
    b->out[edge] = v;
}

/* FunctionsManual.cpp _grouped_mm_mat2_backward, _grouped_mm_mat1_backward */
void back_grouped_mm(struct back *b)
{
    struct run *r = b->r;
    struct node *n = &r->nodes[b->node];
    bool both = needs(b, 0) && needs(b, 1);
    val g = b->grad[0], weight = needs(b, 0) ? b->saved[0] : 0, x = needs(b, 1) ? b->saved[both ? 2 : 1] : 0, out;
    int64_t rows = size_of(r, g, 0), columns = size_of(r, g, 1);

    if (needs(b, 1)) {
        int64_t experts = n->at.i[0], inner = size_of(r, x, 1);

        if (n->at.dim) /* (grad' x)' */
            out = transpose(r, grouped_output(r, dtype_of(r, g), SHAPE(experts, columns, inner)), 1, 2);
        else
            out = grouped_output(r, dtype_of(r, g), SHAPE(experts, inner, columns));
        launch_grouped(r, out, g, x, experts, columns, rows / experts, inner);
        hand(b, 1, out);
    }
    if (needs(b, 0)) {
        out = grouped_output(r, dtype_of(r, g), SHAPE(rows, size_of(r, weight, 1)));
        launch_grouped(r, out, g, weight, n->at.i[0], rows / n->at.i[0], columns, size_of(r, weight, 1));
        hand(b, 0, out);
    }
}
