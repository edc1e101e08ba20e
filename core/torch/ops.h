/*
 * ops.h - ATen operators as models call them. Names, argument order and defaults are torch's.
 *
 * Every function takes values and returns a temporary; temporaries among its arguments die when it has run. C leaves the order
 * of a call's arguments open: at most one operator among them.
 */
#ifndef TORCH_OPS_H
#define TORCH_OPS_H

#include "torch/run.h"
#include "torch/views.h"

/* elementwise */
val add(struct run *r, val a, val b);
val sub(struct run *r, val a, val b);
val mul(struct run *r, val a, val b);
val divide(struct run *r, val a, val b);
val add_scalar(struct run *r, val a); /* x + 1.0, 1.0 + x */
val sub_scalar(struct run *r, val a); /* x - 1.0 */
val rsub_scalar(struct run *r, val a); /* 1.0 - x */
val mul_scalar(struct run *r, val a); /* x * 0.5 */
val mul_scalar_in_place(struct run *r, val a); /* x *= number: the same storage, a node of its own */
val div_scalar(struct run *r, val a);
val neg(struct run *r, val a);
val pow_scalar(struct run *r, val a, double exponent);
val rsqrt(struct run *r, val a);
val tanh_op(struct run *r, val a);
val unary_op(struct run *r, enum op op, val a); /* OP_EXP, OP_LOG, OP_SQRT, OP_ERF, OP_SIGMOID, OP_HARDTANH, OP_MISH .. */
val cos_op(struct run *r, val a);
val sin_op(struct run *r, val a);
val silu(struct run *r, val a);
val gelu(struct run *r, val a);
val relu(struct run *r, val a);
val gelu_function(struct run *r, val x); /* modeling_bloom.py GeLUFunction, an autograd.Function of its own */
val to_dtype(struct run *r, val a, enum dtype dtype); /* the same tensor when it has that dtype */
val to_dtype_contiguous(struct run *r, val a, enum dtype dtype); /* memory_format=torch.contiguous_format: a copy lies in the order of its dimensions */
val clone(struct run *r, val a);
val contiguous(struct run *r, val a); /* the same tensor when it is */
val extreme_of_two(struct run *r, enum op op, val a, val b); /* torch.max(a, b), torch.min(a, b): OP_MAXIMUM, OP_MINIMUM; b wants no gradient */
void make_channels_last(struct run *r, val v);          /* of what was just born: its strides */
bool suggests_channels_last(const struct run *r, val v); /* TensorBase::suggest_memory_format() */
enum dtype promoted(const struct run *r, val a, val b);
val masked_clone(struct run *r, val a, val mask); /* without a node */
val masked_fill(struct run *r, val a, val mask);
val where(struct run *r, val condition, val a, val b);
val compare(struct run *r, enum op op, val a, val b); /* bool; b may be 0: a scalar */
val pointwise_op(struct run *r, enum op op, enum dtype dtype, val a, val b); /* no gradient; b may be 0 */
val dropout(struct run *r, val a, double p); /* in training; p = 0 returns its argument */

/* without inputs */
val empty(struct run *r, enum dtype dtype, int ndim, const int64_t *size);
val factory(struct run *r, enum op op, enum dtype dtype, int ndim, const int64_t *size); /* OP_ZEROS, OP_FULL, OP_ARANGE .. */
val no_elements(struct run *r, enum dtype dtype); /* of one dimension; nothing is allocated */
val factory_like(struct run *r, enum op op, enum dtype dtype, val like); /* laid out as it is: zeros_like, empty_like */

/* reductions */
val mean_last(struct run *r, val a);              /* mean(-1, keepdim=True) */
val argmax(struct run *r, val a, int dim, bool keepdim);
val sum_all(struct run *r, val a);                /* sum() */
val cumsum(struct run *r, val a, int dim);         /* of integers */
val cumsum_as(struct run *r, val a, int dim, enum dtype dtype);
val cumsum_raw(struct run *r, val a, int dim, enum dtype dtype); /* without a node */
val clamp_op(struct run *r, val a, bool min, bool max); /* which of them are given */
val sum_dim(struct run *r, val a, int dim, bool keepdim);
val sum_dims(struct run *r, val a, unsigned dims, bool keepdim);  /* dims: a bit for each */
val mean_dims(struct run *r, val a, unsigned dims, bool keepdim);
void unbind(struct run *r, val a, int dim, val *ret);             /* ret: as many temporaries as the dimension is long, views of one storage */
/* Of fp32 with two elements in the last dimension; of complex64. */
val view_as_complex(struct run *r, val a);
val view_as_real(struct run *r, val a);
val log_softmax(struct run *r, val a, enum dtype dtype);
val logsumexp(struct run *r, val a, int dim);
val softmax(struct run *r, val a, enum dtype dtype); /* over the last dimension; dtype = DTYPE_COUNT: as it is */
val cross_entropy(struct run *r, val logits, val target); /* [rows, classes], [rows] */
void cublas_workspace(struct run *r, enum op op); /* what a call of cuBLAS takes beside its operands */
struct conv1d_how {
    int64_t padding, stride, dilation;
};
val conv1d_depthwise(struct run *r, val x, val weight, val bias, struct conv1d_how how); /* [batch, channels, length], each channel with filters of its own */
val pad_constant(struct run *r, val a, const int64_t *size, bool grows);             /* to that size; grows: some pad is more than nothing */
val pad_raw(struct run *r, val a, const int64_t *size, bool grows);                  /* without its node */
val layer_norm(struct run *r, val x, val weight, val bias);
val rms_norm_op(struct run *r, val x, val weight); /* fused: of one dtype. weight 0: none */

/* matrix products */
val matmul(struct run *r, val a, val b);
val bmm(struct run *r, val a, val b);
val addmm(struct run *r, val bias, val a, val b);
void mm_into(struct run *r, enum op op, val out, val a, val b); /* OP_MM, OP_ADDMM with out=: no graph; OP_ADDMM adds to what stands there */
val baddbmm(struct run *r, val input, val a, val b, bool scaled); /* scaled: alpha is not 1 */
val linear_op(struct run *r, val x, val weight, val bias); /* F.linear */
val float8_linear(struct run *r, val x, val weight, val bias); /* float8.c */
enum { FLOAT8_CASTS = 4 };
void float8_casts(struct run *r, val grad, val input, val weight, uint32_t ret[FLOAT8_CASTS]);
void float8_ends(struct run *r, const uint32_t held[FLOAT8_CASTS]);
val linear_function(struct run *r, val x, val weight, val bias); /* what stands in its place where run.linear_is_function */

/* attention kernels: q, k, v of [batch, heads, seq, head_dim]. What else F.scaled_dot_product_attention takes is natives/library/_attention.py's. */
enum attention_way { ATTENTION_KERNEL, ATTENTION_PADDED, ATTENTION_AS_ONE, ATTENTION_BY_HAND };
enum attention_way attention_way(const struct run *r, const val in[4], double dropout_p, bool causal, bool enable_gqa); /* q, k, v, mask */
val scaled_dot_product_attention(struct run *r, val q, val k, val v, val mask, double dropout_p, bool causal, bool enable_gqa);
val flash_attention(struct run *r, val q, val k, val v, double dropout_p, bool causal); /* that kernel, whichever would be chosen */
val float_mask(struct run *r, val mask, enum dtype dtype); /* of bool: zeros and infinities; another is itself */

val flash_attn_func(struct run *r, val q, val k, val v); /* [batch, seq, heads, head_dim] */

/* q, k, v: [tokens, heads, head_dim] of `rows` sequences one behind another, `cumulative` lengths */
val mask_index(struct run *r, val x, int dim, val mask, int64_t n);            /* x[mask], which is true n times, of dimensions from `dim` on */
val index_pair(struct run *r, val x, val i, val j);
val masked_scatter(struct run *r, val x, val mask, val source, int64_t n);
val flash_attn_varlen(struct run *r, val q, val k, val v, val cumulative, int64_t rows, val longest); /* longest: 0 where it is a number */

/* embeddings, indexing */
val embedding_op(struct run *r, val weight, val ids, bool has_padding_idx);
val index_rows(struct run *r, val table, val ids); /* table[ids] of a table without gradient: aten::index */
val index_along(struct run *r, enum op op, val x, int dim, val indices); /* the same of another dimension */
val index_first(struct run *r, enum op op, val x, val indices); /* rows of x: OP_INDEX is x[indices], OP_INDEX_FIRST flash-attn's own */
val index_put_first(struct run *r, val x, val indices, int64_t rows); /* zeros of so many rows, those of x put among them */

/* routing to experts: experts.c */
void topk(struct run *r, val a, int dim, int64_t k, val ret[2]); /* values and places */
void extreme_dim(struct run *r, enum op op, val a, int dim, bool keepdim, val ret[2]); /* OP_MAX_DIM, OP_MIN_DIM */
val gather_op(struct run *r, val a, val index);
void sort_integers(struct run *r, val a, val ret[2]);   /* the same */
val grouped_mm(struct run *r, val a, val b, val offs);  /* [tokens, inner] times [experts, inner, columns] by group */

/* shapes */
val view(struct run *r, val a, int ndim, const int64_t *size);
val reshape(struct run *r, val a, int ndim, const int64_t *size);
val transpose(struct run *r, val a, int d0, int d1);
val t_op(struct run *r, val a);
val permute(struct run *r, val a, int ndim, const int *order);
val unsqueeze(struct run *r, val a, int dim);
val squeeze(struct run *r, val a, int dim);
val expand(struct run *r, val a, int ndim, const int64_t *size);
val slice(struct run *r, val a, int dim, int64_t start, int64_t end);
val as_strided(struct run *r, val a, int ndim, const int64_t *size, const int64_t *stride); /* a view without a node */
val slice_step(struct run *r, val a, int dim, int64_t start, int64_t end, int64_t step);
val index_slice(struct run *r, val a, int dim, int64_t start, int64_t end, int64_t step); /* Python's a[.., start:end:step] */
val select_op(struct run *r, val a, int dim, int64_t at);
void split(struct run *r, val a, int dim, int n, const int64_t *sizes, val *ret); /* ret: n temporaries, views of one storage */
void split_with_sizes(struct run *r, val a, int dim, int n, const int64_t *sizes, val *ret); /* a.split([..]) */
val cat(struct run *r, int n, const val *in, int dim);
val cat_to_empty(struct run *r, val a, enum dtype empty, int dim); /* cat([torch.tensor([]), a]): the empty one counts in the dtype */
val stack_op(struct run *r, int n, const val *in, int dim);
val detach(struct run *r, val a);

#define SHAPE(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__}

/* torch.autocast(dtype): casts of weights are kept until the outermost region is left */
void autocast_enter(struct run *r, enum dtype dtype);
void autocast_leave(struct run *r);

/* scratch of a reduction over `dims` of v, cuda/Reduce.cuh setReduceConfig; acc_bytes: size of what it accumulates in */
void reduce_scratch(struct run *r, enum op op, val v, unsigned dims, unsigned acc_bytes);

#endif
