/* mxfp4.c - experts in mxfp4 on the device. See mxfp4.h. */
#include "tuning/mxfp4.h"

#include "torch/autograd.h"
#include "torch/ops.h"
#include "tuning/kbit_load.h"

#include <string.h>

enum { SHARE = 32, WORD = 4, CHUNK_ROWS = 32768 * 1024 }; /* weights of a scale; bytes that become one; rows_per_chunk of convert_moe_packed_tensors() */
enum { TILE_COLUMNS = 16, TILE_BYTES = 32 };              /* that HopperMXValueLayout pads to */

static struct param *beside(const struct param *p, const char *ending)
{
    size_t n = strlen(p->name);

    for (struct param *o = p->owner->params; o; o = o->next)
        if (!strncmp(o->name, p->name, n) && !strcmp(o->name + n, ending))
            return o;
    return NULL;
}

/* What a checkpoint has as `_blocks`. */
static struct param *scales_of(const struct param *p)
{
    return p->dtype == DTYPE_UINT8 && p->ndim == 3 ? beside(p, "_scales") : NULL;
}

static void count(void *context, struct module *m, struct param *p)
{
    struct param *scales = scales_of(p);

    (void)context;
    (void)m;
    if (!scales)
        return;
    p->stands_for = 2 * param_numel(p);
    scales->stands_for = -1;
}

void mxfp4_apply(struct tree *t)
{
    params_visit(t->root, count, NULL);
}

static val words(struct run *r, int64_t n)
{
    return owned(r, value_empty(r, OP_MXFP4_SWIZZLE, DTYPE_INT32, SHAPE(n)));
}

/* (x & bits) << by, (x >> by) & bits */
static val moved(struct run *r, int64_t n)
{
    val first = words(r, n), out = words(r, n);

    value_unref(r, first);
    return out;
}

static val joined(struct run *r, int64_t n, val a, val b)
{
    val out = words(r, n);

    value_unref(r, a);
    value_unref(r, b);
    return out;
}

/* _compress_fp4(), _compress_fourth(), of bytes or of a temporary of theirs */
static val compress(struct run *r, int64_t n, bool of_temporary, bool fourth)
{
    val bytes = of_temporary ? owned(r, value_empty(r, OP_MXFP4_SWIZZLE, DTYPE_UINT8, SHAPE(n))) : 0, x = words(r, n), out;

    value_unref(r, bytes);
    out = moved(r, n);
    out = joined(r, n, out, moved(r, n));
    if (fourth)
        out = joined(r, n, out, moved(r, n));
    value_unref(r, x);
    return out;
}

/* _pack_bits(): four times both halves of a byte, then one word of them */
static val pack_bits(struct run *r, int64_t n)
{
    val part[WORD] = {0}, out;

    for (int i = 0; i < WORD && !run_dead(r); i++) {
        val low = compress(r, n, false, i == WORD - 1), high = compress(r, n, true, i == WORD - 1), up;

        up = words(r, n); /* << 16 */
        value_unref(r, high);
        part[i] = joined(r, n, low, up);
    }
    if (run_dead(r))
        return 0;
    out = joined(r, n, 0, moved(r, n));
    out = joined(r, n, out, moved(r, n));
    out = joined(r, n, out, 0);
    for (int i = 0; i < WORD; i++)
        value_unref(r, part[i]);
    return out;
}

/* HopperMXValueLayout.swizzle_data(): padded, turned, packed anew. Elsewhere the kernels read what the checkpoint has. */
static void swizzle(struct run *r, struct param *p)
{
    int64_t n = p->size[0] * round_up(p->size[1], TILE_COLUMNS) * round_up(p->size[2], TILE_BYTES);
    val padded, turned, old = p->value, made;

    padded = owned(r, value_empty(r, OP_MXFP4_SWIZZLE, DTYPE_UINT8, SHAPE(n)));
    turned = owned(r, value_empty(r, OP_MXFP4_SWIZZLE, DTYPE_UINT8, SHAPE(n)));
    value_unref(r, padded);
    made = pack_bits(r, n / WORD);
    if (run_dead(r))
        return;
    value_unref(r, turned);
    mark_block(r, made, MARK_PARAMETER);
    p->value = made;
    value_unref(r, old);
}

/* Names of a checkpoint: a bias stands before its weight. */
static void load_bias(struct run *r, const struct param *p)
{
    struct param *bias = beside(p, "_bias");

    if (bias && !bias->value && !run_dead(r))
        kbit_place(r, OP_TO_COPY, bias);
}

static void load_packed(struct run *r, struct param *p, void *of)
{
    struct param *scales = scales_of(p);

    (void)of;
    if (p->value || p->tied || p->buffer || run_dead(r))
        return;
    run_owner(r, p->owner);
    load_bias(r, p);
    kbit_place(r, OP_TO_COPY, p);
    if (scales && !scales->value)
        kbit_place(r, OP_TO_COPY, scales);
    if (scales && r->device.cc_major == 9 && !run_dead(r))
        swizzle(r, p);
    run_owner(r, NULL);
}

void mxfp4_load(struct run *r, struct tree *t)
{
    kbit_load_by_name(r, t, load_packed, NULL);
}

/* ------------------------------------------------------------------------------------------------------------------ unpacked */
static val made(struct run *r, enum dtype dtype, int64_t n)
{
    return owned(r, value_empty(r, OP_MXFP4_UNPACK, dtype, SHAPE(n)));
}

/* (blk & 0x0F).to(torch.int): which of the sixteen values */
static val indices(struct run *r, int64_t n)
{
    val masked = made(r, DTYPE_UINT8, n), out = made(r, r->q->mxfp4_indexes_ints ? DTYPE_INT32 : DTYPE_INT64, n);

    value_unref(r, masked);
    return out;
}

/* sub[:, 0::2] = lut[idx_lo]: TensorAdvancedIndexing.cpp widens ints */
static void look_up(struct run *r, enum dtype dtype, int64_t n)
{
    val wide = r->q->mxfp4_indexes_ints ? made(r, DTYPE_INT64, n) : 0, found = made(r, dtype, n);

    value_unref(r, wide);
    value_unref(r, found);
}

static void unpack_chunk(struct run *r, enum dtype dtype, int64_t rows)
{
    int64_t half = rows * SHARE / 2;
    val low = indices(r, half), high;

    if (r->q->mxfp4_indexes_ints) { /* one half after the other */
        look_up(r, dtype, half);
        value_unref(r, low);
        low = indices(r, half);
        look_up(r, dtype, half);
        value_unref(r, low);
        return;
    }
    high = indices(r, half);
    look_up(r, dtype, half);
    look_up(r, dtype, half);
    value_unref(r, low);
    value_unref(r, high);
}

/* convert_moe_packed_tensors() */
static void unpack(struct run *r, struct param *p)
{
    int64_t n = param_numel(p), rows = n / SHARE;
    val blocks = made(r, DTYPE_UINT8, n / 2), scales = made(r, DTYPE_UINT8, rows), signs = made(r, DTYPE_INT32, rows), powers, table, out;

    powers = made(r, DTYPE_INT32, rows);
    value_unref(r, signs);
    table = made(r, p->dtype, 16);
    out = made(r, p->dtype, n);
    for (int64_t at = 0; at < rows && !run_dead(r); at += CHUNK_ROWS)
        unpack_chunk(r, p->dtype, rows - at < CHUNK_ROWS ? rows - at : CHUNK_ROWS);
    if (run_dead(r))
        return;
    kbit_place(r, OP_MXFP4_UNPACK, p); /* turned */
    value_unref(r, out);
    value_unref(r, table);
    value_unref(r, powers);
    value_unref(r, scales);
    value_unref(r, blocks);
}

static void load_unpacked(struct run *r, struct param *p, void *of)
{
    (void)of;
    if (p->value || p->tied || p->buffer || run_dead(r))
        return;
    run_owner(r, p->owner);
    load_bias(r, p);
    if (p->transposed && p->ndim == 3 && param_numel(p) % SHARE == 0)
        unpack(r, p);
    else
        kbit_place(r, OP_TO_COPY, p);
    run_owner(r, NULL);
}

void mxfp4_unpack(struct run *r, struct tree *t)
{
    kbit_load_by_name(r, t, load_unpacked, NULL);
}
