/*
 * attention.c - rates of flash attention by whose kernel it is, GPU and width of a head: forward and backward together, long sequences.
 *
 * A causal kernel computes whole tiles along the diagonal: at s tokens it reaches s / (s + 512) of its rate, whatever the GPU and the width. That and
 * the rows of FlashAttention 2 on A100 and H100 are read off figures 4 and 7 of its paper (arXiv 2307.08691) by tests/data/accuracy/attention_rates.py,
 * with the other rows and the rows of runs that they come from; cuDNN's kernels need longer rows for theirs. Other boards of a kind: by what
 * their best products are to this one's.
 */
#include "perf/kernel.h"

enum { WIDE_HEAD = 96 };

static const struct row {
    enum flash_kernel kernel;
    unsigned capability;       /* from it on */
    double best_products;      /* TFLOPS of the board that was measured */
    double narrow, wide;       /* TFLOPS, heads of 64 and of 128 */
    double causal_start;
} rows[] = {
    {FLASH_2, 80, 271.2, 176, 197, 512},  /* A100-80GB: the paper */
    {FLASH_2, 86, 124, 93, 93, 512},      /* RTX A6000: prime-rl, Qwen3-0.6B at 8,192 and 65,536 tokens */
    {FLASH_2, 90, 794.5, 290, 331, 512},  /* H100: the paper */
    {FLASH_2, 100, 1745, 347, 347, 512},  /* B200: prime-rl, Qwen3-4B at 16,384 and 65,536 tokens */
    {FLASH_2, 120, 124, 93, 93, 512},     /* none was found: as 8.6 */
    {FLASH_3, 90, 794.5, 606, 606, 512},  /* H100: prime-rl, two Qwen3 at 16,384 and 65,536 tokens */
    {FLASH_CUDNN, 90, 794.5, 480, 644, 1344},    /* H100, measured by make_measured.py; an H200 of cudnn-frontend's benchmarks: 659 */
    {FLASH_CUDNN, 100, 1745, 1237, 1656, 1568}, /* GB200, cudnn-frontend's benchmarks; heads of 64 as on the H100 to those of 128 */
    {FLASH_1, 80, 271.2, 104, 104, 0},  /* A100: llm-foundry, Triton's kernel, 512 to 65,536 tokens */
    {FLASH_1, 90, 794.5, 168, 168, 0},  /* H100: the same times what the paper's FlashAttention 1 gains from A100 to H100 */
    {FLASH_1, 120, 271.2, 104, 104, 0},
};

enum { ROWS = sizeof rows / sizeof *rows };

struct flash_rate flash_rate(const struct rates *r, enum flash_kernel kernel, enum dtype dtype, unsigned head_dim)
{
    const struct row *found = NULL;
    double tflops;

    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].kernel == kernel && (!found || rows[i].capability <= r->system->capability))
            found = &rows[i];
    tflops = head_dim >= WIDE_HEAD ? found->wide : found->narrow;
    return (struct flash_rate){tflops * r->best_per_s[dtype] / found->best_products, found->causal_start};
}
