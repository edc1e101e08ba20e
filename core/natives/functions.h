/* functions.h - functions of torch that are methods of tensors too. Included by core/natives only. */
#ifndef NATIVES_FUNCTIONS_H
#define NATIVES_FUNCTIONS_H

#include "natives/tensor.h"

enum parts { PARTS_SPLIT, PARTS_CHUNK };
enum write { WRITE_ANY, WRITE_RANDOM, WRITE_ZERO, WRITE_FILL, WRITE_COPY, WRITE_MASKED };
enum unary_fn {
    UNARY_FN_ABS,
    UNARY_FN_FLOOR,
    UNARY_FN_NEG,
    UNARY_FN_COS,
    UNARY_FN_SIN,
    UNARY_FN_TANH,
    UNARY_FN_RSQRT,
    UNARY_FN_RELU,
    UNARY_FN_SILU,
    UNARY_FN_EXP,
    UNARY_FN_EXPM1,
    UNARY_FN_LOG,
    UNARY_FN_SQRT,
    UNARY_FN_SQUARE,
    UNARY_FN_ERF,
    UNARY_FN_SIGMOID,
    UNARY_FN_RELU6,
    UNARY_FN_MISH,
    UNARY_FN_LEAKY_RELU,
    UNARY_FN_HARDSWISH,
    UNARY_FN_ELU,
    UNARY_FN_SOFTPLUS,
    UNARY_FN_LOG_SIGMOID
};

script_fn f_pow, f_mean, f_sum, f_reduce_bool, f_extreme, f_cumsum, f_diff, f_masked_fill, f_unary, f_matmul, f_baddbmm, f_softmax, f_logsumexp,
    f_binary, f_compare, f_addmm, f_gelu, f_dropout, f_cross_entropy, f_pad, f_rsub, f_logical_not, m_repeat, f_repeat_interleave, f_gather, f_triangle,
    f_autocast_half, f_view_as, f_polar,
    f_unbind, f_clamp, f_topk, f_sort, f_histc, f_divide, f_bincount, f_grouped_mm, f_index_select, f_argmax, f_masked_scatter, m_write_with,
    m_scatter_, m_clamp_, m_unary_, m_formula_;

/* What torch.return_types has: values and indices; temporaries, taken. */
sv pair_of(struct script *s, struct run *r, val two[2], struct content values, struct content places);

/* A tuple of tensors; the parts are temporaries and taken. */
sv tensors_of(struct script *s, struct run *r, uint32_t n, val *parts, struct content c);

extern const struct script_module torch_module, functional_module;

sv masked_fill_followed(struct script *s, struct tensor *t, const struct script_args *a); /* of methods' rest: the mask, the value */

/* A formula of library/_formulas.py, in place. */
sv written_in_place(struct script *s, struct tensor *t, const char *name, uint32_t n, const sv *argv);

#endif
