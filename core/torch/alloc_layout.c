/* alloc_layout.c - where blocks lie: for snapshots. See alloc.h. */
#include "torch/alloc_inside.h"

void torch_alloc_watch(struct torch_alloc *t, const struct torch_alloc_watch *watch)
{
    t->watch = watch;
}

uint64_t torch_alloc_address(const struct torch_alloc *t, uint32_t handle)
{
    const struct block *b;

    if (handle >= t->n_live || !t->live[handle])
        return 0;
    b = &t->blocks[t->live[handle]];
    return alloc_address(t, b->at, b->stream, b->small);
}

/* A chain of neighbours: one segment, or the mapped stretches of one that is expandable. */
static void see_chain(const struct torch_alloc *t, uint32_t first, void (*see)(void *of, const struct torch_block *b), void *of)
{
    bool begins = true;

    for (uint32_t i = first; i; i = t->blocks[i].next) {
        const struct block *b = &t->blocks[i];
        struct torch_block told = {
            alloc_address(t, b->at, b->stream, b->small), b->bytes, b->free ? 0 : b->asked_bytes, b->stream, b->small, b->free, begins};

        begins = !b->mapped;
        if (b->mapped)
            see(of, &told);
    }
}

static void see_expandable(const struct torch_alloc *t, const struct pool *p, void (*see)(void *of, const struct torch_block *b), void *of)
{
    for (unsigned stream = 0; stream < TORCH_ALLOC_STREAMS; stream++)
        see_chain(t, p->first[stream], see, of);
}

enum err_code torch_alloc_each_block(const struct torch_alloc *t, struct arena *scratch, void (*see)(void *of, const struct torch_block *b),
                                     void *of, struct err *err)
{
    unsigned char *mark = scratch->cur;
    bool *gone = arena_array(scratch, bool, t->fresh);

    if (!gone)
        return err_set(err, ERR_NOMEM, "", "no room for the blocks of a snapshot");
    for (uint32_t b = t->spare; b; b = t->blocks[b].next)
        gone[b] = true;
    if (t->expandable) {
        see_expandable(t, &t->small, see, of);
        see_expandable(t, &t->large, see, of);
    }
    for (uint32_t b = NO_NODE + 1; !t->expandable && b < t->fresh; b++)
        if (!gone[b] && !t->blocks[b].prev)
            see_chain(t, b, see, of);
    arena_rewind(scratch, mark);
    return ERR_OK;
}
