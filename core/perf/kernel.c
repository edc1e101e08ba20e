#include "perf/kernel.h"

/* Tiles that cuBLAS's kernels have, largest first. */
static const struct {
    uint32_t rows, columns;
} tiles[] = {{256, 128}, {128, 256}, {128, 128}, {128, 64}, {64, 128}, {64, 64}};

enum { TILES = sizeof tiles / sizeof *tiles, SPLITS_MAX = 16 };

/* What a kernel reads was written just before, mostly: as much as the cache holds of it comes from there. */
static double moved_s(const struct rates *r, uint64_t bytes)
{
    double cached = smaller((double)bytes, r->cache_bytes);

    return ((double)bytes - cached * r->cached_share) * r->s_per_byte;
}

/* Of the best tile's rate: shared memory feeds a multiprocessor's tensor cores only so fast. */
static double tile_share(const struct rates *r, uint32_t rows, uint32_t columns)
{
    double reads = r->constants[PERF_TILE_READS];

    return (1 + reads * (1.0 / tiles[0].rows + 1.0 / tiles[0].columns)) / (1 + reads * (1.0 / rows + 1.0 / columns));
}

static inline uint32_t parts(uint32_t n, uint32_t of)
{
    return (n + of - 1) / of;
}

/* One tile shape: waves of tiles, each for its inner part; parts of a split product are written in fp32 and read again. */
static double tiled_s(const struct rates *r, const struct kernel *k, double share_s, uint64_t n, double area, unsigned splits)
{
    double inner = parts(k->inner, splits);
    double one_s = area * (inner + r->constants[PERF_INNER_START]) * r->multiprocessors / share_s;
    double parts_s = splits > 1 ? 8.0 * splits * k->rows * k->columns * k->batch * r->s_per_byte : 0;

    return ceil((double)(n * splits) / r->multiprocessors) * one_s + parts_s;
}

static double best_of_tile(const struct rates *r, const struct kernel *k, double per_s, size_t tile)
{
    uint32_t rows = tiles[tile].rows, columns = tiles[tile].columns;
    uint64_t n = (uint64_t)parts(k->rows, rows) * parts(k->columns, columns) * k->batch;
    double share_s = per_s * tile_share(r, rows, columns), area = 2.0 * rows * columns, best = tiled_s(r, k, share_s, n, area, 1);

    for (unsigned splits = 2; splits <= SPLITS_MAX && splits * 128 <= k->inner; splits *= 2) /* others are too short to be split */
        best = smaller(best, tiled_s(r, k, share_s, n, area, splits));
    return best;
}

static double product_s(const struct rates *r, const struct kernel *k)
{
    double per_s = r->products_per_s[k->dtype] * (k->unaligned ? r->constants[PERF_UNALIGNED_SHARE] : 1), best = INFINITY, memory = moved_s(r, k->bytes);

    for (size_t i = 0; i < TILES; i++)
        best = smaller(best, best_of_tile(r, k, per_s, i));
    return larger(best, memory);
}

static double kept_product_s(struct rates *r, const struct kernel *k)
{
    uint32_t hash = (k->rows * 31 + k->columns) * 31 + k->inner + k->batch;
    struct shape *s = &r->kept[(hash ^ hash >> 8) % SHAPES_KEPT];

    if (s->rows != k->rows || s->columns != k->columns || s->inner != k->inner || s->batch != k->batch || s->dtype != k->dtype ||
        s->unaligned != k->unaligned)
        *s = (struct shape){k->rows, k->columns, k->inner, k->batch, k->dtype, k->unaligned, product_s(r, k)};
    return s->seconds;
}

static double efficient_s(const struct rates *r, const struct kernel *k)
{
    return (double)k->flops / (r->products_per_s[k->dtype] * r->constants[PERF_EFFICIENT_SHARE]);
}

static double flash_s(const struct rates *r, const struct kernel *k)
{
    bool cudnn = k->op == OP_CUDNN_ATTENTION || k->op == OP_CUDNN_ATTENTION_BACKWARD;
    struct flash_rate f = flash_rate(r, cudnn ? FLASH_CUDNN : r->flash, (enum dtype)k->dtype, k->inner);

    return (double)k->flops * (1 + f.causal_start / k->rows) / f.flops_per_s;
}

static double attention_s(const struct rates *r, const struct kernel *k)
{
    bool efficient = k->op == OP_EFFICIENT || k->op == OP_EFFICIENT_BACKWARD;

    return larger(efficient ? efficient_s(r, k) : flash_s(r, k), moved_s(r, k->bytes));
}

/* Of packed factors, whose shape is not told: its words are unpacked on the way, as fast as a plain product at best. In fp32: in what is not told either. */
static double packed_product_s(const struct rates *r, const struct kernel *k)
{
    double per_s = k->dtype == DTYPE_FP32 ? 0 : r->products_per_s[k->dtype];

    return per_s > 0 ? larger(moved_s(r, k->bytes), (double)k->flops / per_s) : moved_s(r, k->bytes);
}

double kernel_s(struct rates *r, const struct kernel *k)
{
    double fixed = k->launches * r->constants[PERF_KERNEL_S];

    if (k->work == WORK_MATMUL)
        return fixed + (k->batch ? kept_product_s(r, k) : packed_product_s(r, k));
    if (k->work == WORK_ATTENTION)
        return fixed + attention_s(r, k);
    if (k->op == OP_BLOCKWISE_STEP)
        return fixed + larger(moved_s(r, k->bytes), (double)k->flops / (r->multiprocessors * r->constants[PERF_BLOCKWISE_FLOPS]));
    return fixed + moved_s(r, k->bytes);
}

/* What a board's power gives, of the dense peak: tensor cores of boards with little of it run at lower clocks. */
static double power_share(const double *constants, const struct perf_system *s)
{
    double per_joule = s->capability == 89   ? constants[PERF_ADA_FLOPS_PER_JOULE]
                       : s->capability == 90 ? constants[PERF_HOPPER_FLOPS_PER_JOULE]
                                             : 0;

    return per_joule > 0 && s->board_power_w > 0 ? s->board_power_w * per_joule / s->flops_per_s[DTYPE_BF16] : INFINITY;
}

/* Of the dense peak, where no single product was published for the GPU. */
static double best_share(const double *constants, const struct perf_system *s)
{
    if (s->best_products > 0)
        return s->best_products;
    return smaller(constants[s->geforce ? PERF_BEST_SHARE_GEFORCE : PERF_BEST_SHARE], power_share(constants, s));
}

void rates_of(const double *constants, const struct cost *c, const struct perf_system *s, struct rates *ret)
{
    struct rates r = {.constants = constants, .system = s, .flash = c->flash, .multiprocessors = s->multiprocessors};
    double best = best_share(constants, s);

    r.s_per_byte = 1 / (s->memory_bytes_per_s * constants[PERF_MEMORY_SHARE]);
    r.cache_bytes = (double)s->cache_bytes;
    r.host = s->geforce ? 1 : constants[PERF_SERVER_HOST];
    r.cached_share = 1 - 1 / constants[PERF_CACHE_SPEED];
    for (int t = 0; t < DTYPE_COUNT; t++) {
        r.best_per_s[t] = s->flops_per_s[t] * best;
        r.products_per_s[t] = r.best_per_s[t] * constants[PERF_PRODUCT_SHARE];
    }
    *ret = r;
}
