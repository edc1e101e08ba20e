/* matmul.c - matrix products: cuda/Blas.cpp, LinearAlgebra.cpp (matmul, should_fold), Linear.cpp, CUDABlas.cpp (workspaces). */
#include "torch/autograd.h"
#include "torch/calls.h"
#include "torch/checkpoint.h"

#include <string.h>

val unsafe_view(struct run *r, val a, int ndim, const int64_t *size);

enum { MIB = 1 << 20 };

/* CublasHandlePool.cpp getChosenWorkspaceSize: `:4096:2:16:8`, 32 MiB on compute capability 9.0, later on Blackwell too. */
static uint64_t workspace_bytes(const struct run *r)
{
    bool hopper = r->device.cc_major == 9 && r->device.cc_minor == 0, blackwell = r->device.cc_major >= 10 && r->q->cublas_workspace_blackwell;

    return hopper || blackwell ? 32 * MIB : 2 * 4 * MIB + 8 * 16 * 1024;
}

/* Kept per thread that calls cuBLAS (forward, autograd), or taken and freed inside each product. */
void cublas_workspace(struct run *r, enum op op)
{
    if (run_dead(r) || r->device.host)
        return;
    if (!r->q->cublas_workspace_kept) {
        scratch_give(r, scratch_take(r, op, workspace_bytes(r), MARK_WORKSPACE));
    } else if (!r->workspaces[r->in_backward]) {
        r->workspaces[r->in_backward] = scratch_take(r, op, workspace_bytes(r), MARK_WORKSPACE);
    }
}

/* CUDABlas.cpp gemm_and_bias: 1 MiB a product; or kept like cuBLAS's; or that one. Where handles keep a workspace the handle is made first. */
static void lt_workspace(struct run *r)
{
    uint32_t w = 0, *kept = &r->lt_workspaces[r->in_backward];

    if (r->device.host)
        return;
    if (r->q->cublaslt_workspace == CUBLASLT_TAKEN)
        w = scratch_take(r, OP_ADDMM, MIB, MARK_NONE);
    if (r->q->cublas_workspace_kept)
        cublas_workspace(r, OP_ADDMM);
    if (r->q->cublaslt_workspace == CUBLASLT_KEPT && !*kept && !run_dead(r)) /* traced, 2.9 to 2.11: behind the handle's */
        *kept = scratch_take(r, OP_ADDMM, MIB, MARK_WORKSPACE);
    scratch_give(r, w);
}

/* Blas.cpp prepare_matrix_for_cublas: neither orientation has unit stride and a leading dimension that is long enough. */
static bool needs_copy(const struct value *x, int d0, int d1)
{
    int64_t s0 = x->stride[d0], s1 = x->stride[d1];

    if (s0 == 1 && s1 >= (x->size[d0] > 1 ? x->size[d0] : 1))
        return false;
    return !(s1 == 1 && s0 >= (x->size[d1] > 1 ? x->size[d1] : 1));
}

/* Blas.cpp prepare_batch_matrix_for_cublas: where sizes of 1 have strides of their own. */
static bool lies_flat(const struct value *x)
{
    return x->contiguous && x->stride[1] && x->stride[2];
}

static val copy_for_blas(struct run *r, val v, int d0, int d1)
{
    val copy;

    if (!v || !needs_copy(&r->values[v], d0, d1) || (d0 && lies_flat(&r->values[v])))
        return 0;
    copy = value_empty(r, OP_CLONE, dtype_of(r, v), r->values[v].ndim, r->values[v].size);
    launch(r, OP_CLONE, copy, 1, &v);
    return copy;
}

struct copies {
    val a, b;
};

/* Blas.cpp: an output that lies by rows is computed transposed, so that the second factor is laid out first. */
static struct copies copies_for_blas(struct run *r, val out, val a, val b, int d0)
{
    const struct value *x = &r->values[out];
    bool by_columns = x->stride[d0] == 1 && (x->size[d0 + 1] == 1 || x->stride[d0 + 1] >= (x->size[d0] > 1 ? x->size[d0] : 1));
    struct copies c = {0};

    if (by_columns)
        c.a = copy_for_blas(r, a, d0, d0 + 1);
    c.b = copy_for_blas(r, b, d0, d0 + 1);
    if (!by_columns)
        c.a = copy_for_blas(r, a, d0, d0 + 1);
    return c;
}

/* What a product is made of, in the words of Blas.cpp and LinearAlgebra.cpp: matrices (nd 2) or batches of them (3) of one dtype (autocast has been there),
 * whose inner sizes and batches agree. Whoever reads their sizes asks here first. */
static bool multiply(struct run *r, val a, val b, int nd)
{
    const struct value *x = &r->values[a], *y = &r->values[b];
    const int64_t *m = x->size, *n = y->size;

    if (!same_dtype(r, 2, (val[]){a, b}))
        return false;
    if (x->ndim != nd || y->ndim != nd)
        return nd == 2 ? run_raise(r, "mat%d must be a matrix, got %d-D tensor", x->ndim != nd ? 1 : 2, x->ndim != nd ? x->ndim : y->ndim)
                       : run_raise(r, "batch%d must be a 3D tensor", x->ndim != nd ? 1 : 2);
    if (m[nd - 1] == n[nd - 2] && (nd == 2 || m[0] == n[0]))
        return true;
    return nd == 2 ? run_raise(r, "mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld)", (long long)m[0], (long long)m[1], (long long)n[0],
                               (long long)n[1])
                   : run_raise(r, "Expected size for first two dimensions of batch2 tensor to be: [%lld, %lld] but got: [%lld, %lld].", (long long)m[0],
                               (long long)m[2], (long long)n[0], (long long)n[1]);
}

/* What is added to a product is laid out over it: ExpandUtils.h expand_size(). */
static bool is_added(struct run *r, val what, val a, val b, int nd)
{
    const struct value *x = &r->values[what];

    if (x->ndim > nd)
        return run_raise(r, "expand(): the number of sizes provided (%d) must be greater or equal to the number of dimensions in the tensor (%d)", nd, x->ndim);
    for (int i = 1; i <= x->ndim; i++) {
        int64_t n = i == 1 ? size_of(r, b, -1) : size_of(r, a, -i), own = x->size[x->ndim - i];

        if (own != n && own != 1)
            return run_raise(r, "The expanded size of the tensor (%lld) must match the existing size (%lld) at non-singleton dimension %d.", (long long)n,
                             (long long)own, nd - i);
    }
    return true;
}

val mm_raw(struct run *r, val a, val b)
{
    val out;
    struct copies c;

    if (run_dead(r) || !multiply(r, a, b, 2))
        return 0;
    out = value_empty(r, OP_MM, dtype_of(r, a), SHAPE(size_of(r, a, 0), size_of(r, b, 1)));
    c = copies_for_blas(r, out, a, b, 0);
    cublas_workspace(r, OP_MM);
    launch_product(r, OP_MM, out, a, b, 0);
    consume(r, c.b);
    consume(r, c.a);
    return out;
}

void mm_into(struct run *r, enum op op, val out, val a, val b)
{
    calls_unheard(r);
    struct copies c;

    if (run_dead(r) || !multiply(r, a, b, 2))
        return;
    if (r->values[out].ndim != 2 || size_of(r, out, 0) != size_of(r, a, 0) || size_of(r, out, 1) != size_of(r, b, 1)) {
        (void)run_raise(r, "Bad in-place call: input tensor size and output tensor size should match");
        return;
    }
    c = copies_for_blas(r, out, a, b, 0);
    cublas_workspace(r, op);
    launch_product(r, op, out, a, b, op == OP_ADDMM ? out : 0);
    consume(r, c.b);
    consume(r, c.a);
}

val bmm_raw(struct run *r, val a, val b)
{
    val out;
    struct copies c;

    if (run_dead(r) || !multiply(r, a, b, 3))
        return 0;
    out = value_empty(r, OP_BMM, dtype_of(r, a), SHAPE(size_of(r, a, 0), size_of(r, a, 1), size_of(r, b, 2)));
    c = copies_for_blas(r, out, a, b, 1);
    cublas_workspace(r, OP_BMM);
    launch_product(r, OP_BMM, out, a, b, 0);
    consume(r, c.b);
    consume(r, c.a);
    return out;
}

/* Whether the gradient of the second factor comes out transposed depends on its strides: FunctionsManual.cpp mm_mat2_backward. */
static bool column_major(const struct value *x)
{
    return x->stride[0] == 1 && x->stride[1] == x->size[0];
}

static val product(struct run *r, enum op op, val (*kernel)(struct run *, val, val), val a, val b)
{
    val in[2] = {a, b}, out;
    bool selected;
    uint32_t node = !run_dead(r) && multiply(r, a, b, op == OP_BMM ? 3 : 2) ? attach(r, op, 2, in) : 0;

    if (node) {
        struct node *n = &r->nodes[node];

        n->float8 = r->in_float8;
        n->at.dim = column_major(&r->values[a]);
        n->at.dim2 = column_major(&r->values[b]);
    }
    if (wants_grad(r, a))
        save(r, node, b);
    if (wants_grad(r, b))
        save(r, node, a);
    selected = op == OP_MM && region_selects(r, op);
    out = 0;
    if (!selected || !region_kept(r, 1, &out)) {
        out = kernel(r, a, b);
        if (selected)
            region_keeps(r, node, 1, &out);
    }
    attach_output(r, node, out, 0);
    consume(r, a);
    consume(r, b);
    return out;
}

static val mm(struct run *r, val a, val b)
{
    return product(r, OP_MM, mm_raw, a, b);
}

/* The halves that autocast makes are temporaries of the operator. */
val bmm(struct run *r, val a, val b)
{
    ASKED_VV(r, bmm, a, b);
    struct pins p = {0};
    val ha, hb, out;

    pin(r, &p, a);
    pin(r, &p, b);
    hb = autocast_arg(r, OP_BMM, b); /* autocast_mode.h casts the arguments of one call: compilers take the last first */
    ha = autocast_arg(r, OP_BMM, a);
    out = product(r, OP_BMM, bmm_raw, ha, hb);
    unpin(r, &p);
    return out;
}

/* Blas.cpp addmm: a one-dimensional bias goes into cuBLASLt's epilogue, later a matrix of halves that lies row by row too; else what is added is copied and
 * cuBLAS adds onto it. */
static bool adds_in_lt(const struct run *r, val bias, val a, val b)
{
    const struct value *x = &r->values[bias];
    enum dtype t = dtype_of(r, a);

    if (size_of(r, a, 1) < 2 || size_of(r, b, 1) < 2)
        return false;
    if (x->ndim == 1)
        return true;
    return r->q->addmm_adds_matrix_in_lt && (t == DTYPE_BF16 || t == DTYPE_FP16) && x->ndim == 2 && x->contiguous && x->size[0] > 1 &&
           x->size[1] == size_of(r, b, 1);
}

static val addmm_raw(struct run *r, val bias, val a, val b)
{
    val out = value_empty(r, OP_ADDMM, dtype_of(r, a), SHAPE(size_of(r, a, 0), size_of(r, b, 1)));
    struct copies c;

    if (!out)
        return 0;
    c = copies_for_blas(r, out, a, b, 0);
    if (adds_in_lt(r, bias, a, b))
        lt_workspace(r);
    else
        cublas_workspace(r, OP_ADDMM);
    launch_product(r, OP_ADDMM, out, a, b, bias);
    consume(r, c.b);
    consume(r, c.a);
    return out;
}

static val addmm_plain(struct run *r, val bias, val a, val b)
{
    val in[3] = {bias, a, b}, out = 0;
    bool selected;
    uint32_t node = !run_dead(r) && multiply(r, a, b, 2) && same_dtype(r, 3, in) && is_added(r, bias, a, b, 2) ? attach(r, OP_ADDMM, 3, in) : 0;

    if (node) {
        r->nodes[node].float8 = r->in_float8;
        r->nodes[node].at.dim = column_major(&r->values[a]);
        r->nodes[node].at.dim2 = column_major(&r->values[b]);
        meta_of(r, node, 0, bias);
    }
    if (wants_grad(r, b))
        save(r, node, a);
    if (wants_grad(r, a))
        save(r, node, b);
    selected = r->all_products && region_selects(r, OP_ADDMM);
    if (!selected || !region_kept(r, 1, &out)) {
        out = run_dead(r) ? 0 : addmm_raw(r, bias, a, b);
        if (selected)
            region_keeps(r, node, 1, &out);
    }
    attach_output(r, node, out, 0);
    consume(r, bias);
    consume(r, a);
    consume(r, b);
    return out;
}

val addmm(struct run *r, val bias, val a, val b)
{
    ASKED_VVV(r, addmm, bias, a, b);
    struct pins p = {0};
    val hc, ha, hb, out;

    pin(r, &p, bias);
    pin(r, &p, a);
    pin(r, &p, b);
    hb = autocast_arg(r, OP_ADDMM, b);
    ha = autocast_arg(r, OP_ADDMM, a);
    hc = autocast_arg(r, OP_ADDMM, bias);
    out = addmm_plain(r, hc, ha, hb);
    unpin(r, &p);
    return out;
}

val baddbmm(struct run *r, val input, val a, val b, bool scaled)
{
    ASKED(r, baddbmm, 3, ((const val[]){input, a, b}), 1, ((const int64_t[]){scaled}));
    struct pins p = {0};
    val in[3], out;
    struct copies c;
    uint32_t node;

    pin(r, &p, input);
    pin(r, &p, a);
    pin(r, &p, b);
    in[2] = autocast_arg(r, OP_BADDBMM, b);
    in[1] = autocast_arg(r, OP_BADDBMM, a);
    in[0] = autocast_arg(r, OP_BADDBMM, input);
    node = !run_dead(r) && multiply(r, in[1], in[2], 3) && same_dtype(r, 3, in) && is_added(r, in[0], in[1], in[2], 3) ? attach(r, OP_BADDBMM, 3, in) : 0;
    if (node)
        r->nodes[node].at.p = scaled;
    if (wants_grad(r, in[2]))
        save(r, node, in[1]);
    if (wants_grad(r, in[1]))
        save(r, node, in[2]);
    out = run_dead(r) ? 0
                      : value_empty(r, OP_BADDBMM, dtype_of(r, in[1]),
                                    SHAPE(size_of(r, in[1], 0), size_of(r, in[1], 1), size_of(r, in[2], 2)));
    if (out) {
        if (wants_grad(r, in[0]) && numel(r, in[0]) != numel(r, out))
            meta_of(r, node, 0, in[0]);
        c = copies_for_blas(r, out, in[1], in[2], 1);
        cublas_workspace(r, OP_BADDBMM);
        launch_product(r, OP_BADDBMM, out, in[1], in[2], in[0]);
        consume(r, c.b);
        consume(r, c.a);
    }
    attach_output(r, node, out, 0);
    for (int k = 0; k < 3; k++)
        consume(r, in[k]);
    unpin(r, &p);
    return out;
}

/* LinearAlgebra.cpp should_fold for a tensor of three or more dimensions times a matrix; it looks at requires_grad, whether gradients are on or off. */
static bool should_fold(const struct run *r, val a, bool trained)
{
    const struct value *x = &r->values[a];

    if (trained)
        return true;
    for (int i = 0; i < x->ndim - 2; i++)
        if (x->stride[i] != x->stride[i + 1] * x->size[i + 1])
            return false;
    return true;
}

static val matmul_batched(struct run *r, val a, val b)
{
    const struct value *x = &r->values[a], *y = &r->values[b];
    int nd = x->ndim > y->ndim ? x->ndim : y->ndim;
    int64_t batch[MAX_DIMS], sa[MAX_DIMS], sb[MAX_DIMS], so[MAX_DIMS], n = 1, m = x->size[x->ndim - 2], p = y->size[y->ndim - 1];
    val fa, fb;

    for (int i = 0; i < nd - 2; i++) {
        int ax = i - (nd - x->ndim), ay = i - (nd - y->ndim);
        int64_t px = ax < 0 ? 1 : x->size[ax], py = ay < 0 ? 1 : y->size[ay];

        if (px != py && px != 1 && py != 1) {
            (void)run_raise(r, "The size of tensor a (%lld) must match the size of tensor b (%lld) at non-singleton dimension %d", (long long)px,
                            (long long)py, i);
            return 0;
        }
        batch[i] = px == 1 ? py : px;
        n *= batch[i];
    }
    memcpy(sa, batch, sizeof sa);
    memcpy(sb, batch, sizeof sb);
    memcpy(so, batch, sizeof so);
    sa[nd - 2] = m;
    sa[nd - 1] = x->size[x->ndim - 1];
    sb[nd - 2] = y->size[y->ndim - 2];
    sb[nd - 1] = p;
    so[nd - 2] = m;
    so[nd - 1] = p;
    fa = reshape(r, expand(r, a, nd, sa), SHAPE(n, sa[nd - 2], sa[nd - 1]));
    fb = reshape(r, expand(r, b, nd, sb), SHAPE(n, sb[nd - 2], sb[nd - 1]));
    return unsafe_view(r, product(r, OP_BMM, bmm_raw, fa, fb), nd, so);
}

/* A matrix times a tensor of three or more dimensions, folded: the tensor turned times the matrix turned, and laid out beside what was folded. */
static val matmul_turned(struct run *r, val a, val turned)
{
    int nd = r->values[turned].ndim;
    int64_t size[MAX_DIMS];
    val rows, out;

    memcpy(size, r->values[turned].size, sizeof size);
    size[nd - 1] = size_of(r, a, 0);
    rows = owned(r, reshape(r, turned, SHAPE(count_rows(r, turned), r->values[turned].size[nd - 1])));
    out = unsafe_view(r, mm(r, rows, t_op(r, a)), nd, size);
    out = contiguous(r, transpose(r, out, nd - 2, nd - 1));
    value_unref(r, rows);
    return out;
}

static val matmul_plain(struct run *r, val a, val b, bool trained)
{
    const struct value *x = &r->values[a], *y = &r->values[b];

    if (run_dead(r))
        return 0;
    if (!x->ndim || y->ndim < 2 || (x->ndim == 1 && y->ndim > 2)) { /* vectors are elsewhere: mv(), vector_first() in the language */
        (void)run_raise(r, x->ndim && y->ndim ? "a product of a vector where matrices are multiplied" : "both arguments to matmul need to be at least 1D");
        return 0;
    }
    if (x->ndim == 2 && y->ndim == 2)
        return mm(r, a, b);
    if (x->ndim == 1 && y->ndim == 2)
        return squeeze(r, mm(r, unsqueeze(r, a, 0), b), 0);
    if (x->ndim >= 3 && y->ndim == 2 && should_fold(r, a, trained)) {
        int64_t size[MAX_DIMS];
        int nd = x->ndim;

        memcpy(size, x->size, sizeof size);
        size[nd - 1] = y->size[1];
        return unsafe_view(r, mm(r, reshape(r, a, SHAPE(count_rows(r, a), x->size[nd - 1])), b), nd, size);
    }
    if (x->ndim == 2 && y->ndim >= 3 && wants_grad(r, a)) /* should_fold: "tensor1.dim() == 2" does not, else */
        return matmul_turned(r, a, transpose(r, b, y->ndim - 2, y->ndim - 1));
    return matmul_batched(r, a, b);
}

val matmul(struct run *r, val a, val b)
{
    ASKED_VV(r, matmul, a, b);
    struct pins p = {0};
    val ha, hb, out;

    if (run_dead(r))
        return 0;
    pin(r, &p, a);
    pin(r, &p, b);
    hb = autocast_arg(r, OP_MM, b);
    ha = autocast_arg(r, OP_MM, a);
    pin(r, &p, ha);
    pin(r, &p, hb);
    out = matmul_plain(r, ha, hb, wants_grad(r, hb));
    unpin(r, &p);
    return out;
}

/* Linear.cpp: with a bias two dimensions go through addmm, and more (or one) where they are contiguous, flattened; else through matmul. */
static val linear_plain(struct run *r, val x, val weight, val bias)
{
    const struct value *v = &r->values[x];
    int64_t size[MAX_DIMS];
    int nd = v->ndim;
    val out, whole;

    if (!nd || !r->values[weight].ndim) {
        (void)run_raise(r, "both arguments to linear need to be at least 1D");
        return 0;
    }
    if (bias && nd == 2)
        return addmm_plain(r, bias, x, t_op(r, weight));
    if (bias && v->contiguous && r->values[weight].ndim == 2) {
        memcpy(size, v->size, sizeof size);
        size[nd - 1] = size_of(r, weight, 0);
        x = reshape(r, x, SHAPE(count_rows(r, x), v->size[nd - 1]));
        out = addmm_plain(r, bias, x, t_op(r, weight));
        return r->q->linear_is_no_view ? unsafe_view(r, out, nd, size) : view(r, out, nd, size);
    }
    out = matmul_plain(r, x, t_op(r, weight), wants_grad(r, weight)); /* a view of it wants a gradient under no_grad() too */
    if (!bias)
        return out;
    whole = write_in_place(r, OP_ADD, out, bias); /* output.add_(*bias) */
    consume(r, out);
    return whole;
}

val linear_op(struct run *r, val x, val weight, val bias)
{
    ASKED_VVV(r, linear_op, x, weight, bias);
    struct pins p = {0};
    val hx, hw, hb, out;

    if (run_dead(r))
        return 0;
    if (r->linear_is_function)
        return linear_function(r, x, weight, bias);
    pin(r, &p, x);
    hb = autocast_arg(r, OP_ADDMM, bias);
    hw = autocast_arg(r, OP_ADDMM, weight);
    hx = autocast_arg(r, OP_ADDMM, x);
    pin(r, &p, hx);
    pin(r, &p, hw);
    pin(r, &p, hb);
    out = linear_plain(r, hx, hw, hb);
    unpin(r, &p);
    return out;
}
