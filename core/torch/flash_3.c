/*
 * flash_3.c - what FlashAttention 3's backward takes beside the gradients: flash-attention hopper/flash_api.cpp mha_bwd, flash_attn_interface.py. A
 * decoder's attention is causal; nothing of it was traced.
 */
#include "torch/autograd.h"

static int64_t head_rounded(int64_t d) /* round_up_headdim() */
{
    return d <= 64 ? 64 : d <= 96 ? 96 : d <= 128 ? 128 : d <= 192 ? 192 : 256;
}

/* kBlockM_*, kBlockN_* of a causal kernel without softcap */
struct tile {
    int64_t rows, columns;
};

static struct tile tile_of(const struct device *d, int64_t head)
{
    if (d->cc_major >= 9)
        return (struct tile){head <= 64 ? 128 : 64, head <= 128 ? 128 : head <= 192 ? 96 : 80};
    if (d->cc_minor == 6 || d->cc_minor == 9)
        return (struct tile){head <= 192 ? 64 : 32, head <= 96 ? 128 : head <= 128 ? 96 : 64};
    return (struct tile){head <= 64 ? 128 : 64, head <= 128 ? 128 : head <= 192 ? 80 : 64};
}

/* softmax_d, softmax_lse_log2, dq_accum, of grouped heads dk_accum and dv_accum, dq_semaphore; the last dies first, the others with the list that holds them */
void flash_3_backward(struct run *r, struct attended a, int64_t kv_heads, int64_t tokens)
{
    int64_t head = head_rounded(a.head_dim), rows, columns;
    struct tile t = tile_of(&r->device, head);
    uint32_t held[6] = {0};

    rows = tokens ? round_up(tokens + a.batch * t.rows, t.rows) : a.batch * round_up(a.queries, t.rows);
    columns = tokens ? round_up(tokens + a.batch * t.columns, t.columns) : a.batch * round_up(a.keys, t.columns);
    for (int i = 0; i < 2; i++)
        held[i] = scratch_take(r, OP_EMPTY, (uint64_t)(a.heads * rows * 4), MARK_NONE);
    held[2] = scratch_take(r, OP_EMPTY, (uint64_t)(a.heads * rows * head * 4), MARK_NONE);
    for (int i = 3; i < 5 && kv_heads != a.heads; i++)
        held[i] = scratch_take(r, OP_ZEROS, (uint64_t)(kv_heads * columns * head * 4), MARK_NONE);
    held[5] = scratch_take(r, OP_EMPTY, (uint64_t)(div_up(a.queries, t.rows) * a.batch * a.heads * 4), MARK_NONE);
    for (int i = 5; i >= 0; i--)
        scratch_give(r, held[i]);
}
