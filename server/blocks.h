/*
 * blocks.h - the blocks that jobs work in: who begins takes the one that was left last, whose pages are there.
 *
 * Purpose   threads come and go and jobs move from lane to lane, pages need not: what a block has in memory serves the next job, whichever thread has it.
 * Pages     stay while one job follows another, up to what most need; blocks_take_cold() hands out those that rest too long.
 * Owner     there are as many as threads, so that whoever works finds one.
 * Threads   the owner of struct blocks locks it, but for block_clear().
 */
#ifndef SERVER_BLOCKS_H
#define SERVER_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

struct block {
    struct block *next;
    void *memory; /* API_ARENA_BYTES of address space */
    bool is_touched; /* pages of it are resident */
    unsigned jobs;
    uint64_t left_ms; /* on the monotonic clock */
};

struct blocks {
    struct block *first; /* the one that was left last */
};

bool blocks_add(struct blocks *all); /* one more, untouched; false: there is no memory */
struct block *blocks_remove(struct blocks *all); /* the coldest, for block_destroy() */
struct block *blocks_take(struct blocks *all);
void blocks_leave(struct blocks *all, struct block *b);

/* One whose pages nobody has used for so long, for block_clear() and blocks_leave(); NULL: there is none. */
struct block *blocks_take_cold(struct blocks *all, uint64_t rests_ms);

void block_clear(struct block *b); /* its pages go back, it stays */
void block_destroy(struct block *b);

#endif
