/*
 * sdpa.c - scaled_dot_product_attention: the kernel PyTorch picks, and what its host code allocates.
 *
 * Source  transformers/attention.cpp (choice, mask conversion, padding), transformers/cuda/sdp_utils.cpp (conditions),
 *         flash_attn/flash_api.cpp (split keys, rounding), mem_eff_attention/kernel_backward.h (workspace), torch 2.2 to 2.15;
 *         sizes checked against both by tests/data/ops. cuDNN's: cudnn/MHA.cpp, and what an H100 took (tests/data/ops/torch-2.11-cudnn-h100.csv).
 */
#include "torch/autograd.h"
#include "torch/calls.h"
#include "torch/checkpoint.h"
#include "torch/sdpa.h"

#include <math.h>
#include <string.h>

/* flash_api.cpp: rows of the accumulators are padded to what the kernel's tile covers. */
int64_t flash_head_rounded(const struct run *r, int64_t d)
{
    return r->q->flash_rounds_wide_heads && d > 128 ? round_up(d, 64) : round_up(d, 32);
}

/* flash_api.cpp num_splits_heuristic: the fewest splits of the keys within 85 % of the best fill of the multiprocessors. */
static int64_t flash_splits(const struct run *r, int64_t batch, int64_t heads, int64_t sq, int64_t sk, int64_t d)
{
    int64_t block_n = d <= 64 ? 256 : d <= 128 ? 128 : 64, n_blocks = div_up(sk, block_n);
    int64_t sms = (int64_t)r->device.multiprocessors * (r->q->flash_splits_count_twice ? 2 : 1);
    int64_t work = batch * heads * div_up(sq, 64), most = n_blocks < 128 ? n_blocks : 128;
    float best = 0;

    if ((float)work >= 0.8f * (float)sms)
        return 1;
    most = most < sms ? most : sms;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t n = 1; n <= most; n++) {
            float waves = (float)(work * n) / (float)sms, eff = waves / (float)div_up(work * n, sms);

            if (n > 1 && div_up(n_blocks, n) == div_up(n_blocks, n - 1))
                continue;
            if (!pass)
                best = eff > best ? eff : best;
            else if (eff >= 0.85f * best)
                return n;
        }
    return 1;
}

/* [batch, heads, seq, d], laid out as [batch, seq, heads, d] */
static val attention_output(struct run *r, enum op op, val q, int64_t d)
{
    const struct value *x = &r->values[q];
    val v = value_new(r, (enum dtype)x->dtype, SHAPE(x->size[0], x->size[1], x->size[2], d));
    struct value *y = &r->values[v];

    if (!v)
        return 0;
    y->stride[3] = 1;
    y->stride[1] = d;
    y->stride[2] = d * x->size[1];
    y->stride[0] = y->stride[2] * x->size[2];
    y->contiguous = x->size[1] == 1 || x->size[2] == 1;
    value_birth(r, v, op, (uint64_t)numel(r, v) * dtype_bytes((enum dtype)x->dtype));
    return v;
}

/* What both kernels hand back: the output, a log-sum-exp a row, seed and offset of the random generator. */
struct attention_results {
    val out, lse, seed, offset;
};

static bool attention_kept(struct run *r, bool selected, struct attention_results *ret)
{
    val kept[KEPT_RESULTS] = {0};

    if (!selected || !region_kept(r, KEPT_RESULTS, kept))
        return false;
    *ret = (struct attention_results){kept[0], kept[1], kept[2], kept[3]};
    return true;
}

static void keep_attention(struct run *r, const struct attention_results *o)
{
    region_keeps(r, 0, KEPT_RESULTS, (const val[]){o->out, o->lse, o->seed, o->offset});
}

static val attention_node(struct run *r, uint32_t node, const struct attention_results *o, bool seed_first)
{
    save(r, node, o->lse);
    save_result(r, node, o->out);
    save(r, node, seed_first ? o->seed : o->offset);
    save(r, node, seed_first ? o->offset : o->seed);
    attach_output(r, node, o->out, 0);
    consume(r, o->lse);
    consume(r, o->seed);
    consume(r, o->offset);
    return o->out;
}

static struct attention_results flash_kernel(struct run *r, val q, val k, double p, bool causal)
{
    val out, lse, seed = 0, offset = 0;
    int64_t b = size_of(r, q, 0), h = size_of(r, q, 1), s = size_of(r, q, 2), d = size_of(r, q, 3), sk = size_of(r, k, 2);
    uint32_t acc = 0, acc_lse = 0;

    out = pointwise(r, OP_FLASH, dtype_of(r, q), 1, &q); /* empty_like(q): q's layout */
    lse = value_empty(r, OP_FLASH, DTYPE_FP32, SHAPE(b, h, s));
    launch_attention(r, OP_FLASH, (struct attended){b, h, s, sk, d, causal}, q, k);
    if (p <= 0 && !run_dead(r)) {
        int64_t n = flash_splits(r, b, h, s, sk, d);

        if (n > 1) {
            acc_lse = scratch_take(r, OP_FLASH, (uint64_t)(n * b * h * s * 4), MARK_NONE);
            acc = scratch_take(r, OP_FLASH, (uint64_t)(n * b * h * s * flash_head_rounded(r, d) * 4), MARK_NONE);
        }
    }
    if (r->q->flash_seed_on_device) {
        seed = value_empty(r, OP_FLASH, DTYPE_INT64, SHAPE(2));
        offset = value_empty(r, OP_FLASH, DTYPE_INT64, 0, NULL);
        if (p > 0) { /* the kernel's own rng_state takes the place of the first */
            val state = value_empty(r, OP_FLASH, DTYPE_INT64, SHAPE(2));

            consume(r, seed);
            seed = state;
        }
    }
    if (r->q->flash_frees_split_first) {
        scratch_give(r, acc);
        scratch_give(r, acc_lse);
    } else {
        scratch_give(r, acc_lse);
        scratch_give(r, acc);
    }
    return (struct attention_results){out, lse, seed, offset};
}

static val flash(struct run *r, val q, val k, val v, double p, bool causal)
{
    val in[3] = {q, k, v};
    uint32_t node = attach(r, OP_FLASH, 3, in);
    struct attention_results o;
    bool selected;

    if (node)
        r->nodes[node].at.dim2 = causal;
    save(r, node, k);
    save(r, node, q);
    save(r, node, v);
    selected = region_selects(r, OP_FLASH);
    if (!attention_kept(r, selected, &o)) {
        o = flash_kernel(r, q, k, p, causal);
        if (selected)
            keep_attention(r, &o);
    }
    return attention_node(r, node, &o, true);
}

typedef struct attention_results masked_kernel(struct run *r, val q, val k, val v, double p, bool causal, bool trains);

/* in: q, k, v and the mask as the kernel has it, which is used up. */
static val masked_attention(struct run *r, enum op op, masked_kernel *kernel, int n_edges, const val in[4], double p, bool causal)
{
    val q = in[0], k = in[1], v = in[2], mask = in[3], out;
    uint32_t node = attach(r, op, n_edges, in);
    struct attention_results o;
    bool selected;

    if (node) {
        r->nodes[node].at.dim = mask != 0;
        r->nodes[node].at.dim2 = causal;
        r->nodes[node].at.p = p;
    }
    save(r, node, mask);
    save(r, node, k);
    save(r, node, q);
    save(r, node, v);
    selected = region_selects(r, op);
    if (!attention_kept(r, selected, &o)) {
        o = kernel(r, q, k, v, p, causal, node != 0);
        if (selected)
            keep_attention(r, &o);
    }
    out = attention_node(r, node, &o, false);
    consume(r, mask);
    return out;
}

/* --------------------------------------------------------------------------------------------------------- cuDNN's kernel */
/* cudnn-frontend 1.23 node/scaled_dot_product_flash_attention.h: sums of a row in fp32, dq in fp32. Grouped heads: dk and dv of each head of q, which the
 * library itself asks for, and its tail: measured on an H100, cuDNN 9.19. */
uint64_t cudnn_attention_bytes(const struct attended *a, int64_t kv, int64_t value_dim, unsigned element_bytes)
{
    int64_t rows = a->batch * a->heads;
    uint64_t wide = kv != a->heads ? (uint64_t)(rows * a->keys * (a->head_dim + value_dim)) * element_bytes : 0;

    return (uint64_t)(rows * a->queries * (a->head_dim + 1)) * 4 + wide + CUDNN_ATTENTION_TAIL;
}

/* MHA.cpp alloc_with_matching_layout: of q's sizes but the last, its dimensions in the order of q's strides */
static val matching_output(struct run *r, val q, int64_t width)
{
    const struct value *x = &r->values[q];
    int order[4];
    int64_t step = 1;
    struct value *y;
    val v;

    if (x->size[3] == width)
        return pointwise(r, OP_CUDNN_ATTENTION, (enum dtype)x->dtype, 1, &q); /* empty_like(q) */
    v = value_new(r, (enum dtype)x->dtype, SHAPE(x->size[0], x->size[1], x->size[2], width));
    if (!v)
        return 0;
    x = &r->values[q];
    y = &r->values[v];
    for (int i = 0; i < 4; i++) { /* stable */
        int at = i;

        for (; at > 0 && x->stride[order[at - 1]] > x->stride[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    for (int i = 0; i < 4; i++) {
        y->stride[order[i]] = step;
        step *= y->size[order[i]];
    }
    y->contiguous = true;
    step = 1;
    for (int i = 3; i >= 0; i--) {
        y->contiguous &= y->size[i] == 1 || y->stride[i] == step;
        step *= y->size[i];
    }
    value_birth(r, v, OP_CUDNN_ATTENTION, (uint64_t)numel(r, v) * dtype_bytes((enum dtype)y->dtype));
    return v;
}

static struct attention_results cudnn_kernel(struct run *r, val q, val k, val v, double p, bool causal, bool trains)
{
    int64_t b = size_of(r, q, 0), h = size_of(r, q, 1), s = size_of(r, q, 2);
    val seed = value_empty(r, OP_CUDNN_ATTENTION, DTYPE_INT64, 0, NULL), offset = value_empty(r, OP_CUDNN_ATTENTION, DTYPE_INT64, 0, NULL);
    val out = matching_output(r, q, size_of(r, v, 3));
    val lse = trains ? value_empty(r, OP_CUDNN_ATTENTION, DTYPE_FP32, SHAPE(b, h, s)) : 0;

    (void)p; /* what it drops, seed and offset tell */
    scratch(r, OP_CUDNN_ATTENTION, CUDNN_ATTENTION_TAIL);
    launch_attention(r, OP_CUDNN_ATTENTION, (struct attended){b, h, s, size_of(r, k, 2), size_of(r, q, 3), causal}, q, k);
    return (struct attention_results){out, lse, seed, offset};
}

static val cudnn_attention(struct run *r, val q, val k, val v, val given, bool causal)
{
    val mask = float_mask(r, given, dtype_of(r, q));

    return masked_attention(r, OP_CUDNN_ATTENTION, cudnn_kernel, 3, (const val[]){q, k, v, mask}, 0, causal);
}

/* attention.cpp convert_boolean_attn_mask: a mask of bool becomes one of q's dtype, in each call. */
val float_mask(struct run *r, val mask, enum dtype dtype)
{
    ASKED_VI(r, float_mask, mask, dtype);
    val zero, inf, inverse, out;

    if (!mask || dtype_of(r, mask) != DTYPE_BOOL)
        return mask;
    if (r->q->sdpa_bool_mask_by_where) {
        inf = factory(r, OP_SCALAR_TENSOR, dtype, 0, NULL);
        inverse = r->q->sdpa_where_of_inverse ? pointwise(r, OP_LOGICAL_NOT, DTYPE_BOOL, 1, &mask) : 0;
        zero = factory(r, OP_SCALAR_TENSOR, dtype, 0, NULL);
        out = pointwise(r, OP_WHERE, dtype, 1, &mask);
        consume(r, zero);
        consume(r, inverse);
        consume(r, inf);
    } else {
        out = factory(r, OP_ZEROS_LIKE, dtype, r->values[mask].ndim, r->values[mask].size);
        consume(r, pointwise(r, OP_LOGICAL_NOT, DTYPE_BOOL, 1, &mask));
        launch(r, OP_MASKED_FILL, out, 1, &mask);
    }
    return out;
}

/* attention.cpp aligned_tensor<8> */
static bool lies_aligned(const struct value *x)
{
    for (int i = 0; i + 1 < x->ndim; i++)
        if (x->stride[i] % 8)
            return false;
    return x->stride[x->ndim - 1] == 1;
}

/* preprocess_mask: rows that do not begin at a multiple of 8 are copied to the next one (pad_bias). Then it is spread, which moves nothing unless its
 * gradient is summed back. */
static val aligned_mask(struct run *r, val mask, val q, val k)
{
    const struct value *x = &r->values[mask];
    int64_t size[MAX_DIMS], last;

    if (!mask)
        return 0;
    last = size_of(r, mask, -1);
    if (!lies_aligned(x)) {
        memcpy(size, x->size, sizeof size);
        size[x->ndim - 1] += 8 - last % 8;
        mask = slice(r, pad_constant(r, mask, size, true), -1, 0, last);
    }
    if (!wants_grad(r, mask))
        return mask;
    return expand(r, mask, 4, (int64_t[]){size_of(r, q, 0), size_of(r, q, 1), size_of(r, q, 2), size_of(r, k, 2)});
}

static struct attention_results efficient_kernel(struct run *r, val q, val k, val v, double p, bool causal, bool trains)
{
    int64_t b = size_of(r, q, 0), h = size_of(r, q, 1), s = size_of(r, q, 2), d = size_of(r, v, 3);
    val out, lse, seed = 0, offset = 0;

    if (r->q->efficient_seed_on_device && p <= 0) {
        seed = value_empty(r, OP_ZEROS, DTYPE_INT64, 0, NULL);
        offset = value_empty(r, OP_ZEROS, DTYPE_INT64, 0, NULL);
    }
    out = attention_output(r, OP_EFFICIENT, q, d);
    lse = value_empty(r, OP_EFFICIENT, DTYPE_FP32, SHAPE(b, h, trains ? round_up(s, 32) : 0));
    /* kernel_forward.h kNeedsOutputAccumulatorBuffer; cutlassF.h: kMaxK covers keys and values */
    if ((d > 128 || size_of(r, k, 3) > 128) && dtype_of(r, q) != DTYPE_FP32)
        scratch(r, OP_EFFICIENT, (uint64_t)(b * h * s * d * 4));
    launch_attention(r, OP_EFFICIENT, (struct attended){b, h, s, size_of(r, k, 2), d, causal}, q, k);
    return (struct attention_results){out, lse, seed, offset};
}

static val efficient(struct run *r, val q, val k, val v, val given, double p, bool causal)
{
    val wide = aligned_mask(r, float_mask(r, given, dtype_of(r, q)), q, k);

    return masked_attention(r, OP_EFFICIENT, efficient_kernel, wide && wants_grad(r, wide) ? 4 : 3, (const val[]){q, k, v, wide}, p, causal);
}

/* 99 KiB of shared memory a block where others have 163 (sm_80) or 227 (sm_90, sm_100): the wide tiles do not fit. */
static bool small_tiles(const struct device *d)
{
    return (d->cc_major == 8 && (d->cc_minor == 6 || d->cc_minor == 9)) || d->cc_major == 12;
}

/* mem_eff_attention/kernels/cutlassB.h: of the kernels of a dtype the first whose head width and shared memory do. */
struct tiles {
    int64_t queries, keys; /* kBlockSizeI, kBlockSizeJ */
    bool in_registers;     /* kOutputInRF: dk and dv need no fp32 sum in memory */
};

static struct tiles backward_tiles(const struct device *dev, int64_t d, bool half, bool dropout)
{
    bool small = small_tiles(dev);

    if (d <= 64)
        return (struct tiles){64, 64, half};
    if (half && d <= 96 && dev->cc_major == 8 && small && !dropout)
        return (struct tiles){128, 64, true};
    if (half && d <= 128 && !small)
        return (struct tiles){128, 128, true};
    return (struct tiles){small && !(half && d > 128) ? 64 : 128, 64, false};
}

/* attention_backward.cu: over how many blocks the keys of a head are split where each sums dk and dv in memory. */
static int64_t key_splits(const struct run *r, int64_t heads, int64_t keys, int64_t tile)
{
    int64_t n = div_up(keys, tile);

    if (r->q->efficient_sums_all_keys)
        return n;
    if (heads >= 256 && keys <= 2 * tile)
        n = 1;
    if (heads && n > 200 / heads)
        n = 200 / heads;
    return n > 1 ? n : 1;
}

/* kernel_backward.h workspace_size: locks and tiles of dq; dk and dv too where the output's dtype cannot hold the sum. */
int64_t efficient_workspace_bytes(const struct run *r, int64_t b, int64_t h, int64_t sq, int64_t sk, int64_t d, int64_t dv, bool half, bool dropout)
{
    struct tiles t = backward_tiles(&r->device, d > dv ? d : dv, half, dropout);
    int64_t dq = div_up(sq, t.queries) * div_up(d, t.keys) * (t.queries * t.keys * 4 + 16), dkv = 0;

    if (half && !t.in_registers)
        dkv = key_splits(r, b * h, sk, t.keys) * (r->q->efficient_sums_all_keys ? round_up(sk, t.keys) : t.keys) *
              (round_up(d, t.queries) + round_up(dv, t.queries)) * 4;
    return b * h * (dq + dkv);
}

/* sdp_utils.cpp check_requires_grad_and_head_dim_gt192_constraints_on_sm86_89_or_120: some widths have no backward with little shared memory. */
static bool flash_trains(const struct run *r, int64_t d, bool dropout)
{
    if (!small_tiles(&r->device) || d <= 192)
        return true;
    return d > 224 && !dropout && r->q->flash_trains_256_on_sm86;
}

/* check_batch_size_and_num_heads_dense */
static bool same_heads(const struct run *r, const val in[4])
{
    return size_of(r, in[1], 1) == size_of(r, in[0], 1) && size_of(r, in[2], 1) == size_of(r, in[1], 1);
}

static bool any_trains(const struct run *r, const val in[4])
{
    return r->grad_enabled && (r->values[in[0]].requires_grad || r->values[in[1]].requires_grad || r->values[in[2]].requires_grad);
}

static bool flash_allowed(const struct run *r, const val in[4], enum dtype t, double p, bool causal, bool gqa)
{
    int64_t d = size_of(r, in[0], 3);

    if (in[3] || d != size_of(r, in[2], 3)) /* check_for_attn_mask, check_head_dim_size_flash: one width */
        return false;
    /* check_flash_causal_non_square_seqlens */
    if ((causal && size_of(r, in[0], 2) != size_of(r, in[1], 2)) || !(gqa || r->q->efficient_takes_gqa || same_heads(r, in)))
        return false;
    return (t == DTYPE_BF16 || t == DTYPE_FP16) && d <= 256 && r->device.cc_major >= 8 && !r->no_flash && (!any_trains(r, in) || flash_trains(r, d, p > 0));
}

/* check_cudnn_tensor_shapes, check_cudnn_d256_bprop_head_dim: by the cuDNN in the wheel */
static bool cudnn_has_heads(const struct run *r, int64_t d, int64_t wide, bool trains)
{
    if (d % 8 || wide % 8)
        return false;
    if ((d <= 128 && wide <= 128) || (d == 192 && wide == 128))
        return true;
    if (d > 256 || wide > 256)
        return false;
    if (r->q->cudnn_heads == CUDNN_HEADS_HOPPER_256)
        return r->device.cc_major == 9;
    return r->q->cudnn_heads == CUDNN_HEADS_ALIKE_256 && (!trains || (d == 256 && wide == 256));
}

/* check_prefer_cudnn_attention, can_use_cudnn_attention */
static bool cudnn_allowed(const struct run *r, const val in[4], enum dtype t, double p, bool gqa)
{
    if (!r->cudnn_attention || (t != DTYPE_BF16 && t != DTYPE_FP16) || (in[3] && wants_grad(r, in[3])))
        return false;
    if (p > 0 && (size_of(r, in[0], 2) == 1 || (r->q->cudnn_dropout_by_16 && p * 16 != floor(p * 16))))
        return false;
    if (size_of(r, in[1], 2) == 1 || !(gqa || r->q->efficient_takes_gqa || same_heads(r, in)))
        return false;
    return cudnn_has_heads(r, size_of(r, in[0], 3), size_of(r, in[2], 3), any_trains(r, in));
}

/* sdp_utils_cpp.h check_last_dim_stride_equals_1_dense: else neither flash nor the efficient kernel */
static bool lies_by_heads(const struct run *r, const val in[4])
{
    for (int i = 0; i < 4; i++) {
        const struct value *x = &r->values[in[i]];

        if (in[i] && x->ndim && x->stride[x->ndim - 1] != 1)
            return false;
    }
    return true;
}

/* check_tensor_dtype: bf16 from sm_80 on; check_head_dim_size_mem_efficient, minimum_gemm_alignment */
static bool efficient_takes(const struct run *r, const val in[4], enum dtype t)
{
    int64_t unit = t != DTYPE_FP32 ? 8 : r->device.cc_major >= 8 ? 4 : 1;

    if (t == DTYPE_FP64 || (t == DTYPE_BF16 && r->device.cc_major < 8))
        return false;
    return size_of(r, in[0], 3) % unit == 0 && size_of(r, in[2], 3) % unit == 0;
}

enum attention_way attention_way(const struct run *r, const val in[4], double p, bool causal, bool gqa)
{
    enum dtype t = r->autocast && dtype_of(r, in[0]) != DTYPE_FP64 ? r->autocast_dtype : dtype_of(r, in[0]);

    for (int i = 0; i < 3; i++)
        if (r->values[in[i]].ndim != 4)
            return r->q->sdpa_takes_rows && r->values[in[0]].ndim == 3 && r->values[in[1]].ndim == 3 && r->values[in[2]].ndim == 3 ? ATTENTION_AS_ONE
                                                                                                                                     : ATTENTION_BY_HAND;
    if (size_of(r, in[0], 0) != size_of(r, in[1], 0) || size_of(r, in[1], 0) != size_of(r, in[2], 0) || !lies_by_heads(r, in))
        return ATTENTION_BY_HAND;
    if (cudnn_allowed(r, in, t, p, gqa))
        return ATTENTION_KERNEL;
    if (flash_allowed(r, in, t, p, causal, gqa))
        return size_of(r, in[0], 3) % 8 ? ATTENTION_PADDED : ATTENTION_KERNEL;
    if (!same_heads(r, in) && !r->q->efficient_takes_gqa)
        return ATTENTION_BY_HAND;
    return efficient_takes(r, in, t) ? ATTENTION_KERNEL : ATTENTION_BY_HAND;
}

val scaled_dot_product_attention(struct run *r, val q, val k, val v, val mask, double dropout_p, bool causal, bool enable_gqa)
{
    ASKED(r, scaled_dot_product_attention, 4, ((const val[]){q, k, v, mask}), 3, ((const int64_t[]){calls_bits(dropout_p), causal, enable_gqa}));
    struct pins p = {0}, casts = {0};
    val in[4] = {q, k, v, mask}, half[4], out;

    if (run_dead(r))
        return 0;
    for (int i = 0; i < 4; i++)
        pin(r, &p, in[i]);
    for (int i = 3; i >= 0; i--) {
        half[i] = autocast_arg(r, OP_FLASH, in[i]); /* scaled_dot_product_attention stands in autocast's list, whichever kernel runs */
        pin(r, &casts, half[i]);
    }
    if (!same_dtype(r, 3, half))
        return 0;
    if (cudnn_allowed(r, half, dtype_of(r, half[0]), dropout_p, enable_gqa))
        out = cudnn_attention(r, half[0], half[1], half[2], half[3], causal);
    else if (flash_allowed(r, half, dtype_of(r, half[0]), dropout_p, causal, enable_gqa))
        out = flash(r, half[0], half[1], half[2], dropout_p, causal);
    else
        out = efficient(r, half[0], half[1], half[2], half[3], dropout_p, causal && !mask);
    unpin(r, &casts);
    unpin(r, &p);
    return out;
}

val flash_attention(struct run *r, val q, val k, val v, double dropout_p, bool causal)
{
    ASKED(r, flash_attention, 3, ((const val[]){q, k, v}), 2, ((const int64_t[]){calls_bits(dropout_p), causal}));
    struct pins p = {0};
    val in[3] = {q, k, v}, out;

    if (run_dead(r))
        return 0;
    for (int i = 0; i < 3; i++)
        pin(r, &p, in[i]);
    out = flash(r, q, k, v, dropout_p, causal);
    unpin(r, &p);
    return out;
}

/* ------------------------------------------------------------------------------------------------ the flash-attn package */
/* flash-attn 3, hopper/flash_api.cpp mha_fwd: a counter of tiles, and of sequences of a length of their own three numbers each, while the kernel runs */
static void flash_3_scratch(struct run *r, enum op op, int64_t rows)
{
    uint32_t tiles = scratch_take(r, op, 4, MARK_NONE), blocks = op == OP_FLASH_VARLEN ? scratch_take(r, op, (uint64_t)rows * 12, MARK_NONE) : 0;

    scratch_give(r, blocks);
    scratch_give(r, tiles);
}

/* flash_attn_interface.py FlashAttnFunc, FlashAttnVarlenFunc: saves q, k, v, out, lse, what is its own of varlen, rng state. empty_like keeps
 * q's layout. Decoders call it causal. */
static val flash_package(struct run *r, enum op op, const val in[3], val cumulative, struct attended shape, int n_lse, const int64_t *lse_size)
{
    val out, lse, rng = 0;
    uint32_t node;

    if (shape.head_dim % 8)
        run_fail(r, ERR_FIELD_CONFLICT, "/training/attention", "flash-attn pads heads whose width is no multiple of 8; that is not modelled");
    node = attach(r, op, 3, in);
    if (node)
        r->nodes[node].at.i[0] = shape.batch;
    out = pointwise(r, op, dtype_of(r, in[0]), 1, in);
    lse = value_empty(r, op, DTYPE_FP32, n_lse, lse_size);
    if (r->flash_3) /* draws nothing: it has no dropout */
        flash_3_scratch(r, op, shape.batch);
    else
        rng = value_empty(r, op, DTYPE_INT64, SHAPE(2));
    launch_attention(r, op, shape, in[0], in[1]);
    for (int i = 0; i < 3; i++)
        save(r, node, in[i]);
    save_result(r, node, out);
    save(r, node, lse);
    save(r, node, cumulative);
    if (rng)
        save(r, node, rng);
    attach_output(r, node, out, 0);
    consume(r, lse);
    if (rng)
        consume(r, rng);
    return out;
}

/* [batch, seq, heads, head_dim] */
val flash_attn_func(struct run *r, val q, val k, val v)
{
    ASKED_VVV(r, flash_attn_func, q, k, v);
    struct pins p = {0};
    val in[3] = {q, k, v}, out;
    struct attended shape;

    if (run_dead(r))
        return 0;
    for (int i = 0; i < 3; i++)
        pin(r, &p, in[i]);
    shape = (struct attended){size_of(r, q, 0), size_of(r, q, 2), size_of(r, q, 1), size_of(r, k, 1), size_of(r, q, 3), true};
    out = flash_package(r, OP_FLASH_ATTN, in, 0, shape, SHAPE(shape.batch, shape.heads, shape.queries));
    unpin(r, &p);
    return out;
}

/* mha_varlen_fwd: [tokens, heads, head_dim]; the cumulative lengths are saved too, once for queries and keys. A longest row's length that is a tensor
 * is an attribute of ctx, which nobody releases before the node itself dies. */
val flash_attn_varlen(struct run *r, val q, val k, val v, val cumulative, int64_t rows, val longest)
{
    ASKED(r, flash_attn_varlen, 5, ((const val[]){q, k, v, cumulative, longest}), 1, &rows);
    val in[3] = {q, k, v}, out;
    int64_t tokens;
    uint32_t node;

    if (run_dead(r))
        return 0;
    tokens = size_of(r, q, 0);
    out = flash_package(r, OP_FLASH_VARLEN, in, cumulative,
                        (struct attended){rows, size_of(r, q, 1), div_up(tokens, rows), div_up(size_of(r, k, 0), rows), size_of(r, q, 2), true},
                        SHAPE(size_of(r, q, 1), tokens));
    node = out ? r->values[out].node : 0;
    if (node && longest) {
        value_ref(r, longest);
        r->nodes[node].accumulated = longest;
    }
    return out;
}
