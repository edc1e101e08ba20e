/*
 * gpu_name.h - a GPU as people write it.
 *
 * Purpose   "4090", "NVIDIA Tesla V100", "RTX 4090 24GB", "a100 (80GB)", "2x RTX 3090" -> a row of data/gpus.csv, and what was read beside its name.
 * Rules     a name as gpu_find() takes it comes first; then makers' and series' words before it are dropped, a size behind it chooses among the boards of
 *           that name, and the end of a name that only one board has ("4090") is enough. Of several boards that a name without a size means, the one that
 *           has it as an alias is taken, unless it has less memory than is said to be free.
 * Threads   const tables.
 */
#ifndef CATALOG_GPU_NAME_H
#define CATALOG_GPU_NAME_H

#include "catalog/gpus.h"

enum { GPU_OTHERS_BYTES = 200 };

struct gpu_reading {
    const struct gpu *gpu;         /* NULL: no board is called so */
    unsigned count;                /* "2x": how many; 0: it does not say */
    bool is_choice, by_free_bytes; /* several boards are called so; what was said to be free decided */
    bool differ;                   /* one of them has much more memory */
    char others[GPU_OTHERS_BYTES]; /* the others' names; of a size that none of them has, theirs: "A100-40GB SXM, .." */
};

/* free_bytes: of each GPU; 0: not said. */
struct gpu_reading gpu_read_name(const char *text, uint64_t free_bytes);

#endif
