#include "server/blocks.h"

#include "api/api.h"
#include "server/block.h"
#include "server/clock.h"

#include <stdlib.h>

static void put_last(struct blocks *all, struct block *b)
{
    struct block **at = &all->first;

    while (*at)
        at = &(*at)->next;
    b->next = NULL;
    *at = b;
}

bool blocks_add(struct blocks *all)
{
    struct block *b = malloc(sizeof *b);

    if (!b)
        return false;
    *b = (struct block){.memory = block_for_work(API_ARENA_BYTES)};
    if (!b->memory) {
        free(b);
        return false;
    }
    put_last(all, b);
    return true;
}

struct block *blocks_take(struct blocks *all)
{
    struct block *b = all->first;

    all->first = b->next;
    return b;
}

struct block *blocks_remove(struct blocks *all)
{
    struct block **at = &all->first, *b;

    while ((*at)->next)
        at = &(*at)->next;
    b = *at;
    *at = NULL;
    return b;
}

/* What has no pages waits behind what has. */
void blocks_leave(struct blocks *all, struct block *b)
{
    b->left_ms = clock_ms();
    if (!b->is_touched) {
        put_last(all, b);
        return;
    }
    b->next = all->first;
    all->first = b;
}

struct block *blocks_take_cold(struct blocks *all, uint64_t rests_ms)
{
    uint64_t now = clock_ms();

    for (struct block **at = &all->first, *b; (b = *at); at = &b->next)
        if (b->is_touched && b->left_ms + rests_ms <= now) {
            *at = b->next;
            return b;
        }
    return NULL;
}

void block_clear(struct block *b)
{
    block_empty(b->memory, API_ARENA_BYTES);
    b->is_touched = false;
}

void block_destroy(struct block *b)
{
    block_free(b->memory, API_ARENA_BYTES);
    free(b);
}
