/*
 * fsdp2_copies.c - tables of the fused copies: ATen/native/cuda/TensorShape.cu, pack_vecs() of int64 vectors, uploaded before the
 * kernel and dead after it.
 */
#include "parallel/fsdp2/inside.h"

enum { THREADS = 128, TILE = 16 * THREADS }; /* detail::BLOCK_SIZE, BYTES_PER_THREAD */

static uint64_t up(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

static uint64_t ceil_root(uint64_t n)
{
    uint64_t root = 0;

    while (root * root < n)
        root++;
    return root;
}

static uint64_t chunk_bytes(const struct fsdp2_param *p)
{
    return (uint64_t)p->shard_elems * dtype_bytes(p->compute);
}

/* Two addresses and a size for each split, a word for each block, and where each split's blocks begin. */
uint64_t fsdp2_split_table_bytes(const struct run *r, const struct fsdp2_unit *u)
{
    uint64_t chunks = u->all->ranks, tiles = 0, blocks = 0, iterations, chunks_per_block, tile;
    uint64_t most = (uint64_t)r->device.multiprocessors * r->device.threads_per_multiprocessor / THREADS * 2;

    for (uint32_t i = 0; i < u->n_params; i++)
        tiles += up(chunk_bytes(&u->params[i]), TILE);
    iterations = up(tiles * chunks, most ? most : 1);
    chunks_per_block = ceil_root(iterations);
    chunks_per_block = chunks_per_block < chunks ? chunks_per_block : chunks;
    tile = TILE * up(iterations, chunks_per_block);
    for (uint32_t i = 0; i < u->n_params; i++)
        blocks += up(chunk_bytes(&u->params[i]), tile);
    return 8 * (4 * (uint64_t)u->n_params + 1 + blocks);
}

/* get_chunk_cat_metadata: six words a tensor, a word for each block. */
void fsdp2_chunk(struct fsdp2_chunks *c, uint64_t bytes)
{
    c->longs += 6 + up(bytes, TILE);
}

uint64_t fsdp2_chunk_table_bytes(const struct fsdp2_chunks *c)
{
    return 8 * (c->longs + 2);
}
