#include "server/memory.h"

#include "server/clock.h"

#include <stdatomic.h>

#ifdef __GLIBC__
#include <malloc.h>

enum {
    OWN_PAGES_BYTES = 128 << 10, /* blocks of more have pages of their own, which go back at once. Said, it stays; unsaid, it grows to 32 MiB */
    ARENAS = 4,                  /* of malloc: each keeps what its threads left. Default: eight a core */
    TRIM_MS = 5000,
};

void memory_begin(void)
{
    (void)mallopt(M_MMAP_THRESHOLD, OWN_PAGES_BYTES);
    (void)mallopt(M_ARENA_MAX, ARENAS);
}

static _Atomic bool is_due; /* one was asked for too soon after another */

void memory_trim(bool at_once)
{
    static _Atomic uint64_t last_ms;
    uint64_t now = clock_ms(), last = atomic_load(&last_ms);
    bool may = at_once || now - last >= TRIM_MS;

    atomic_store(&is_due, !may);
    if (may && atomic_compare_exchange_strong(&last_ms, &last, now))
        (void)malloc_trim(0);
}

void memory_trim_if_due(void)
{
    if (atomic_load(&is_due))
        memory_trim(false);
}
#else
void memory_begin(void)
{
}

void memory_trim(bool at_once)
{
    (void)at_once;
}

void memory_trim_if_due(void)
{
}
#endif
