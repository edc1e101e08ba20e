/*
 * float8.c - torchao's Float8Linear beside F.linear, which it computes with the same tensors and these on top. torchao 0.18.0 float8/float8_linear.py
 * matmul_with_hp_or_float8_args, float8_scaling_utils.py, float8_utils.py
 */
#include "torch/autograd.h"
#include "torch/ops.h"

/* hp_tensor_to_float8_dynamic: amax of abs(); to(float32) * scale; clamp; to(float8), which is what stays. */
static uint32_t cast_to_float8(struct run *r, val v)
{
    uint64_t n = (uint64_t)numel(r, v);
    uint32_t whole, scaled, clamped, kept;

    scratch(r, OP_ABS, n * (uint64_t)dtype_bytes(dtype_of(r, v)));
    whole = scratch_take(r, OP_TO_COPY, 4 * n, MARK_NONE);
    scaled = scratch_take(r, OP_MUL, 4 * n, MARK_NONE);
    scratch_give(r, whole);
    clamped = scratch_take(r, OP_CLAMP, 4 * n, MARK_NONE);
    kept = scratch_take(r, OP_TO_COPY, n, MARK_NONE);
    scratch_give(r, clamped);
    scratch_give(r, scaled);
    return kept;
}

val float8_linear(struct run *r, val x, val weight, val bias)
{
    uint32_t input, other;
    val out;

    if (run_dead(r))
        return 0;
    input = cast_to_float8(r, x);
    other = cast_to_float8(r, weight);
    r->in_float8 = true;
    out = linear_op(r, x, weight, bias);
    r->in_float8 = false;
    scratch_give(r, other);
    scratch_give(r, input);
    return out;
}

/* The gradient by rows and by columns, the weight, the input: locals until backward returns. */
void float8_casts(struct run *r, val grad, val input, val weight, uint32_t ret[FLOAT8_CASTS])
{
    const val of[FLOAT8_CASTS] = {grad, weight, input ? grad : 0, input};

    for (int i = 0; i < FLOAT8_CASTS; i++)
        ret[i] = of[i] && !run_dead(r) ? cast_to_float8(r, of[i]) : 0;
}

void float8_ends(struct run *r, const uint32_t held[FLOAT8_CASTS])
{
    for (int i = FLOAT8_CASTS; i-- > 0;)
        if (held[i])
            scratch_give(r, held[i]);
}
